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

// States of a run, in their order. A run leaves the list when its end is stored; when its job was removed or
// replaced as soon as it has stopped, and at once when others may have its job.
const (
	going    runState = iota
	yielding          // the run was told to give way, and is stopped when it answers that it does
	stopping          // it was asked to stop, and is killed at its deadline
	over              // it ended; its end is still to be stored, and its slot in use until then
)

// run is a job in a slot. All its times are of the steady clock.
type run struct {
	id         uint64 // of this process's runs; never used again
	held       Held   // the job and the lock that fences its writes
	continuous bool   // may have to give way to others
	state      runState
	later
	accepted instant.Time // when its job came
	since    instant.Time // when it began; until then when the node looked last (see unused); accepted <= since
	deadline instant.Time // when a stopping run is killed

	// seen is the last question for the worker's jobs whose answer had the run's job; 0 before the first.
	seen uint64
	// claimed is the replication to which the job had the right when it was accepted; empty once that is old
	// news, and if it had none.
	claimed string
	// reset is the order to start over that the run has carried out, 0 for none.
	reset instant.Time

	job     jobstore.Record // as the run began: what holds and shares go by, and Reset
	account string          // that pays for the slot
	stands
	charged instant.Time  // until when the ledger has the time of the run; since <= charged <= now
	grown   instant.Time  // until when place has it, which takes numbers of the account; since <= grown <= now
	owed    time.Duration // how long it ran while others waited; 0 <= owed <= charged - since

	writes
}

// writes are what a run has to write to the store.
type writes struct {
	// busy is the run's request in flight; there is at most one, so that its writes happen in order. The
	// others wait for it, at most one of a kind, and the newest replaces those of its kind that waited. The
	// end goes first, also before one that has failed, and none goes after it.
	busy     *call
	claim    *Claim
	progress *jobstore.Stats
	end      Request
	listed   listedDocs
}

// stands is where the job of a run stands in the order.
type stands struct {
	place schedule.Place // in the queue, if it were queued now
	began schedule.Place // where it stood when it got its slot
}

// later is what became of a run after it was made.
type later struct {
	start    *StartRun // the run begins with it, once an old run of its job is over; nil when it has begun
	gone     bool      // its job was removed or replaced: nothing is stored for it any more
	readOnly bool      // the log was told that its source stores no checkpoints
}

// writing reports whether the end of the run is being stored, so that the job may be gone from the worker's
// list already.
func (r *run) writing() bool { return r.end == nil && r.state == over }

// startRun puts a job into a slot. The job may have changed while an old run of it is still here, which then
// stops; the new run waits for that, so that it goes on from the old one's last checkpoint.
func (n *Node) startRun(w jobstore.Work, delay time.Duration) {
	for _, old := range slices.Clone(n.jobs[w.JobID]) { // its job was replaced
		// Reached: a job comes again while its old run is still here
		old.cancel(n, "replaced")
	}
	n.nextRun++
	r := &run{
		id: n.nextRun, held: Held{JobID: w.JobID, Lock: w.Lock},
		continuous: w.Replication.Continuous, accepted: n.clock.Steady,
		account: w.Record.Account(), stands: stands{place: w.Place, began: w.Place},
		job: jobstore.Record{
			Database: w.Record.Database, Source: w.Record.Source, Target: w.Record.Target,
			Control: jobstore.Control{Weight: w.Record.Weight},
		},
	}
	r.unused(n)
	if w.Claimed {
		r.claimed = w.Record.RepID
	}
	r.job.Reset = w.Record.Reset
	invariant.Check(n.ofJob(w.JobID) == nil, oneRun)
	old := len(n.jobs[w.JobID]) > 0
	n.occupy(r)
	switch {
	case !n.accepts(), len(n.runs) > n.cfg.MaxJobs, w.Stop: // things changed since the job was asked for
		// Reached: a job came for which there is no slot any more
		n.finish(r, Requeue{Held: r.held, Turn: n.turn(r)})
	case w.Lost >= maxLost:
		// Reached: a job whose workers keep vanishing is held back
		t := replication.Trouble{Error: "worker_lost",
			Reason: "workers vanished while they ran this job, several times in a row"}
		n.finish(r, Crash{Held: r.held, Trouble: t, Turn: n.turn(r), Seed: n.rng.Uint64()})
	default:
		r.start = &StartRun{Run: r.id, Work: w, Delay: delay, Seed: n.rng.Uint64()}
		if !old {
			r.begin(n)
		}
	}
	n.write(r)
}

// begin starts the run, if it has not begun.
func (r *run) begin(n *Node) {
	if r.start != nil {
		n.emit(*r.start)
		r.start = nil
		r.unused(n)
	}
}

// unused has the run's use of its slot begin now, without the time in which an old run of its job stopped.
func (r *run) unused(n *Node) {
	r.since, r.charged, r.grown = n.clock.Steady, n.clock.Steady, n.clock.Steady
}

// kill drops the run at once, if it has begun.
func (r *run) kill(n *Node) {
	if r.start == nil {
		n.emit(KillRun{Run: r.id})
	}
	r.start = nil
}

// finish notes how the run ended, to be stored. It happens once to a run, and nothing else is stored for it
// afterwards: the end goes first, and its answer frees the slot.
func (s *slots) finish(r *run, q Request) {
	invariant.Check(r.state != over, oneEnd, int(r.id))
	s.stopping.remove(r)
	r.state, r.end, r.start = over, q, nil
}

// write makes the most important request of the run, unless another one is in flight.
func (n *Node) write(r *run) {
	if r.busy != nil {
		return
	}
	var q Request
	switch {
	case r.end != nil:
		q = r.itsEnd(n)
	case r.claim != nil:
		q, r.claim = *r.claim, nil
	case r.listed.change != nil:
		q, r.listed.change = *r.listed.change, nil
	case r.listed.read != nil:
		q, r.listed.read = *r.listed.read, nil
	case r.progress != nil:
		q, r.progress = Record{Held: r.held, Stats: *r.progress, Reset: r.reset}, nil
	default:
		return
	}
	r.busy = n.issue(&call{req: q, run: r})
}

// itsEnd is the request that stores the end of the run, which is made now.
func (r *run) itsEnd(n *Node) (q Request) {
	q, r.end = r.end, nil
	noteEnd(n, q)
	return q
}

// withoutDocument returns a crash, which changes no document, in place of an end that the job's document would tell.
// A document of which a row cannot be read would otherwise keep the run in its slot until somebody mends the row. The
// job waits after the crash, says why, and runs again. Requests that need no document are returned as they are.
func (r *run) withoutDocument(n *Node, end Request, why string) Request {
	if r.job.Transient() { // it has no document
		return end
	}
	t := replication.Trouble{Error: "document_unreadable", Reason: why}
	crash := Crash{Held: r.held, Trouble: t, Reset: r.reset}
	switch q := end.(type) {
	case Complete:
		stats := jobstore.StatsOf(q.End.Info)
		crash.Stats, crash.Turn = &stats, q.Turn
	case Fail:
		crash.Stats, crash.Turn = q.Stats, q.Turn
	default:
		return end
	}
	// Reached: the end of a run is stored without its document
	crash.Seed = n.rng.Uint64()
	noteEnd(n, crash)
	return crash
}

// onHold reports whether a hold stops the run.
func (r *run) onHold(holds jobstore.Holding) bool { return holds.Stops(&r.job) != "" }

// claimFresh is how long after the start of a run the claim that came with its job is good enough: so long
// it may take until the run begins and has computed its id. A node that stood still asks again, since the job
// may have been removed and another may have its replication.
const claimFresh = 15 * time.Second

// onIdentify lets the run go on if its job has the right to the replication, and asks for that right if it is
// not known to have it.
func (n *Node) onIdentify(e RunIdentifies) {
	r := n.find(e.Run)
	if r == nil || r.state == over || r.gone {
		return
	}
	known := r.claimed == e.ID && n.clock.Steady.Sub(r.accepted) <= claimFresh
	if r.claimed = ""; known {
		// Reached: a run goes on by the claim that came with its job
		n.emit(Confirm{Run: r.id})
		return
	}
	r.claim = &Claim{Held: r.held, RepID: e.ID, BaseID: e.Base}
	n.write(r)
}

func (n *Node) onProgress(e RunProgress) {
	if r := n.find(e.Run); r != nil && r.state != over && !r.gone {
		r.noteReadOnly(n, e.Info)
		r.noteReset(n, e.Info)
		stats := jobstore.StatsOf(e.Info)
		r.progress = &stats
		n.write(r)
	}
}

// noteReset notes that the run has discarded its checkpoints, as it was ordered to.
func (r *run) noteReset(n *Node, i replication.Info) {
	if i.Reset && r.reset != r.job.Reset {
		r.reset = r.job.Reset
		n.note("reset", r.held.JobID, "the checkpoints are discarded; everything is copied anew")
	}
}

// noteReadOnly tells once of each run that its source stores no checkpoints.
func (r *run) noteReadOnly(n *Node, i replication.Info) {
	if i.SourceReadOnly && !r.readOnly {
		r.readOnly = true
		n.note("source_read_only", r.held.JobID, "the source stores no checkpoints; those on the target are enough")
	}
}

// onEnded has the end of a run stored. Seed is drawn here and not in the transaction, so that every attempt
// stores the same wait after a crash.
func (n *Node) onEnded(e RunEnded) {
	r := n.find(e.Run)
	if r == nil || r.state == over {
		return
	}
	if r.gone {
		n.charge(r)
		n.free(r)
		return
	}
	r.noteReadOnly(n, e.End.Info)
	r.noteReset(n, e.End.Info)
	turn, stats := n.turn(r), jobstore.StatsOf(e.End.Info)
	if f := e.End.Refused; f != nil {
		listing{n}.note(r, *f)
	}
	listing{n}.noteRest(r)
	switch e.End.Cause {
	case replication.Completed:
		n.finish(r, Complete{Held: r.held, End: e.End, Turn: turn, Reset: r.reset})
	case replication.Crashed:
		seed := n.rng.Uint64()
		n.finish(r, Crash{
			Held: r.held, Trouble: e.End.Trouble, Stats: &stats, Turn: turn, Seed: seed, Reset: r.reset,
		})
	case replication.Failed:
		n.finish(r, Fail{Held: r.held, Trouble: e.End.Trouble, Turn: turn, Stats: &stats, Refused: e.End.Refused})
	default:
		n.finish(r, Requeue{Held: r.held, Stats: &stats, Turn: turn, Reset: r.reset})
	}
	n.write(r)
}

// runAnswered handles the answer to a request of a run. A fault here is that the job is not this worker's
// any more: Canceled or Halted.
func (n *Node) runAnswered(c *call, e Done) {
	r := c.run
	if n.find(r.id) != r {
		return
	}
	invariant.Check(r.busy == c, oneRequest, int(r.id))
	r.busy = nil
	switch e.Fault {
	case Committed:
		c.req.answered(n, c, e)
	case Canceled:
		r.cancel(n, e.Text)
	default:
		n.halt(r, e.Text)
	}
}

// claimed lets the run go on if no other job has its replication. Otherwise the run ends, and its job waits for
// the other one's end. If such jobs are not to wait, it is tried again later if the other job will be gone one
// day, as one made by a request will; if the other job is a document's, this job fails for good (RFC 016: the
// first one keeps the replication). The job of a request fails in any case, as with every crash.
func (n *Node) claimed(r *run, q Claim, c Claimed) {
	if r.state == over {
		return
	}
	if !c.Refused {
		n.emit(Confirm{Run: r.id})
		return
	}
	n.emit(KillRun{Run: r.id})
	t := replication.Trouble{Error: "duplicate", Reason: c.Reason}
	if c.Waits {
		// Reached: a job waits for another one that has its replication
		n.finish(r, StandBy{Held: r.held, RepID: q.RepID, BaseID: q.BaseID, Turn: n.turn(r)})
		n.note("waiting", r.held.JobID, "%s", c.Reason)
	} else if c.Passing || r.job.Transient() {
		n.finish(r, Crash{Held: r.held, Trouble: t, Turn: n.turn(r), Seed: n.rng.Uint64()})
	} else {
		// Reached: a document fails because another runs its replication
		n.finish(r, Fail{Held: r.held, Trouble: t, Turn: n.turn(r)})
	}
}

// halt drops a run whose job is, or may be, another worker's by now. What the run used is charged all the same.
func (n *Node) halt(r *run, why string) {
	if r.state != over {
		n.charge(r)
		r.kill(n)
		n.note("halted", r.held.JobID, "%s", why)
	}
	n.free(r)
}

// cancel has a run stop in order whose job was removed or replaced: whatever ends a run, what it has copied is
// worth a last checkpoint in its databases. It keeps its slot until then, and stores nothing any more: its lock
// is void. If another worker has the new job already, its run copes with such a checkpoint.
func (r *run) cancel(n *Node, why string) {
	switch {
	case r.gone:
	case r.state == over, r.start != nil:
		n.halt(r, why)
	default:
		// Reached: a run whose job was taken away stops in order
		n.drop(r.busy)
		r.gone, r.busy = true, nil
		n.stopRun(r)
		n.note("halted", r.held.JobID, "%s", why)
	}
}

// free removes a run, so that another job can have its slot. The node asks for one at once if it is hungry,
// as it is unless it waits to be told of ready jobs.
func (n *Node) free(r *run) {
	n.drop(r.busy)
	for _, next := range n.vacate(r) {
		next.begin(n)
	}
}

// giveWay asks the run to let another job have its slot. It may take as long as the documents that it began early in
// its turn: the adapter ends those that do not move.
func (r *run) giveWay(n *Node) {
	if r.start != nil {
		n.stopRun(r)
	} else if r.state == going {
		r.state = yielding
		n.emit(TellRun{Run: r.id, Event: replication.GiveWay{}})
	}
}

// stopRun asks a run to stop in order: to write its last checkpoint and to end.
func (n *Node) stopRun(r *run) {
	if r.start != nil {
		n.finish(r, Requeue{Held: r.held, Turn: n.turn(r)})
		n.write(r)
	}
	if r.state == going || r.state == yielding {
		r.state, r.deadline = stopping, n.clock.Steady.Add(n.cfg.StopTimeout)
		n.stopping.add(r)
		n.emit(StopRun{Run: r.id})
	}
}

// comesDue is when a stopping run is killed.
func (r *run) comesDue() (at instant.Time, number uint64) { return r.deadline, r.id }

// stopSlow kills the runs that did not stop in time. They lose what they copied since their last checkpoint.
func (n *Node) stopSlow() {
	for _, r := range n.stopping.take(n.clock.Steady) {
		// Reached: a run that stops too slowly is killed
		n.emit(KillRun{Run: r.id})
		n.note("killed", r.held.JobID, "did not stop in %s", n.cfg.StopTimeout)
		if r.gone {
			n.charge(r)
			n.free(r)
			continue
		}
		n.finish(r, Requeue{Held: r.held, Turn: n.turn(r), Reset: r.reset})
		n.write(r)
	}
}
