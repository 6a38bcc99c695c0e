package oracle

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// shares are the invariants of what accounts use, are charged with and owe.
type shares struct {
	*chronicle
	bills  map[payer]*bill
	placed map[string]placement // by job, of jobs whose places are foretold
	billed int                  // charges so far, of which some are checked
}

var shareSubject = subject{
	invariants: []Invariant{
		{"S9", "What accounts are charged is what their runs used, and what they owe is what they used while others waited."},
		{"S10", "Usage decays as defined, and gives jobs their places."},
	},
	begin: func(c *chronicle) {
		o := &shares{chronicle: c, bills: map[payer]*bill{}, placed: map[string]placement{}}
		c.on.landed.add(o.checkLeaves)
		c.on.landed.add(o.checkCharges)
		c.on.jobChanged.add(func(j jobChange) { o.checkPlace(j.id, j.after) })
		c.on.jobMoved.add(o.dispatched)
		c.on.followed.add(o.checkRuling)
		c.on.nodeStepped.add(o.chargesStepped)
		c.on.runEnded.add(o.turnEnded)
		c.on.placing.add(func(p placing) { o.expectPlace(p.jobID, p.account) })
		c.on.atRest.add(func(struct{}) {
			o.checkShares()
			o.checkInForce()
		})
	},
}

// bill is what a payer had, and what it was charged with.
type bill struct {
	turns   []turn // that are over, in the order of their ends
	had     time.Duration
	charges map[instant.Time]int64 // the greatest that landed, by interval
	charged time.Duration
}

// payer is an account on a process in one of its lives.
type payer struct{ worker, account string }

// turn is when a run held a slot.
type turn struct{ from, to instant.Time }

// lateness is how long a node may take to store what a run used: an interval and what it is spread by, then a
// transaction that is repeated for as long.
const lateness = 4

func (r *run) payer() payer { return payer{r.p.Worker(), r.Record().Account()} }

// bill finds or opens the bill of a payer.
func (o *shares) bill(p payer) *bill {
	b := o.bills[p]
	if b == nil {
		b = &bill{charges: map[instant.Time]int64{}}
		o.bills[p] = b
	}
	return b
}

// turnEnded notes how long a run had its slot.
func (o *shares) turnEnded(r *run) {
	b, t := o.bill(r.payer()), turn{r.Began(), o.w.Now()}
	b.turns = append(b.turns, t)
	b.had += t.to.Sub(t.from)
}

// charge notes what a payer is charged with for an interval.
func (b *bill) charge(at instant.Time, used int64) {
	if more := used - b.charges[at]; more > 0 {
		b.charges[at] = used
		b.charged += time.Duration(more) * time.Microsecond
	}
}

// held is how long runs of a payer held slots until a moment.
func (o *shares) held(p payer, until instant.Time) time.Duration {
	b := o.bill(p)
	sum := b.had
	for _, t := range slices.Backward(b.turns) {
		if t.to <= until {
			break
		}
		sum -= t.to.Sub(max(t.from, until))
	}
	for _, r := range o.runs {
		if r.payer() == p {
			sum += max(0, until.Sub(r.Began()))
		}
	}
	return sum
}

// checkCharges is the half of S9 that always holds: nobody is charged for more than what was had.
func (o *shares) checkCharges(l landing) {
	touched := map[payer]bool{}
	for _, m := range l.Mutations {
		c, ok := o.w.Store().ChargeRow(m.Key, m.Value)
		if !ok || len(m.Value) != 8 {
			continue
		}
		p := payer{c.Worker, c.Account}
		o.bill(p).charge(c.At, c.Used)
		touched[p] = true
	}
	o.checkCleared(l)
	if len(touched) == 0 || !o.sampled(&o.billed) {
		return
	}
	for _, p := range slices.SortedFunc(maps.Keys(touched), comparePayers) {
		if charged, held := o.bill(p).charged, o.held(p, o.w.Now()); charged > held {
			o.Fail("S9", "%s charges %s with %s, and its runs held slots for %s", p.worker, p.account, charged, held)
		}
	}
}

// checkCleared is a part of S10: whoever charges an account clears what nobody would count any more, and what clocks
// left there that were ahead.
func (o *shares) checkCleared(l landing) {
	q, is := l.Request.(node.Charge)
	if !is {
		return
	}
	f := o.ruling.Forgetting
	f.Interval = o.w.Config().Settings.Interval
	memory := time.Duration(math.Log(float64(f.Interval.Microseconds()))/math.Log(1e6/float64(f.Coeff))+3) * f.Interval
	for _, c := range q.Charges {
		rows, err := o.w.Store().Charges(o.w.Present(), c.Account)
		if err != nil {
			o.Fail("S10", "charges of %s: %v", c.Account, err)
		}
		for _, row := range rows {
			if off := row.At.Sub(l.Wall); max(off, -off) > memory && !slices.Contains(q.Charges, row) {
				o.Fail("S10", "at %s the charge of %s is kept, and charges count for %s", l.Wall, row.At, memory)
			}
		}
	}
}

func comparePayers(a, b payer) int {
	return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.account, b.account))
}

// checkShares is the other half of S9, that everything is charged which a living node had time to charge, and
// S10, that what counts of it is what the definition says. Both hold only while clocks were not set: what they
// lose then is lost. The counters of accounts are part of S3.
func (o *shares) checkShares() {
	w := o.w
	if err := w.Store().Audit(w.Present()); err != nil {
		o.Fail("S3", "%v", err)
	}
	if o.clocksWereSet() {
		return
	}
	late := o.w.Now().Add(-lateness * o.w.Config().Settings.Interval)
	accounts := map[string]bool{}
	for _, p := range o.nodes {
		for _, r := range p.runs {
			accounts[r.Record().Account()] = true
		}
	}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		for _, p := range o.nodes {
			if !p.Alive() || p.Draining() || max(p.PausedLast(), p.ReachesSince()) > late {
				continue
			}
			payer := payer{p.Worker(), account}
			if charged, held := o.bill(payer).charged, o.held(payer, late); charged < held && !o.charging(payer.worker) {
				o.Fail("S9", "%s charged %s with %s, and its runs held slots for %s until %s", payer.worker, account, charged, held, late)
			}
		}
		o.checkForgets(account)
		if o.ruling.Policy == schedule.FairShare { // the others look at no usage
			o.checkUsage(account)
		}
	}
}

// charging says whether a worker waits for the store to take its charges, as the trouble may have it do for a while
// after its end.
func (o *shares) charging(worker string) bool {
	for asked := range o.w.Asking() {
		if q, is := asked.(node.Charge); is && q.Charges[0].Worker == worker {
			return true
		}
	}
	return false
}

// checkUsage is S10: the usage of an account is the sum of its charges, each multiplied by the coefficient once
// for every interval since, but for truncation and what is less than a slot's millisecond.
func (o *shares) checkUsage(account string) {
	order, err := o.w.Store().Order(o.w.Present())
	if err != nil {
		o.Fail("S10", "%v", err)
		return
	}
	now := o.w.Now()
	list, err := o.w.Store().Accounts(o.w.Present(), []string{account}, order, now)
	if err != nil {
		o.Fail("S10", "usage of %s: %v", account, err)
		return
	}
	got, want := list[0], o.decayed(account, order, now)
	if math.Abs(float64(got.Usage)-want) > 1000+want/1e6 {
		o.Fail("S10", "usage of %s is %d at %s, and its charges decay to %.0f", account, got.Usage, now, want)
	}
}

// decayed is what is left of an account's charges.
func (o *shares) decayed(account string, order schedule.Order, now instant.Time) (sum float64) {
	number := func(t instant.Time) int64 { return int64(t) / order.Forgetting.Interval.Microseconds() } // of an interval
	last := number(now.Add(-order.Forgetting.Interval/4)) - 1
	for p, b := range o.bills {
		if p.account != account {
			continue
		}
		for at, used := range b.charges {
			if age := last - number(at); age >= 0 {
				sum += float64(used) * math.Pow(float64(order.Forgetting.Coeff)/1e6, float64(age))
			}
		}
	}
	return sum
}

// forgets is more intervals than a charge counts for.
const forgets = 100

// checkForgets is a part of S10: what counts no more is not kept.
func (o *shares) checkForgets(account string) {
	charges, err := o.w.Store().Charges(o.w.Present(), account)
	if err != nil || len(charges) == 0 {
		return
	}
	first, last := charges[0].At, charges[len(charges)-1].At
	if kept := last.Sub(first); kept > forgets*o.w.Config().Settings.Interval {
		o.Fail("S10", "charges of %s are kept for %s", account, kept)
	}
}

// placement is where a new job should stand in the order.
type placement struct {
	order       schedule.Order
	at          instant.Time // when the job is made
	least, most float64      // its priority value, or its key under other policies than fair share
}

// expectPlace foretells the place of a job that is made at once, from what the oracle knows of its account. It
// does not ask the core how.
func (o *shares) expectPlace(jobID, account string) {
	order, err := o.w.Store().Order(o.w.Present())
	if err != nil || !o.ruling.settled(o.w.Now()) {
		return
	}
	switch order.Policy {
	case schedule.FIFO:
		o.placed[jobID] = placement{order, o.w.Now(), 0, 0}
		return
	case schedule.Tags:
		for _, s := range o.shadows { // in any order
			if s.header != nil && s.header.Ready() {
				return // tags begin at the first job that waits
			}
		}
		tail := o.ruling.tails[account]
		row, _ := o.w.Present().Get(o.w.Store().Keys.Virtual)
		virtual := int64(0)
		if len(row) == 8 {
			virtual = int64(binary.LittleEndian.Uint64(row))
		}
		o.placed[jobID] = placement{order, o.w.Now(), float64(max(tail, o.ruling.virtual)), float64(max(tail, virtual))}
		return
	}
	if o.clocksWereSet() {
		return
	}
	count := 1.0
	for _, s := range o.shadows {
		if s.header != nil && !s.record.State.Terminal() && s.record.Account() == account {
			count++
		}
	}
	shares := float64(o.ruling.sharesOf(account))
	usage := o.decayed(account, order, o.w.Now())
	off := 1000 + usage/1e6 // by truncation
	o.placed[jobID] = placement{order, o.w.Now(), (usage-off)*count/shares/shares - 1, (usage+off)*count/shares/shares + 1}
}

// checkPlace is a part of S10: a new job stands where its account's priority value will have decayed to 1.
func (o *shares) checkPlace(jobID string, s *shadow) {
	expected, is := o.placed[jobID]
	if !is || s.header == nil {
		return
	}
	delete(o.placed, jobID)
	clock := clockOf(expected.order.Decay, expected.at)
	least, most := clock+math.Log2(max(1, expected.least)), clock+math.Log2(max(1, expected.most))
	var epoch, number, created int64
	if err := tuple.Subspace(nil).Scan(s.header.Priority, &epoch, &number, &created); err != nil {
		o.Fail("S10", "place of job %s: %v", jobID, err)
	}
	if epoch != expected.order.Epoch {
		o.Fail("S10", "job %s is of epoch %d, which is %d", jobID, epoch, expected.order.Epoch)
	}
	if expected.order.Policy != schedule.FairShare {
		if key := float64(number); key < expected.least || key > expected.most {
			o.Fail("S10", "job %s stands at %d, which should be from %.0f to %.0f", jobID, number, expected.least, expected.most)
		}
		return
	}
	const rounding = 1e-5
	if key := float64(number) / aHalfLife; key < least-rounding || key > most+rounding {
		o.Fail("S10", "job %s stands at %f half-lives, which should be from %f to %f", jobID, key, least, most)
	}
}

// charging is when a process charges accounts.
type charging struct {
	id   uint64        // of the request under way, or to be repeated; 0 when there is none
	late int           // in a row that came when all others may have charged
	off  time.Duration // of the wall clock from the steady one at the last one
}

// chargesStepped is a part of S9: nodes charge soon after intervals have ended by their wall clocks, since what comes later
// than a quarter of an interval is not counted with the others'. One that stood still, or whose clock was set, may be late.
func (o *shares) chargesStepped(s nodeStep) {
	p, ev, effects := s.p, s.ev, s.effects
	c := &p.charging
	if done, is := ev.(node.Done); is && done.ID == c.id && done.Fault == node.NoFault {
		c.id = 0
	}
	for _, e := range effects {
		ask, _ := e.(node.Ask)
		if _, is := ask.Request.(node.Charge); !is {
			continue
		}
		interval := instant.Time(o.w.Config().Settings.Interval.Microseconds())
		off := p.Clock().Wall.Sub(p.Clock().Steady)
		if past := p.Clock().Wall % interval; c.id != 0 || p.Draining() || c.off != off || past <= interval/4 {
			c.late = 0
		} else if c.late++; c.late >= many {
			o.Fail("S9", "%s charges accounts %s after the end of an interval of %s, for the %dth time", p.Name, time.Duration(past)*time.Microsecond, o.w.Config().Settings.Interval, c.late)
		}
		c.id, c.off = ask.ID, off
	}
}

// checkLeaves is a part of S9: a node that leaves in order has charged what its runs used.
func (o *shares) checkLeaves(l landing) {
	q, is := l.Request.(node.Retire)
	if !is || o.leases[q.Worker].gone {
		return
	}
	for p, b := range o.bills { // in any order: one is enough
		if charged, held := b.charged, o.held(p, o.w.Now()); isOf(q.Worker, p.worker) && charged < held && !o.clocksWereSet() {
			o.Fail("S9", "%s leaves, and charged %s with %s, though its runs held slots for %s", q.Worker, p.account, charged, held)
			return
		}
	}
}

// dispatched notes the tag of a job that got a slot.
func (o *shares) dispatched(j jobChange) {
	if _, is := j.Request.(node.Accept); is && j.after.header.Lock != j.before.header.Lock {
		o.ruling.dispatched(j.before.header.Priority, o.w.Now())
	}
}
