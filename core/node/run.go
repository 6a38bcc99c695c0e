package node

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

type runState uint8

const (
	going runState = iota
	stopping
	over // ended; the end is still to be stored
)

// run is a job in a slot.
type run struct {
	id         uint64
	held       Held
	transient  bool
	continuous bool
	state      runState
	since      instant.Time // when it started
	deadline   instant.Time // when a stopping run is killed

	account        string
	place          schedule.Place // of the job, were it queued now
	charged, grown instant.Time   // until when ledger and place are up to date
	owed           time.Duration  // how long it ran while others waited

	busy     *call           // its request under way
	claim    *Claim          // requests that wait for that, at most one of a kind
	progress *jobstore.Stats //
	end      Request         //
}

// writing says that the end of the run is being stored, so that the job may be gone from the worker's
// list already.
func (r *run) writing() bool { return r.end == nil && r.state == over }

// startRun puts a job into a slot.
func (n *Node) startRun(w jobstore.Work, delay time.Duration) {
	for _, old := range n.runs {
		if old.held.JobID == w.JobID { // its job was replaced
			// Reached: a job comes again while its old run is still here
			n.halt(old, "replaced")
			break
		}
	}
	n.nextRun++
	r := &run{
		id: n.nextRun, held: Held{JobID: w.JobID, Lock: w.Lock}, transient: w.Record.Transient(),
		continuous: w.Replication.Continuous, since: n.clock.Steady, charged: n.clock.Steady, grown: n.clock.Steady,
		account: w.Record.Account(), place: w.Place,
	}
	again := slices.ContainsFunc(n.runs, func(o *run) bool { return o.held.JobID == w.JobID })
	invariant.Check(!again, oneRun)
	n.runs = append(n.runs, r)
	switch {
	case !n.accepts(), len(n.runs) > n.cfg.MaxJobs: // decided since the job was asked for
		// Reached: a job came for which there is no slot any more
		r.finish(Requeue{Held: r.held, Turn: n.turn(r)})
	case w.Lost >= maxLost:
		// Reached: a job whose workers keep vanishing is held back
		t := replication.Trouble{Error: "worker_lost", Reason: "workers vanished while they ran this job, several times in a row"}
		r.finish(Crash{Held: r.held, Trouble: t, Turn: n.turn(r), Seed: n.rng.Uint64()})
	default:
		n.emit(StartRun{Run: r.id, Work: w, Delay: delay, Seed: n.rng.Uint64()})
	}
	n.write(r)
}

// finish says how the run ended, to be stored.
func (r *run) finish(q Request) {
	invariant.Check(r.state != over, oneEnd, int(r.id))
	r.state, r.end, r.claim, r.progress = over, q, nil, nil
}

// write asks for the most important thing that the run wants stored, one at a time.
func (n *Node) write(r *run) {
	if r.busy != nil {
		return
	}
	var q Request
	switch {
	case r.end != nil:
		q, r.end = r.end, nil
	case r.claim != nil:
		q, r.claim = *r.claim, nil
	case r.progress != nil:
		q, r.progress = Record{Held: r.held, Stats: *r.progress}, nil
	default:
		return
	}
	r.busy = n.issue(&call{req: q, run: r})
}

func (n *Node) find(id uint64) *run {
	for _, r := range n.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (n *Node) onIdentify(e RunIdentifies) {
	if r := n.find(e.Run); r != nil && r.state != over {
		r.claim = &Claim{Held: r.held, RepID: e.ID, BaseID: e.Base}
		n.write(r)
	}
}

func (n *Node) onProgress(e RunProgress) {
	if r := n.find(e.Run); r != nil && r.state != over {
		stats := jobstore.StatsOf(e.Info)
		r.progress = &stats
		n.write(r)
	}
}

func (n *Node) onEnded(e RunEnded) {
	r := n.find(e.Run)
	if r == nil || r.state == over {
		return
	}
	turn, stats := n.turn(r), jobstore.StatsOf(e.End.Info)
	switch e.End.Cause {
	case replication.Completed:
		r.finish(Complete{Held: r.held, End: e.End, Turn: turn})
	case replication.Crashed:
		r.finish(Crash{Held: r.held, Trouble: e.End.Trouble, Stats: &stats, Turn: turn, Seed: n.rng.Uint64()})
		n.note("crashed", r.held.JobID, "%s", e.End.Trouble)
	default:
		r.finish(Requeue{Held: r.held, Stats: &stats, Turn: turn})
	}
	n.write(r)
}

// runAnswered handles the answer to a request of a run.
func (n *Node) runAnswered(c *call, e Done) {
	r := c.run
	if n.find(r.id) != r {
		return
	}
	invariant.Check(r.busy == c, oneRequest, int(r.id))
	r.busy = nil
	if e.Fault != NoFault {
		n.halt(r, e.Text)
		return
	}
	c.req.answered(n, c, e)
}

// claimed lets the run go on, or ends it in favour of the one that was there first: for good when that is
// a document's, until it is gone when that is a request's or of a deleted database.
func (n *Node) claimed(r *run, c Claimed) {
	if r.state == over {
		return
	}
	if !c.Refused {
		n.emit(Confirm{Run: r.id})
		return
	}
	n.emit(KillRun{Run: r.id})
	t := replication.Trouble{Error: "duplicate", Reason: c.Reason}
	if c.Passing || r.transient {
		r.finish(Crash{Held: r.held, Trouble: t, Turn: n.turn(r), Seed: n.rng.Uint64()})
	} else {
		// Reached: a document fails because another runs its replication
		r.finish(Fail{Held: r.held, Trouble: t, Turn: n.turn(r)})
	}
}

// halt drops a run whose job is not ours any more.
func (n *Node) halt(r *run, why string) {
	if r.state != over {
		n.charge(r)
		n.emit(KillRun{Run: r.id})
		n.note("halted", r.held.JobID, "%s", why)
	}
	n.free(r)
}

// free gives the slot of a run to others.
func (n *Node) free(r *run) {
	n.dropCalls(func(c *call) bool { return c.run == r })
	for i := range n.runs {
		if n.runs[i] == r {
			n.runs = append(n.runs[:i:i], n.runs[i+1:]...)
			break
		}
	}
	n.hungry = true
}

func (n *Node) stopRun(r *run) {
	if r.state == going {
		r.state, r.deadline = stopping, n.clock.Steady.Add(n.cfg.StopTimeout)
		n.emit(StopRun{Run: r.id})
	}
}

// stopSlow kills runs that did not stop in time.
func (n *Node) stopSlow() {
	for _, r := range n.runs {
		if r.state == stopping && n.clock.Steady >= r.deadline {
			// Reached: a run that stops too slowly is killed
			n.emit(KillRun{Run: r.id})
			n.note("killed", r.held.JobID, "did not stop in %s", n.cfg.StopTimeout)
			r.finish(Requeue{Held: r.held, Turn: n.turn(r)})
			n.write(r)
		}
	}
}
