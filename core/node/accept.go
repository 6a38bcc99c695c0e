package node

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
)

// intake is what a node knows of the jobs that it may take.
type intake struct {
	// batch numbers the accepts of this process, and becomes a part of the locks of the jobs that they
	// take. It grows when an accept brought jobs, and not before: an accept that failed, or found nothing,
	// may have committed in truth or commit late, and the next one with the same number then finds the jobs
	// that it took.
	batch     uint64
	accepting bool         // an Accept or a Resume is in flight; there is at most one
	promotes  int          // the most jobs that the next Promote moves, 1 to Batches.Promote
	hungry    bool         // there may be ready jobs that the node has not asked for
	opens     instant.Time // when the node begins to take jobs, by the steady clock
	part      jobs.Part    // of the last accept
	awaited   jobs.Part    // that the Await for ready jobs in flight is about
	published Info         // of the last heartbeat that is known to have committed
	spared    spared
	// behind is where the next accept begins in the queue: behind jobs of deleted databases, of which there may be a
	// million; empty for the head. An accept that found only such jobs moves it on. The next poll sets it back to the
	// head, so a job that was queued before the deleted ones meanwhile waits for that poll.
	behind string
	// unreadable are jobs that requests pass over since one could not read them, the oldest first; see passOver.
	// Requests in flight share its array, so jobs are added at the end and taken away at the front, and none is
	// replaced.
	unreadable []string
	looksAt    string // of these, the one that was taken away last, to be looked at again; empty if there was none
	parking    bool   // the accept before parked jobs: there may be a million, of a hold
}

// accept asks for as many jobs as there are free slots. There is one such request at a time, so that no
// slot is promised to two accepts. It is made when jobs may be ready (hungry): after a notification, a
// poll, a promotion, or when a slot is free again and the node does not wait for a notification anyway.
func (n *Node) accept() {
	if n.due(&n.timers.poll, n.cfg.PollInterval) {
		n.hungry, n.behind = true, "" // an accept in flight that passes over more jobs moves on all the same
	}
	n.lookAfter(n.clock.Steady)
	free := n.cfg.MaxJobs - len(n.runs)
	open := n.lease == live && n.accepts() && n.clock.Steady >= n.opens
	if !open || n.accepting || !n.hungry || free <= 0 {
		return
	}
	most := cmp.Or(n.cfg.MaxAcceptors, AcceptLimit)
	d := jobs.Demand{Max: min(free, most), Seed: n.rng.Uint64(), Behind: n.behind}
	if n.parking {
		d.Look = most
	}
	if f := n.fleet(); !f.alone() {
		d.Window = max(acceptWindow, windowPerWorker*len(f.loads))
		d.Part, d.Yield, d.Left = f.own(), f.othersFree(), n.waited()
	}
	n.accepting, n.hungry, n.part = true, false, d.Part
	n.ask(Accept{Worker: n.worker, Node: n.name, Demand: d})
}

// maxUnreadable bounds the jobs that a node passes over. A store in which there are more wants a restore.
const maxUnreadable = 100

// passOver has requests leave a job where it is, of which one could not read a row: it would keep all others from being
// moved. It reports whether the request is worth repeating without the job.
func (i *intake) passOver(id string) bool {
	if id == "" || slices.Contains(i.unreadable, id) || len(i.unreadable) == maxUnreadable {
		return false
	}
	i.unreadable = append(i.unreadable, id)
	return true
}

// useUp reports whether a job cannot be resumed since it cannot be read. Another accept with the number of the one that
// took it would have to read it, too.
func (i *intake) useUp(h Held) bool {
	if !slices.Contains(i.unreadable, h.JobID) {
		return false
	}
	// Reached: a job that was taken cannot be read
	i.batch = max(i.batch, h.Lock.Batch+1)
	return true
}

// tryUnreadable has the next accept look again at the job that was passed over first: its rows may have been put right.
func (i *intake) tryUnreadable() {
	if i.looksAt = ""; len(i.unreadable) > 0 {
		// Reached: a job that could not be read is looked at again
		i.looksAt, i.unreadable, i.hungry = i.unreadable[0], i.unreadable[1:], true
	}
}

// tryOthers has the next accept look at one more of the jobs that were passed over if this one has taken the last that
// was looked at again. What kept all of them from being read may be over, as when the node had not had the store's key.
func (i *intake) tryOthers(taken []jobstore.Work) {
	if slices.ContainsFunc(taken, func(w jobstore.Work) bool { return w.JobID == i.looksAt }) {
		i.tryUnreadable()
	}
}

// onAccepted starts the jobs that came, spread over a little time. An accept that found nothing does not
// use up its batch number: an earlier attempt of it may still commit, and the next accept with the same
// number then returns its jobs.
func (n *Node) onAccepted(a Accepted) {
	invariant.Check(n.accepting, oneAccept)
	n.accepting, n.parking = false, a.Parked > 0
	if n.spare(a.Left, n.clock.Steady) { // the other nodes may have told since that they take none
		n.timers.scan = min(n.timers.scan, n.looked.Add(freshLooks))
	}
	if a.Passed != "" {
		n.behind, n.hungry = a.Passed, true
		return
	}
	if len(a.Work) == 0 && a.Parked > 0 {
		// Reached: all jobs at the head of the queue were parked
		n.hungry = true
		return
	}
	if len(a.Work) == 0 {
		if !n.awaiting[ReadyJobs] || !n.awaited.Covers(n.part) {
			n.awaiting[ReadyJobs], n.awaited = true, n.part
			n.emit(Await{Topic: ReadyJobs, Seen: a.Signal, Part: n.part})
		}
		return
	}
	n.batch++
	n.hungry = true
	n.tryOthers(a.Work)
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
		askOnce(n, Promote{Limit: 2 * n.promotes})
	}
}

// onPromoted goes on at once if there may be more due jobs, with up to twice as many as were moved, and otherwise
// sets the timer to when the next job is due, unless it is nearer already. A wait is computed from the wall
// clock, by which jobs are due, and passes by the steady one.
func (n *Node) onPromoted(limit int, p Promoted) {
	if p.Moved > 0 {
		n.hungry = true
	}
	n.promotes = n.cfg.Batches.Promote
	if p.Moved == limit {
		n.promotes = min(n.cfg.Batches.Promote, 2*limit)
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
		n.tryUnreadable()
		askOnce(n, Sweep{Limit: n.cfg.Batches.Sweep, Drop: 2 * n.cfg.Batches.Drop})
	}
}
