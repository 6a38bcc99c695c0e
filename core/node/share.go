package node

import (
	"cmp"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/prng"
	"couchrelay/core/schedule"
)

// share is what a node knows about how capacity is shared (RFC 017). What its runs use goes into the ledger
// and, once in an interval, into the store (step 1 of the RFC). What the accounts used comes back by a
// Survey, once in an interval too, and moves the places of the runs (step 3). Step 2, the decay, needs no
// work; see package schedule.
type share struct {
	ledger schedule.Ledger // what the runs of this process used
	// order and accounts are of the last complete survey. A survey comes in parts, of Batches.Survey accounts
	// each; next has the parts so far, read under the order of the epoch, and unseen the accounts that are
	// still to be asked for.
	order    schedule.Order
	accounts map[string]schedule.Account
	next     map[string]schedule.Account
	epoch    int64
	unseen   []string
	waiting  bool       // jobs waited for slots at the last survey, so that runs owe for their time
	warned   bool       // the log was told that priority_coeff is too low, and it still is
	rounds   roundClock // by which rounds of the queue end
}

// ledgerMemory is how long after the end of its interval the ledger keeps a charge that was stored. What the store
// has of a charge only grows, so a charge that is forgotten too early would begin at 0 again, and what is added to
// it would be lost. Until an interval is over its runs add to it, and so they do once more when the wall clock is
// set back.
const ledgerMemory = time.Hour

// chargesAtOnce bounds the charges of one transaction. A process that stood still for a day has one for each interval
// and account of that day.
const chargesAtOnce = 500

// turn brings a run that ends up to date and returns how its time counts.
func (n *Node) turn(r *run) jobstore.Turn {
	n.charge(r)
	n.grow(r)
	ran := n.clock.Steady.Sub(r.since)
	invariant.Check(0 <= r.owed && r.owed <= ran, owesTime, int(r.owed), int(ran))
	return r.turn()
}

func (r *run) turn() jobstore.Turn {
	return jobstore.Turn{Place: r.place, Owed: r.owed, Began: r.began}
}

// charge notes in the ledger how long the run has had its slot since it was last charged, by the steady
// clock. The interval to which that belongs is found by the wall clock.
func (n *Node) charge(r *run) {
	ran := n.clock.Steady.Sub(r.charged)
	if r.state == over || r.start != nil || ran <= 0 {
		return
	}
	n.share.ledger.Add(r.account, ran, n.clock.Wall, n.cfg.usageInterval())
	if n.share.waiting {
		r.owed += ran
	}
	r.charged = n.clock.Steady
}

// grow brings the place of a run up to date (RFC 017, step 3). It waits for a survey that knows the run's
// account. A run that has not begun, since an old run of its job still stops, does not use its slot.
func (n *Node) grow(r *run) {
	ran := n.clock.Steady.Sub(r.grown)
	if a, known := n.share.accounts[r.account]; known && r.start == nil && ran > 0 {
		a.Weight = r.job.Weight
		r.place = n.share.order.Next(r.turn(), ran, n.clock.Wall, a)
		r.grown = n.clock.Steady
	}
}

// chargeDue stores what the runs used, within an eighth of an interval after every interval's end by the
// wall clock. So it is there when the interval begins to count, a quarter of an interval after its end (see
// schedule.Forgetting.Counted).
func (n *Node) chargeDue() {
	if n.clock.Steady < n.timers.charge {
		return
	}
	for _, r := range n.runs {
		n.charge(r)
	}
	n.storeCharges()
	n.timers.charge = n.cfg.nextCharge(n.clock, &n.rng)
}

// nextCharge is a moment within an eighth of an interval after the end of the present one.
func (s *Settings) nextCharge(now Clock, rng *prng.Source) instant.Time {
	interval := instant.Time(max(s.usageInterval().Microseconds(), 1))
	left := time.Duration(interval-now.Wall%interval) * time.Microsecond
	return now.Steady.Add(left + time.Duration(rng.Uint64n(uint64(s.usageInterval()/8)+1)))
}

func (s *Settings) usageInterval() time.Duration { return cmp.Or(s.UsageInterval, s.Interval) }

// storeCharges has everything stored that is not, unless that is under way. It reports whether all is stored.
func (n *Node) storeCharges() bool {
	if asking[Charge](n) {
		return false
	}
	due := n.share.ledger.Due(n.cfg.Worker, chargesAtOnce)
	if len(due) > 0 {
		n.ask(Charge{Charges: due})
	}
	return len(due) == 0
}

func (n *Node) charged(q Charge) {
	n.share.ledger.Stored(q.Charges, n.clock.Wall.Add(-n.cfg.usageInterval()-ledgerMemory))
	if len(q.Charges) == chargesAtOnce {
		n.storeCharges() // there may be more
	}
}

// rotateDue begins a survey, once in an interval. Its answer makes the rotation.
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

// maxSurveyed bounds the ready jobs that a survey reads. A million, as max_jobs and max_churn may be, does not fit into
// the five seconds of a transaction, so a survey of so many would fail at every attempt, and no run would give way.
const maxSurveyed = 10_000

// survey asks for the next part of a survey. First is as many ready jobs as can get slots: those that are
// free, and those of the runs that may give way.
func (n *Node) survey() {
	some := n.share.unseen[:min(len(n.share.unseen), n.cfg.Batches.Survey)]
	n.share.unseen = n.share.unseen[len(some):]
	first := min(n.cfg.MaxChurn+max(0, n.cfg.MaxJobs-len(n.runs)), maxSurveyed)
	n.ask(Survey{First: first, Accounts: some})
}

// onSurveyed puts the numbers of a complete survey in force, for all runs at once, and rotates.
func (n *Node) onSurveyed(q Survey, s Surveyed) {
	if s.Order.Epoch != n.share.epoch {
		n.share.epoch = s.Order.Epoch
		clear(n.share.next) // the parts before were read under another policy, which needs other numbers
	}
	for i, name := range q.Accounts {
		n.share.next[name] = s.Accounts[i]
	}
	if len(n.share.unseen) > 0 && n.lease == live {
		n.survey()
		return
	}
	if s.Passed != "" && n.lease == live {
		n.ask(Survey{First: q.First, Behind: s.Passed})
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

// tune keeps the memory of priorities in proportion to the queue (priority_coeff = auto). It also sets the clock of
// decay anew, so that wall clocks which are set do no harm; see schedule.Decay.Stale. It warns when a fixed coefficient
// forgets too fast for the shares to be kept. Under tags it ends rounds of the queue that have been long enough.
func (n *Node) tune(s Surveyed) {
	loads, slots := n.fleet().loads, 0
	for _, l := range loads {
		slots += l.MaxJobs
	}
	churn := n.cfg.MaxChurn * len(loads)
	now := n.share.rounds.now(n.clock, s.Order.Round, n.cfg.Interval)
	if s.Order.RoundEnds(now, s.Ready, churn, slots, n.cfg.MinRun) {
		askOnce(n, EndRound{Seen: s.Order.Round})
	}
	if s.Order.Needs() != schedule.NeedsUsage {
		return
	}
	churn = schedule.Churn(churn, slots, n.cfg.Interval, n.cfg.MinRun)
	want := s.Order.HalfLife(s.Ready, churn)
	if want != s.Order.Decay.HalfLife || s.Order.Decay.Stale(n.clock.Wall, n.cfg.Interval) {
		askOnce(n, Tune{Seen: s.Order.Decay, HalfLife: want})
	}
	low := want < schedule.LeastHalfLife(s.Ready, churn, n.cfg.Interval)
	if low && !n.share.warned {
		n.note("priority_coeff_low", "", "%d jobs wait and %d give way in %s: priorities are forgotten before "+
			"all have had their turn, so shares are not kept; use priority_coeff = auto, or a higher max_churn",
			s.Ready, churn, n.cfg.Interval)
	}
	n.share.warned = low
}

// rotate has the runs give way to waiting jobs whose turn is over. When no job waits, and no slot is too many, those
// do whose jobs are to move to other nodes; while jobs wait, they move enough as it is. Runs for which there is no slot
// any more stop at once: an operator who lowers max_jobs waits for no documents.
func (n *Node) rotate(s Surveyed) {
	for _, r := range n.runs {
		if r.start != nil {
			r.unused(n) // a run that has not begun is the youngest of all
		}
	}
	if s.Ready == 0 && len(n.runs) <= n.cfg.MaxJobs {
		movers := n.fleet().movers(n.runs, n.cfg.Settings, n.clock.Steady)
		for _, r := range movers {
			r.giveWay(n)
		}
		if len(movers) > 0 {
			n.note("rebalanced", "", "%d of %d jobs go to nodes that run fewer", len(movers), len(n.runs))
		}
		return
	}
	var candidates []*run
	var running []schedule.Running
	var yields []*run
	for _, r := range n.runs {
		switch r.state {
		case yielding:
			yields = append(yields, r)
		case going:
			candidates = append(candidates, r)
			running = append(running, schedule.Running{Continuous: r.continuous, Since: r.since, Place: r.place})
		}
	}
	for len(yields) > 0 && len(yields)+len(running) > n.cfg.MaxJobs {
		// Reached: a run that gives way is stopped, as slots are fewer
		n.stopRun(yields[0])
		yields = yields[1:]
	}
	stops := schedule.Rotate(s.Order.Policy, running, len(yields), s.First, n.cfg.Limits, n.clock.Steady)
	excess := len(running) - n.cfg.MaxJobs
	for at, i := range stops {
		if at < excess {
			n.stopRun(candidates[i])
		} else {
			candidates[i].giveWay(n)
		}
	}
}
