package node

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// other is another worker, watched for signs of life (RFC 007, "Activity Monitor Implementation": remember a
// versionstamp, and take what still has it a timeout later for stale).
type other struct {
	worker string
	info   Info          // of its last heartbeat
	beat   [10]byte      // versionstamp of its last heartbeat; compared for change only
	silent time.Duration // for how long this node has seen that beat; see look
	beats  int           // how often this node saw the beat change
	gone   bool          // its jobs are being given back
}

// watch is what the node saw of the others.
type watch struct {
	others []other      // all other leases at the last look, in the order of their names
	looked instant.Time // when that was, by the steady clock
	// division has the parts of the nodes that take jobs.
	division schedule.Division
}

// join asks for a lease, under a name that was never used.
func (n *Node) join() {
	n.epoch++
	n.worker = n.cfg.Worker
	if n.epoch > 1 {
		n.worker = fmt.Sprintf("%s-%d", n.cfg.Worker, n.epoch)
	}
	n.lease, n.seen = joining, 0
	n.ask(Join{Worker: n.worker})
}

// joined begins a lease. It counts from the moment when the request was sent: the others may have seen the
// row any time since. One that would end before the next heartbeat is asked for again, under its name: a store that
// comes back may have kept the question for long.
func (n *Node) joined(c *call, q Join) {
	beat := q.Info.ActivityTimeout / beatsPerTimeout
	if n.clock.Steady.Sub(c.sent) > q.Info.ActivityTimeout-beat {
		// Reached: a lease comes so late that it is nearly over
		n.ask(q)
		return
	}
	n.lease, n.granted, n.published = live, q.Info.ActivityTimeout, q.Info
	n.ends = c.sent.Add(n.granted)
	n.timers.beat = n.clock.Steady.Add(n.jitter(n.cfg.beatInterval()))
	n.tellLater(q.Info)
	n.timers.owned = n.clock.Steady.Add(n.jitter(n.cfg.ActivityTimeout))
	n.awaiting[WorkerCalls] = false // an Await in flight is about an earlier lease's counter
	n.await(Await{Topic: WorkerCalls, Worker: n.worker})
	n.note("lease", "", "worker %s is live", n.worker)
}

// checkLease gives the lease up when no heartbeat is known to have committed for the activity timeout that
// the others were told. They have given the jobs away by now, or may at any moment.
func (n *Node) checkLease() {
	if n.lease == live && n.clock.Steady >= n.ends {
		// Reached: a worker gives its lease up by itself
		n.loseLease("no heartbeat got through")
	}
}

// keepLease sends heartbeats, early when the number of jobs has changed, and now and then compares the runs with
// the worker's jobs in the store, in case that a notification of a job that was taken away got lost.
func (n *Node) keepLease() {
	if n.lease != live {
		return
	}
	if n.outdated(len(n.runs)) {
		n.timers.beat = min(n.timers.beat, n.again)
	}
	if n.due(&n.timers.beat, n.cfg.beatInterval()) {
		askOnce(n, Beat{Worker: n.worker})
	}
	if n.due(&n.timers.owned, n.cfg.ActivityTimeout) {
		n.lookOwned()
	}
}

// beatInterval is the longest time between two heartbeats, and between two looks at those of others, while the store
// answers.
func (s *Settings) beatInterval() time.Duration { return s.ActivityTimeout / beatsPerTimeout }

// beaten extends the lease from the moment when the heartbeat was sent, not from now: a watcher may have
// seen it any time since. The call counter comes with the answer, so that a lost notification costs one
// interval of heartbeats.
func (n *Node) beaten(c *call, q Beat, b Beaten) {
	n.granted, n.published = q.Info.ActivityTimeout, q.Info
	n.ends = c.sent.Add(n.granted)
	if b.Calls != n.seen {
		n.lookOwned()
	}
	n.tellLater(q.Info)
}

// await asks to be notified when a counter differs. There is at most one Await of a topic in flight.
func (n *Node) await(a Await) {
	if !n.awaiting[a.Topic] {
		n.awaiting[a.Topic] = true
		n.emit(a)
	}
}

// loseLease drops all runs at once, without storing how they ended: the jobs are, or may be, other
// workers'. What the runs used is charged, since that is true whoever has the jobs. Then the node joins
// under a new name. Requests of the lost lease are forgotten; what they still do to the store is fenced, by
// their locks or by their worker's missing lease. So no job needs to wait until others take the old name
// for silent: the node itself gives back what it held.
func (n *Node) loseLease(why string) {
	if n.lease != leaving { // a heartbeat under way may be overtaken by this node's own Retire
		n.note("lease_lost", "", "worker %s with %d jobs: %s", n.worker, len(n.runs), why)
	}
	for _, r := range n.runs {
		if r.state != over {
			n.charge(r)
			r.kill(n)
		}
		n.drop(r.busy)
	}
	n.slots = slots{}
	n.accepting = false
	for _, c := range slices.Clone(n.own) {
		if _, is := c.req.(leaseBound); is {
			n.drop(c)
		}
	}
	n.timers.beat, n.timers.owned = instant.Never, instant.Never
	if n.draining {
		n.exit()
		return
	}
	n.ask(Expire{Worker: n.worker, Limit: n.cfg.Batches.Expire})
	n.join()
}

func (n *Node) onNotified(e Notified) {
	n.awaiting[e.Topic] = false
	switch {
	case e.Topic == ReadyJobs:
		n.hungry = true
		n.timers.poll = n.clock.Steady.Add(n.jitter(n.cfg.PollInterval))
	case n.lease == live:
		n.lookOwned()
	}
}

// lookOwned asks what the store says this worker holds.
func (n *Node) lookOwned() { askOnce(n, ListOwned{Worker: n.worker}) }

// onOwned compares the jobs that the store says this worker holds with those that run here. A run that is to
// stop, for its own mark or for a hold, is stopped in order. So is a run whose job was removed or replaced:
// nothing else takes jobs of a worker whose lease is live. A job that is held and does not run came with an
// accept whose outcome was never learned (unknown commit result); it is resumed, unless another accept is in
// flight, which would return it too if it has the same number.
func (n *Node) onOwned(c *call, o Owned) {
	if n.lease != live {
		return
	}
	n.seen = o.Calls
	n.await(Await{Topic: WorkerCalls, Worker: n.worker, Seen: n.seen})
	var missing []Held
	holds := jobstore.HoldingOf(o.Holds)
	for _, h := range o.Jobs {
		if r := n.ofJob(h.ID); r != nil && r.held.Lock == h.Lock {
			if r.seen = c.id; h.Stop || r.onHold(holds) {
				// Reached: a run is stopped because a user said so
				n.stopRun(r)
			}
		} else {
			missing = append(missing, Held{JobID: h.ID, Lock: h.Lock})
		}
	}
	for _, r := range slices.Clone(n.runs) {
		// A job that came after the question was asked need not be in the answer. Neither need one whose
		// end is being stored.
		if r.accepted < c.sent && !r.writing() && r.seen != c.id {
			// Reached: a run learns that its job was taken away
			r.cancel(n, "taken away")
		}
	}
	for _, asked := range o.Retries {
		if r := n.ofJob(asked.JobID); r != nil {
			listing{n}.try(r, asked.At)
		}
	}
	missing = slices.DeleteFunc(missing, n.useUp)
	switch {
	case len(missing) == 0:
	case !n.accepting:
		n.accepting = true
		// Reached: an accept whose outcome was never learned had taken a job
		n.ask(Resume{missing[0]}) // one at a time; see onResumed
	case missing[0].Lock.Batch < n.batch: // the accept in flight has a later number
		n.timers.owned = min(n.timers.owned, n.clock.Steady.Add(lookAgain))
	}
}

// lookAgain is how soon the node looks once more for a job to resume, which it could not resume beside an accept.
const lookAgain = time.Second

// onResumed starts the run of a job that this worker turned out to hold. If the job was taken away
// meanwhile, the request was halted, and there is nothing to do. The number of the accept that took the job is
// used up: another accept with that number would bring the job once more. So the other jobs of that accept come
// through here, too, and the node looks for the next one at once.
func (n *Node) onResumed(e Done) {
	invariant.Check(n.accepting, oneAccept)
	n.accepting = false
	if e.Fault == Committed && n.lease == live {
		n.note("resumed", e.Result.(Accepted).Work[0].JobID, "an accept of unknown outcome had taken it")
		n.batch = max(n.batch, e.Result.(Accepted).Work[0].Lock.Batch+1)
		n.startRun(e.Result.(Accepted).Work[0], 0)
		n.lookOwned()
	}
}

// watchOthers looks for workers that are silent for the activity timeout, several times in each timeout.
func (n *Node) watchOthers() {
	if n.due(&n.timers.scan, n.cfg.beatInterval()) {
		askOnce(n, ListLeases{})
		if opens := n.opens.Add(-n.cfg.Settling / 4); n.clock.Steady < opens {
			n.timers.scan = min(n.timers.scan, opens) // for the nodes that start at the same time
		}
	}
}

// look returns what a beat that did not change since the last look adds to its worker's silence: the time
// since that look, an interval at most. When more has passed, this node stood still or did not reach the
// store, so it could not see the others, and an outage of the store silenced them too. The interval counts,
// so that a store that answers only now and then still lets the dead be found.
func (w *watch) look(now instant.Time, interval time.Duration) time.Duration {
	passed := now.Sub(w.looked)
	w.looked = now
	return min(passed, interval)
}

// onLeases decides which of the other workers are gone. A worker is judged by how long this node has seen
// the same beat, on this node's steady clock; times that the worker wrote are never compared with it, so
// clocks need not agree. The answer may be old when the node hears it, but Expire carries the beat that was
// judged, and does nothing when the worker has sent another one since.
func (n *Node) onLeases(l Leases) {
	known, passed := n.others, n.look(n.clock.Steady, n.cfg.beatInterval())
	n.others = nil
	for _, lease := range l.List {
		if lease.Worker == n.worker {
			continue
		}
		o := other{worker: lease.Worker, beat: lease.Beat}
		for _, k := range known {
			if k.worker == o.worker {
				o.beats = k.beats + 1
				if k.beat == o.beat {
					o = k
					o.silent += passed
				}
			}
		}
		o.info = lease.Info
		timeout := max(n.cfg.ActivityTimeout, o.info.ActivityTimeout) // it may have announced a longer one
		o.gone = lease.Expired || n.cfg.Exclusive || o.silent >= timeout
		if o.gone && !n.expiring(o.worker) {
			if !lease.Expired { // else another node has said so
				n.note("worker_silent", "", "node %s (worker %s) left without notice; its jobs are given back",
					o.info.Name, o.worker)
			}
			beat := o.beat
			// Reached: the jobs of a silent worker are given back
			n.ask(Expire{Worker: o.worker, Beat: &beat, Limit: n.cfg.Batches.Expire, By: n.name})
		}
		n.checkName(o)
		n.others = append(n.others, o)
	}
	n.regroup(n.awaiting[ReadyJobs], n.fleet())
}

// expiring reports whether the jobs of a worker are being given back by this node.
func (n *Node) expiring(worker string) bool {
	return slices.ContainsFunc(n.own, func(c *call) bool {
		q, is := c.req.(Expire)
		return is && q.Worker == worker
	})
}
