package node

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
)

// other is another worker, watched for signs of life.
type other struct {
	worker string
	info   Info
	beat   [10]byte
	since  instant.Time // when this beat was first seen
	beats  int          // how often it was seen to change
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

func (n *Node) joined(c *call, q Join) {
	n.lease, n.granted = live, q.Info.ActivityTimeout
	n.ends = c.sent.Add(n.granted)
	n.timers.beat = n.clock.Steady.Add(n.jitter(n.beatInterval()))
	n.tellLater(q.Info)
	n.timers.owned = n.clock.Steady.Add(n.jitter(n.cfg.ActivityTimeout))
	n.awaiting[WorkerCalls] = false // that of an earlier lease tells nothing
	n.await(Await{Topic: WorkerCalls, Worker: n.worker})
	n.hungry = true
	n.note("lease", "", "worker %s is live", n.worker)
}

// checkLease gives the lease up when no heartbeat got through for the activity timeout of which others know: they
// have given the jobs away by now, or may at any moment.
func (n *Node) checkLease() {
	if n.lease == live && n.clock.Steady >= n.ends {
		// Reached: a worker gives its lease up by itself
		n.loseLease("no heartbeat got through")
	}
}

// keepLease sends heartbeats.
func (n *Node) keepLease() {
	if n.lease != live {
		return
	}
	if n.due(&n.timers.beat, n.beatInterval()) {
		askOnce(n, Beat{Worker: n.worker})
	}
	if n.due(&n.timers.owned, n.cfg.ActivityTimeout) {
		n.lookOwned()
	}
}

// beatInterval is short enough for the timeout that others know of, too.
func (n *Node) beatInterval() time.Duration {
	return min(n.cfg.ActivityTimeout, n.granted) / beatsPerTimeout
}

func (n *Node) beaten(c *call, q Beat, b Beaten) {
	n.granted = q.Info.ActivityTimeout
	n.ends = c.sent.Add(n.granted)
	if b.Calls != n.seen {
		n.lookOwned()
	}
	n.tellLater(q.Info)
}

// await waits for a counter to differ, once at a time.
func (n *Node) await(a Await) {
	if !n.awaiting[a.Topic] {
		n.awaiting[a.Topic] = true
		n.emit(a)
	}
}

// loseLease drops all runs and joins anew.
func (n *Node) loseLease(why string) {
	n.note("lease_lost", "", "worker %s with %d jobs: %s", n.worker, len(n.runs), why)
	for _, r := range n.runs {
		if r.state != over {
			n.charge(r)
			n.emit(KillRun{Run: r.id})
		}
	}
	n.runs = nil
	n.accepting = false
	n.dropCalls(func(c *call) bool {
		_, is := c.req.(leaseBound)
		return is
	})
	n.timers.beat, n.timers.owned = instant.Never, instant.Never
	if n.draining {
		n.exit()
		return
	}
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

func (n *Node) lookOwned() { askOnce(n, ListOwned{Worker: n.worker}) }

// onOwned compares what the store says with what runs here. A job that was taken away is dropped. One
// that nobody here knows of came with an accept whose outcome was never learned.
func (n *Node) onOwned(c *call, o Owned) {
	if n.lease != live {
		return
	}
	n.seen = o.Calls
	n.await(Await{Topic: WorkerCalls, Worker: n.worker, Seen: n.seen})
	owned := make(map[Held]bool, len(o.Jobs))
	for _, h := range o.Jobs {
		owned[Held{JobID: h.ID, Lock: h.Lock}] = true
	}
	here := make(map[Held]bool, len(n.runs))
	for _, r := range slices.Clone(n.runs) {
		here[r.held] = true
		// What began after the question was asked need not be in the answer.
		if r.since < c.sent && !r.writing() && !owned[r.held] {
			// Reached: a run learns that its job was taken away
			n.halt(r, "taken away")
		}
	}
	if n.accepting {
		return
	}
	for _, h := range o.Jobs {
		if held := (Held{JobID: h.ID, Lock: h.Lock}); !here[held] {
			n.accepting = true
			// Reached: an accept whose outcome was never learned had taken a job
			n.ask(Resume{held})
			return // the next one at the next look
		}
	}
}

func (n *Node) onResumed(e Done) {
	invariant.Check(n.accepting, oneAccept)
	n.accepting = false
	if e.Fault == NoFault && n.lease == live {
		n.note("resumed", e.Result.(Accepted).Work[0].JobID, "an accept of unknown outcome had taken it")
		n.startRun(e.Result.(Accepted).Work[0], 0)
	}
}

// watchOthers looks for workers that are silent for the activity timeout.
func (n *Node) watchOthers() {
	if n.due(&n.timers.scan, n.cfg.ActivityTimeout/beatsPerTimeout) {
		askOnce(n, ListLeases{})
	}
}

func (n *Node) onLeases(l Leases) {
	known := n.others
	n.others = nil
	for _, lease := range l.List {
		if lease.Worker == n.worker {
			continue
		}
		o := other{worker: lease.Worker, beat: lease.Beat, since: n.clock.Steady}
		for _, k := range known {
			if k.worker == o.worker {
				o.beats = k.beats + 1
				if k.beat == o.beat {
					o = k
				}
			}
		}
		o.info = lease.Info
		timeout := max(n.cfg.ActivityTimeout, o.info.ActivityTimeout) // its own may be longer
		gone := lease.Expired || n.cfg.Exclusive || n.clock.Steady.Sub(o.since) >= timeout
		if gone && !n.expiring(o.worker) {
			n.note("worker_silent", "", "worker %s; its jobs are given back", o.worker)
			beat := o.beat
			// Reached: the jobs of a silent worker are given back
			n.ask(Expire{Worker: o.worker, Beat: &beat, Limit: expireLimit})
		}
		if !gone {
			n.checkName(o)
		}
		n.others = append(n.others, o)
	}
}

// acceptors is how many nodes take jobs, this one included.
func (n *Node) acceptors() int {
	count := 1
	for _, o := range n.others {
		if o.info.accepts() {
			count++
		}
	}
	return count
}

func (n *Node) expiring(worker string) bool {
	return slices.ContainsFunc(n.calls, func(c *call) bool {
		q, is := c.req.(Expire)
		return is && q.Worker == worker
	})
}
