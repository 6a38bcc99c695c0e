package oracle

import (
	"encoding/binary"
	"math"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// placement are the invariants of where jobs are queued, by each policy's definition: under fair share by a
// priority value that decays, under tags by the account's next tag, and under fifo by the time at which a job
// comes. Nothing is promised while an operator's change is under way: commits may still go by the former
// settings.
type placement struct {
	*chronicle
	expected map[string]place // by job, of jobs that are about to be made
	tails    map[string]int64 // the tag of the last turn of each account
	virtual  int64            // the greatest tag of a job that got a slot
	begun    []firstTag       // in the order of versions, each with a greater tag
}

// firstTag is where the tags of an account began that lay behind, as of a commit.
type firstTag struct{ version, tag int64 }

// place is where a new job should stand in the order.
type place struct {
	order       schedule.Order
	at          instant.Time // when the job is made
	least, most float64      // bounds of its priority value under fair share, if it had weight 1, of its key otherwise
	jobs, sum   float64      // of the account: its jobs with this one, and the weights of the others
	low, high   float64      // bounds of the floor under tags
	longest     float64      // way from there that counts
}

var placementSubject = subject{
	invariants: []Invariant{
		{"S10c", "A new job is queued where its account's usage, jobs and shares put it."},
		{"S10d", "Under tags, a turn costs its account the time in which others waited over its shares."},
		{"S10r", "Under tags, no account's tags begin before those of another one that paid earlier."},
		{"S10j", "A job that is queued again stands where its run stood, or under fifo behind all others; one " +
			"that may not run since another has its replication stands where it stood before its run."},
	},
	begin: func(c *chronicle) {
		p := &placement{chronicle: c, expected: map[string]place{}, tails: map[string]int64{}}
		c.on.jobChanged.add(func(j jobChange) { p.checkPlace(j.id, j.after) })
		c.on.jobMoved.add(p.dispatched)
		c.on.jobMoved.add(p.checkQueuedAgain)
		c.on.followed.add(p.checkCosts)
		c.on.placing.add(func(e placing) { p.expect(e.jobID, e.account) })
	},
}

// expect foretells the place of a job that is made at once, from the oracle's knowledge of its account. It
// asks the core for the settings and the store's numbers of tags, and not where the job belongs.
func (p *placement) expect(jobID, account string) {
	keys := p.w.Store().Keys
	order, err := p.w.Store().Order(p.w.Present())
	if err != nil || !p.sharing.settled(p.w.Now()) || !defined(order.Policy) {
		return
	}
	e := place{order: order, at: p.w.Now()}
	e.jobs, e.sum = p.populations[account].jobs+1, p.populations[account].weights
	switch order.Policy {
	case schedule.FIFO: // in front of all that had a turn
	case schedule.Tags:
		if p.anyReady() {
			return // tags begin at the first job that waits
		}
		tail := p.tails[account]
		least, most := order.Round.Base, max(p.stored(keys.Virtual), p.stored(keys.Floor), order.Round.Base)
		least = max(p.virtual, p.begunBy(math.MaxInt64), least)
		e.least, e.most = float64(max(tail, least)), float64(max(tail, most))
		e.low, e.high = float64(least), float64(most)
		e.longest = 2 * e.jobs * costOf(p.growthInterval(), p.sharing.sharesOf(account))
	default:
		if p.w.ClocksWereSet() {
			return // charges may be lost
		}
		usage := p.bills.decayed(account, order.Forgetting, e.at)
		shares := float64(p.sharing.sharesOf(account))
		e.least, e.most = (usage-imprecision(usage))/shares/shares, (usage+imprecision(usage))/shares/shares
	}
	p.expected[jobID] = e
}

// anyReady reports whether a job waits for a slot.
func (p *placement) anyReady() bool {
	for _, s := range p.shadows { // in any order
		if s.header != nil && s.header.Ready() {
			return true
		}
	}
	return false
}

// weigh makes the bounds those of a job of some weight: under fair share a value is as the sum of all weights to
// its own, and under tags the way from the floor as their mean.
func (e *place) weigh(weight float64) {
	sum := e.sum + weight
	switch e.order.Policy {
	case schedule.FairShare:
		e.least, e.most = e.least*sum/weight-1, e.most*sum/weight+1
	case schedule.Tags:
		if sum != e.jobs*weight {
			more := sum/e.jobs/weight - 1
			least := min(wayOf(e.least-e.low, e.longest)*more, wayOf(e.least-e.high, e.longest)*more)
			most := max(wayOf(e.most-e.low, e.longest)*more, wayOf(e.most-e.high, e.longest)*more)
			e.least, e.most = e.least+least-1, e.most+max(0, most)+1
		}
	}
}

// stored is a number of the store: new jobs begin no later than at the greatest tag that got a slot, or at which tags
// began, when none waits.
func (p *placement) stored(key []byte) int64 {
	row, _ := p.w.Present().Get(key)
	if len(row) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(row))
}

// checkPlace is S10c: under fair share a new job stands where the priority value of its account will have
// decayed to 1.
func (p *placement) checkPlace(jobID string, s *shadow) {
	want, is := p.expected[jobID]
	if !is || s.header == nil {
		return
	}
	delete(p.expected, jobID)
	got, err := placeOf(s.header.Priority)
	if err != nil {
		p.unreadable("place of job "+jobID, err)
		return
	}
	if got.Epoch != want.order.Epoch {
		p.Fail("S10c", "job %s is of epoch %d, which is %d", jobID, got.Epoch, want.order.Epoch)
	}
	key := float64(got.Key)
	want.weigh(weightOf(s.record))
	if want.order.Policy != schedule.FairShare {
		if key < want.least || key > want.most {
			p.Fail("S10c", "job %s stands at %d, which should be from %.0f to %.0f",
				jobID, got.Key, want.least, want.most)
		}
		return
	}
	const rounding = 1e-5
	clock := clockOf(want.order.Decay, want.at)
	least, most := clock+math.Log2(max(1, want.least)), clock+math.Log2(max(1, want.most))
	if key /= aHalfLife; key < least-rounding || key > most+rounding {
		p.Fail("S10c", "job %s stands at %f half-lives, which should be from %f to %f",
			jobID, key, least, most)
	}
}

// placeOf reads the place of a queued job.
func placeOf(priority []byte) (p schedule.Place, err error) {
	var created int64
	err = tuple.Subspace(nil).Scan(priority, &p.Epoch, &p.Key, &created)
	return p, err
}

// dispatched notes the tag of a job that got a slot.
func (p *placement) dispatched(j jobChange) {
	if _, is := j.Request.(node.Accept); !is || j.after.header.Lock == j.before.header.Lock {
		return
	}
	if p.sharing.Policy != schedule.Tags || !p.sharing.settled(p.w.Now()) {
		return
	}
	if stood, err := placeOf(j.before.header.Priority); err == nil && stood.Epoch == p.sharing.epoch {
		p.virtual = max(p.virtual, stood.Key)
	}
}

// checkCosts is S10d.
func (p *placement) checkCosts(l landing) {
	paid, tail := false, p.w.Store().Keys.Tail
	settled := p.sharing.Policy == schedule.Tags && p.sharing.settled(p.w.Now())
	for _, m := range l.Mutations {
		var account string
		if !tail.Contains(m.Key) || tail.Scan(m.Key, &account) != nil || len(m.Value) != 8 {
			continue
		}
		before, after := p.tails[account], int64(binary.LittleEndian.Uint64(m.Value))
		p.tails[account], paid = after, true
		if !settled {
			continue
		}
		cost := p.cost(l.Request, account)
		if after < before+cost {
			p.Fail("S10d", "the tags of %s move from %d to %d by %v, which costs %d",
				account, before, after, l.Request, cost)
		}
		p.checkBeginning(l, account, before, after-cost)
	}
	turn, ends := turnOf(l.Request)
	if ends && turn.Owed > 0 && !paid && len(l.jobs) > 0 && settled {
		held, _ := heldBy(l.Request)
		p.Fail("S10d", "job %s ran for %s while others waited, and pays nothing: %s",
			held.JobID, turn.Owed, l.Request)
	}
}

// checkBeginning is S10r. Where tags begin shows in a turn of an account whose own next tag was before.
func (p *placement) checkBeginning(l landing, account string, tail, begins int64) {
	if least := p.begunBy(l.Read); begins < least {
		p.Fail("S10r", "the tags of %s begin at %d by %v, and began at %d before", account, begins, l.Request, least)
	}
	switch l.Request.(type) {
	case node.Requeue, node.Crash: // of which each ends one turn, and makes no job
		if begins > max(tail, p.begunBy(math.MaxInt64)) {
			p.begun = append(p.begun, firstTag{l.Version, begins})
		}
	}
}

// begunBy is the greatest tag at which tags began, as a transaction sees it that reads as of a version.
func (p *placement) begunBy(version int64) (tag int64) {
	for _, b := range slices.Backward(p.begun) {
		if b.version <= version {
			return b.tag
		}
	}
	return 0
}

// turnOf is the turn that a request ends.
func turnOf(q node.Request) (t jobstore.Turn, ends bool) {
	e, ends := q.(node.EndsTurn)
	if !ends {
		return t, false
	}
	return e.EndedTurn(), true
}

// cost is by how much a request moves the tags of an account: its turn's microseconds at 100 shares, or an
// interval's when it makes a job.
func (p *placement) cost(q node.Request, account string) int64 {
	d := p.growthInterval()
	if turn, ends := turnOf(q); ends {
		d = turn.Owed
	}
	return d.Microseconds() * schedule.DefaultShares / p.sharing.sharesOf(account)
}

// checkQueuedAgain is S10j. Under tags a turn that owes something moves its job behind, as S10d says. A place
// of an epoch before means nothing under the policy of now. A run that had to leave its replication to another job
// was no turn.
func (p *placement) checkQueuedAgain(j jobChange) {
	standsBy := false
	switch j.Request.(type) {
	case node.StandBy:
		standsBy = true
	case node.Requeue, node.Crash:
	default:
		return // a request that ends a job for good may queue it as a new one
	}
	turn, _ := turnOf(j.Request)
	held, _ := heldBy(j.Request)
	if held.JobID != j.id || j.after.header.State != jobs.Pending || !p.sharing.settled(p.w.Now()) {
		return
	}
	order, err := p.w.Store().Order(p.w.Present())
	if err != nil {
		p.unreadable("the order of jobs", err)
		return
	}
	is, err := placeOf(j.after.header.Priority)
	if err != nil {
		p.unreadable("place of job "+j.id, err)
		return
	}
	stood := turn.Place
	want := is
	switch {
	case standsBy:
		if want, err = placeOf(j.before.header.Priority); err != nil {
			return // S3a judges what cannot be read
		}
	case order.Policy == schedule.FIFO:
		want = schedule.Place{Epoch: order.Epoch, Key: int64(j.Wall)}
	case stood.Epoch != order.Epoch, !defined(order.Policy):
	case order.Policy == schedule.FairShare || turn.Owed == 0:
		want = stood
	}
	if is != want {
		p.Fail("S10j", "job %s is queued at %+v under %s by %s, and should be at %+v",
			j.id, is, order.Policy, j.Request, want)
	}
}
