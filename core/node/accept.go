package node

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobs"
)

// accept asks for as many jobs as there are free slots. There is one such request at a time, so that no
// slot is promised to two accepts. It is made when jobs may be ready (hungry): after a notification, a
// poll, a promotion or a freed slot.
func (n *Node) accept() {
	if n.due(&n.timers.poll, n.cfg.PollInterval) {
		n.hungry = true
	}
	free := n.cfg.MaxJobs - len(n.runs)
	if n.lease != live || !n.accepts() || n.accepting || !n.hungry || free <= 0 {
		return
	}
	d := jobs.Demand{Batch: n.batch, Max: min(free, acceptLimit), Seed: n.rng.Uint64()}
	if n.acceptors() > 1 {
		d.Window = max(acceptWindow, windowPerWorker*(len(n.others)+1))
	}
	n.accepting, n.hungry = true, false
	n.ask(Accept{Worker: n.worker, Node: n.name, Demand: d})
}

// onAccepted starts the jobs that came, spread over a little time. An accept that found nothing does not
// use up its batch number: an earlier attempt of it may still commit, and the next accept with the same
// number then returns its jobs.
func (n *Node) onAccepted(a Accepted) {
	invariant.Check(n.accepting, oneAccept)
	n.accepting = false
	if len(a.Work) == 0 {
		n.await(Await{Topic: ReadyJobs, Seen: a.Signal})
		return
	}
	n.batch++
	n.hungry = true
	window := min(n.cfg.StartupJitter, time.Duration(len(a.Work)-1)*spread)
	for _, w := range a.Work {
		delay := time.Duration(0)
		if window > 0 {
			delay = time.Duration(n.rng.Uint64n(uint64(window) + 1))
		}
		n.startRun(w, delay)
	}
}

// promoteDue asks for due jobs to be made ready.
func (n *Node) promoteDue() {
	if n.due(&n.timers.promote, n.cfg.PollInterval) {
		askOnce(n, Promote{Limit: promoteLimit})
	}
}

// onPromoted goes on at once if there may be more due jobs, and otherwise sets the timer to when the next
// job is due, unless it is nearer already. A wait is computed from the wall clock, by which jobs are due,
// and passes by the steady one.
func (n *Node) onPromoted(p Promoted) {
	if p.Moved > 0 {
		n.hungry = true
	}
	if p.Moved == promoteLimit {
		n.timers.promote = n.clock.Steady
		return
	}
	if p.Next != instant.Never {
		wait := max(0, p.Next.Sub(n.clock.Wall))
		n.timers.promote = min(n.timers.promote, n.clock.Steady.Add(wait))
	}
}

// sweepDue asks, about once a minute, for the removal of jobs and rows that are not needed any more.
func (n *Node) sweepDue() {
	if n.due(&n.timers.sweep, sweepInterval) {
		askOnce(n, Sweep{Limit: sweepLimit})
	}
}
