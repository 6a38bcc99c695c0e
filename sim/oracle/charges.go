package oracle

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// charges are the invariants of the amounts that accounts are charged with for the slots that their runs
// hold, and of how this decays to their usage. The upper bound holds always. The lower bounds hold only while
// no clock was set and no machine was suspended: a node charges by intervals of its wall clock, and time
// that a clock loses is lost.
type charges struct {
	*chronicle
	times int // that commits charged; some of them are checked
}

var chargeSubject = subject{
	invariants: []Invariant{
		{"S9a", "No account is charged for more time than its runs held slots."},
		{"S9b", "An account is charged for all that its runs used, within some intervals."},
		{"S9c", "A node charges accounts in the first quarter of each interval."},
		{"S9d", "A node that leaves in order has charged all that its runs used."},
		{"S10a", "Charges that do not count any more are cleared."},
		{"S10b", "The usage of an account is the sum of its charges, each times usage_coeff for every " +
			"interval since."},
	},
	begin: func(c *chronicle) {
		g := &charges{chronicle: c}
		c.on.landed.add(g.checkRetire)
		c.on.landed.add(g.landed)
		c.on.nodeStepped.add(g.nodeStepped)
		c.on.runEnded.add(g.turnEnded)
		c.on.atRest.add(func(struct{}) { g.checkAtRest() })
	},
}

// payer is an account on a node in one of the node's lives.
type payer struct{ worker, account string }

func (r *run) payer() payer { return payer{r.p.Worker(), r.Record().Account()} }

func comparePayers(a, b payer) int {
	return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.account, b.account))
}

// bill has the use of a payer's runs, and the charges to the payer.
type bill struct {
	turns   []turn                 // of runs that are over, in the order of their ends
	used    time.Duration          // by all turns
	charges map[instant.Time]int64 // microseconds by interval, of repeated charges the greatest
	charged time.Duration          // the sum of charges
}

// turn is from when until when a run held a slot.
type turn struct{ from, to instant.Time }

// bills has the bill of each payer.
type bills map[payer]*bill

// of finds or opens the bill of a payer.
func (all bills) of(p payer) *bill {
	b := all[p]
	if b == nil {
		b = &bill{charges: map[instant.Time]int64{}}
		all[p] = b
	}
	return b
}

// charge notes the amount that a payer is charged with for an interval. A charge that is repeated replaces
// the one before.
func (b *bill) charge(at instant.Time, used int64) {
	if more := used - b.charges[at]; more > 0 {
		b.charges[at] = used
		b.charged += time.Duration(more) * time.Microsecond
	}
}

// held is how long runs of a payer held slots until a moment.
func (g *charges) held(p payer, until instant.Time) time.Duration {
	b := g.bills.of(p)
	sum := b.used
	for _, t := range slices.Backward(b.turns) {
		if t.to <= until {
			break
		}
		sum -= t.to.Sub(max(t.from, until))
	}
	for _, r := range g.runs {
		if r.payer() == p {
			sum += max(0, until.Sub(r.Began()))
		}
	}
	return sum
}

// decayed is the rest of an account's charges at a moment, by the definition: an interval counts in full
// when it has been over for a quarter of an interval, and less by the coefficient with each one after.
func (all bills) decayed(account string, f schedule.Forgetting, now instant.Time) (sum float64) {
	number := func(t instant.Time) int64 { return int64(t) / f.Interval.Microseconds() } // of an interval
	last := number(now.Add(-f.Interval/4)) - 1
	for p, b := range all {
		if p.account != account {
			continue
		}
		for at, used := range b.charges {
			if age := last - number(at); age >= 0 {
				sum += float64(used) * math.Pow(float64(f.Coeff)/1e6, float64(age))
			}
		}
	}
	return sum
}

// imprecision bounds the loss of a usage by truncation to whole milliseconds of slots, in microseconds.
func imprecision(usage float64) float64 { return 1000 + usage/1e6 }

// turnEnded notes how long a run had its slot.
func (g *charges) turnEnded(r *run) {
	b, t := g.bills.of(r.payer()), turn{r.Began(), g.w.Now()}
	b.turns = append(b.turns, t)
	b.used += t.to.Sub(t.from)
}

// landed notes the charges of a commit, and checks S9a and S10a.
func (g *charges) landed(l landing) {
	charged := map[payer]bool{}
	for _, m := range l.Mutations {
		if c, ok := g.w.Store().ChargeRow(m.Key, m.Value); ok && len(m.Value) == 8 {
			p := payer{c.Worker, c.Account}
			g.bills.of(p).charge(c.At, c.Used)
			charged[p] = true
		}
	}
	g.checkCleared(l)
	if len(charged) == 0 || !g.sampled(&g.times) {
		return
	}
	for _, p := range slices.SortedFunc(maps.Keys(charged), comparePayers) {
		if charged, held := g.bills.of(p).charged, g.held(p, g.w.Now()); charged > held {
			g.Fail("S9a", "%s charges %s with %s, and its runs held slots for %s",
				p.worker, p.account, charged, held)
		}
	}
}

// checkCleared is S10a: a node that charges an account clears charges that are too old to count, and
// charges in the future, which clocks left that were ahead. It may keep the charge that it has just stored.
func (g *charges) checkCleared(l landing) {
	q, is := l.Request.(node.Charge)
	if !is {
		return
	}
	coeff, interval := g.sharing.Forgetting.Coeff, g.interval()
	// In so many intervals less than one microsecond is left of a whole one.
	intervals := math.Log(float64(interval.Microseconds())) / math.Log(1e6/float64(coeff))
	memory := time.Duration(intervals+3) * interval
	for _, c := range q.Charges {
		rows, err := g.w.Store().Charges(g.w.Present(), c.Account)
		if err != nil {
			g.unreadable("charges of "+c.Account, err)
		}
		for _, row := range rows {
			if off := row.At.Sub(l.Wall); max(off, -off) > memory && !slices.Contains(q.Charges, row) {
				g.Fail("S10a", "at %s the charge of %s is kept, and charges count for %s",
					l.Wall, row.At, memory)
			}
		}
	}
}

// checkAtRest is S9b, S10a and S10b, of accounts that have runs. Only fair share looks at usage.
func (g *charges) checkAtRest() {
	if g.w.ClocksWereSet() {
		return
	}
	accounts := map[string]bool{}
	for _, p := range g.nodes {
		for _, r := range p.runs {
			accounts[r.Record().Account()] = true
		}
	}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		g.checkCharged(account)
		g.checkSpan(account)
		if g.sharing.Policy == schedule.FairShare {
			g.checkUsage(account)
		}
	}
}

// interval is the period by which use is charged.
func (g *charges) interval() time.Duration {
	s := g.w.Config().Settings
	return cmp.Or(s.UsageInterval, s.Interval)
}

// chargeLate is within how many intervals a node stores the use of a run: one until the interval is over, one
// that charges are spread by, and as many for a transaction that is repeated.
const chargeLate = 4

// checkCharged is S9b. A node is excused that was paused, or cut off from the store, within that time, and
// one whose charges still wait for the store, as they may for a while after the trouble.
func (g *charges) checkCharged(account string) {
	until := g.w.Now().Add(-chargeLate * g.interval())
	for _, p := range g.nodes {
		if !p.Alive() || p.Draining() || max(p.PausedLast(), p.ReachesSince()) > until {
			continue
		}
		payer := payer{p.Worker(), account}
		charged, held := g.bills.of(payer).charged, g.held(payer, until)
		if charged < held && !g.isCharging(payer.worker) {
			g.Fail("S9b", "%s charged %s with %s, and its runs held slots for %s until %s",
				payer.worker, account, charged, held, until)
		}
	}
}

// isCharging reports whether charges of a worker wait for the store.
func (g *charges) isCharging(worker string) bool {
	for asked := range g.w.Asking() {
		if q, is := asked.(node.Charge); is && q.Charges[0].Worker == worker {
			return true
		}
	}
	return false
}

// maxSpan is more intervals than any charge counts for.
const maxSpan = 100

// checkSpan is S10a for an account as a whole.
func (g *charges) checkSpan(account string) {
	rows, err := g.w.Store().Charges(g.w.Present(), account)
	if err != nil {
		g.unreadable("charges of "+account, err)
	}
	if len(rows) == 0 {
		return
	}
	if span := rows[len(rows)-1].At.Sub(rows[0].At); span > maxSpan*g.interval() {
		g.Fail("S10a", "charges of %s are kept for %s", account, span)
	}
}

// checkUsage is S10b.
func (g *charges) checkUsage(account string) {
	order, err := g.w.Store().Order(g.w.Present())
	if err != nil {
		g.unreadable("the order of jobs", err)
		return
	}
	now := g.w.Now()
	list, err := g.w.Store().Accounts(g.w.Present(), []string{account}, order, now)
	if err != nil {
		g.unreadable("usage of "+account, err)
		return
	}
	got, want := list[0].Usage, g.bills.decayed(account, order.Forgetting, now)
	if math.Abs(float64(got)-want) > imprecision(want) {
		g.Fail("S10b", "usage of %s is %d at %s, and its charges decay to %.0f", account, got, now, want)
	}
}

// charging is when a node charges accounts.
type charging struct {
	id   uint64        // of the request under way, or to be repeated; 0 when there is none
	late int           // charges in a row that came after the first quarter of an interval
	off  time.Duration // of the wall clock from the steady one at the last charge
}

// nodeStepped is S9c. A charge that comes after a quarter of an interval is not counted with the charges of
// other nodes, and its account would seem to have used nothing. A node may be late for less than many times
// in a row, when it waits for an answer, is leaving, or when its wall clock was set since its last charge.
func (g *charges) nodeStepped(s nodeStep) {
	c := &s.p.charging
	if done, is := s.ev.(node.Done); is && done.ID == c.id && done.Fault == node.Committed {
		c.id = 0
	}
	for _, e := range s.effects {
		ask, _ := e.(node.Ask)
		if _, is := ask.Request.(node.Charge); !is {
			continue
		}
		interval, clock := g.interval(), s.p.Clock()
		off, past := clock.Wall.Sub(clock.Steady), time.Duration(clock.Wall)*time.Microsecond%interval
		if excused := c.id != 0 || s.p.Draining() || c.off != off; excused || past <= interval/4 {
			c.late = 0
		} else if c.late++; c.late >= many {
			g.Fail("S9c", "%s charges accounts %s after the end of an interval of %s, for the %dth time",
				s.p.Name, past, interval, c.late)
		}
		c.id, c.off = ask.ID, off
	}
}

// checkRetire is S9d. A node whose lease was lost is excused: another may have given its jobs away.
func (g *charges) checkRetire(l landing) {
	q, is := l.Request.(node.Retire)
	if !is || g.leases[q.Worker].gone || g.w.ClocksWereSet() {
		return
	}
	for p, b := range g.bills { // in any order: one is enough
		if held := g.held(p, g.w.Now()); isOf(q.Worker, p.worker) && b.charged < held {
			g.Fail("S9d", "%s leaves, and charged %s with %s, though its runs held slots for %s",
				q.Worker, p.account, b.charged, held)
			return
		}
	}
}
