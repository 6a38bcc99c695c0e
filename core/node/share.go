package node

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// share is what a node knows of how capacity is shared.
type share struct {
	ledger   schedule.Ledger
	order    schedule.Order
	accounts map[string]schedule.Account // at the last look
	next     map[string]schedule.Account // as far as a look under way has come
	epoch    int64                       // of the order that next is of
	unseen   []string                    // accounts that a look under way has not come to yet
	waiting  bool                        // jobs waited for slots then
	warned   bool
}

// ledgerMemory is how long charges are kept after they were stored: for runs of an interval that are under way,
// and for clocks that are set back, since what is stored only grows.
const ledgerMemory = time.Hour

// turn is how a run counts that ends now.
func (n *Node) turn(r *run) jobstore.Turn {
	n.charge(r)
	n.grow(r)
	ran := n.clock.Steady.Sub(r.since)
	invariant.Check(0 <= r.owed && r.owed <= ran, owesTime, int(r.owed), int(ran))
	return jobstore.Turn{Place: r.place, Owed: r.owed}
}

// charge notes what a run used of its slot until now.
func (n *Node) charge(r *run) {
	ran := n.clock.Steady.Sub(r.charged)
	if r.state == over || ran <= 0 {
		return
	}
	n.share.ledger.Add(r.account, ran, n.clock.Wall, n.cfg.Interval)
	if n.share.waiting {
		r.owed += ran
	}
	r.charged = n.clock.Steady
}

// grow brings the place of a run up to date.
func (n *Node) grow(r *run) {
	ran := n.clock.Steady.Sub(r.grown)
	if a, known := n.share.accounts[r.account]; known && ran > 0 {
		r.place = n.share.order.Next(r.place, ran, n.clock.Wall, a)
		r.grown = n.clock.Steady
	}
}

// chargeDue stores what the runs used, soon after the end of every interval, so that a quarter of an interval
// later it counts for all (see schedule.Forgetting).
func (n *Node) chargeDue() {
	if n.clock.Steady < n.timers.charge {
		return
	}
	for _, r := range n.runs {
		n.charge(r)
	}
	n.storeCharges()
	interval := instant.Time(max(n.cfg.Interval.Microseconds(), 1))
	left := time.Duration(interval-n.clock.Wall%interval) * time.Microsecond
	n.timers.charge = n.clock.Steady.Add(left + time.Duration(n.rng.Uint64n(uint64(n.cfg.Interval/8)+1)))
}

// storeCharges says whether everything is stored.
func (n *Node) storeCharges() bool {
	if asking[Charge](n) {
		return false
	}
	due := n.share.ledger.Due(n.cfg.Worker)
	if len(due) > 0 {
		n.ask(Charge{Charges: due})
	}
	return len(due) == 0
}

func (n *Node) charged(q Charge) {
	n.share.ledger.Stored(q.Charges, n.clock.Wall.Add(-ledgerMemory))
}

// rotateDue looks at the queue, once in an interval.
func (n *Node) rotateDue() {
	if n.lease != live || !n.due(&n.timers.rotate, n.cfg.Interval) || !n.accepts() {
		return
	}
	if asking[Survey](n) {
		return
	}
	n.share.unseen = nil
	asked := map[string]bool{}
	for _, r := range n.runs {
		if !asked[r.account] {
			asked[r.account] = true
			n.share.unseen = append(n.share.unseen, r.account)
		}
	}
	n.share.next = map[string]schedule.Account{}
	n.survey()
}

// survey asks for the next part of a look.
func (n *Node) survey() {
	some := n.share.unseen[:min(len(n.share.unseen), surveyLimit)]
	n.share.unseen = n.share.unseen[len(some):]
	n.ask(Survey{First: n.cfg.MaxChurn + max(0, n.cfg.MaxJobs-len(n.runs)), Accounts: some})
}

func (n *Node) onSurveyed(q Survey, s Surveyed) {
	if s.Order.Epoch != n.share.epoch {
		n.share.epoch = s.Order.Epoch
		clear(n.share.next) // what was read under another policy lacks what this one goes by
	}
	for i, name := range q.Accounts {
		n.share.next[name] = s.Accounts[i]
	}
	if len(n.share.unseen) > 0 && n.lease == live {
		n.survey()
		return
	}
	n.share.order, n.share.accounts = s.Order, n.share.next
	for _, r := range n.runs {
		if r.state != over {
			n.charge(r)
			n.grow(r)
		}
	}
	n.share.waiting = s.Ready > int64(max(0, n.cfg.MaxJobs-len(n.runs)))
	n.tune(s)
	n.rotate(s)
	n.hungry = n.hungry || s.Ready > 0
}

// tune keeps the memory of priorities in proportion to the queue. A clock of decay that was set by a node whose
// own was ahead would stand still; it is set anew.
func (n *Node) tune(s Surveyed) {
	if s.Order.Policy != schedule.FairShare {
		return
	}
	churn := n.cfg.MaxChurn * n.acceptors()
	want := s.Order.HalfLife(s.Ready, churn)
	if want != s.Order.Decay.HalfLife || n.clock.Wall < s.Order.Decay.Since.Add(-n.cfg.Interval) {
		askOnce(n, Tune{Seen: s.Order.Decay, HalfLife: want})
	}
	low := want < schedule.LeastHalfLife(s.Ready, churn, n.cfg.Interval)
	if low && !n.share.warned {
		n.note("priority_coeff_low", "", "%d jobs wait and %d give way in %s: priorities are forgotten before all have had their turn, "+
			"so shares are not kept; use priority_coeff = auto, or a higher max_churn", s.Ready, churn, n.cfg.Interval)
	}
	n.share.warned = low
}

// rotate stops the runs that give way to others.
func (n *Node) rotate(s Surveyed) {
	var candidates []*run
	var running []schedule.Running
	for _, r := range n.runs {
		if r.state == going {
			candidates = append(candidates, r)
			running = append(running, schedule.Running{Continuous: r.continuous, Since: r.since, Place: r.place})
		}
	}
	for _, i := range schedule.Rotate(s.Order.Policy, running, s.First, n.cfg.Limits, n.clock.Steady) {
		n.stopRun(candidates[i])
	}
}
