package oracle

import (
	"fmt"
	"slices"

	"couchrelay/core/jobs"
	"couchrelay/core/node"
)

// locks are the invariants of jobs' locks: the lock makes sure that two workers do not copy into one target,
// write one log of checkpoints, or record one job.
type locks struct{ *chronicle }

var lockSubject = subject{
	invariants: []Invariant{
		{"S1", "A job has one run: not two under one lock or on one node, and none at its former worker " +
			"once another runs it."},
		{"S2", "A worker that lost its job commits nothing for that job any more."},
	},
	begin: func(c *chronicle) {
		k := &locks{c}
		c.on.landed.add(k.checkFencing)
		c.on.runStarted.add(k.checkStarted)
	},
}

// checkStarted compares a run that starts with the other runs of its job.
func (k *locks) checkStarted(r *run) {
	for _, other := range k.runs {
		if other.JobID() != r.JobID() {
			continue
		}
		if other.Lock() == r.Lock() {
			k.Fail("S1", "job %s runs twice under lock %v", r.JobID(), r.Lock())
		}
		if other.p == r.p {
			k.Fail("S1", "job %s runs on %s as %v, and now as %v too",
				r.JobID(), r.p.Name, other.Lock(), r.Lock())
		} else if !k.mayOverlap(other, r) {
			k.Fail("S1", "job %s runs on %s since %s, and now on %s too",
				r.JobID(), other.p.Name, other.Began(), r.p.Name)
		}
	}
}

// mayOverlap reports whether nodes may run a job at once for a while. In general they must not: a worker
// gives its runs up before its silence is long enough for others to take its jobs. It cannot do that while it
// stands still, and need not know of a job that a user made anew.
func (k *locks) mayOverlap(old, r *run) bool {
	now := k.w.Now()
	wasSuspended := r.p.Awoke() > 0 && now.Sub(r.p.Awoke()) < r.p.Settings().ActivityTimeout
	if wasSuspended && !k.holds(r) {
		return true // it lost the job meanwhile, but by its own clock its lease goes on
	}
	if old.p.Paused() || now.Sub(old.p.PausedLast()) < old.p.Settings().ActivityTimeout {
		return true // the old run's node has not noticed the time that passed
	}
	s := k.shadows[old.JobID()]
	if s == nil || s.gone >= old.Began() {
		return true // the job was removed and added again: the old run is told soon
	}
	if timeout := r.p.Settings().ActivityTimeout; !k.holds(r) && s.gone > 0 && now.Sub(s.gone) < timeout {
		return true // so is the new one, which waited for an earlier run on its node to stop
	}
	// While an upgrade changes the timeout, nodes disagree on how long a worker may be silent.
	return old.p.Settings().ActivityTimeout != r.p.Settings().ActivityTimeout
}

// checkFencing demands that a write for a job commits only under the job's present lock. Nothing excuses a
// worker: the store compares the lock in the same transaction.
func (k *locks) checkFencing(l landing) {
	held, is := heldBy(l.Request)
	if !is || !slices.Contains(l.jobs, held.JobID) {
		return
	}
	if s := k.shadows[held.JobID]; s == nil || s.header == nil {
		k.Fail("S2", "%s committed, and there is no such job", l.Request)
	} else if s.header.State != jobs.Running || s.header.Lock != held.Lock {
		k.Fail("S2", "%s committed, and the job is %s", l.Request, locked(s.header))
	}
}

// locked is a job's state in words, with its lock.
func locked(j *jobs.Job) string {
	if j.State != jobs.Running {
		return j.State.String()
	}
	return fmt.Sprintf("running under %s/%d", j.Lock.Worker, j.Lock.Batch)
}

// heldBy is the job and the lock of a request that writes under a lock.
func heldBy(q node.Request) (held node.Held, is bool) {
	if h, is := q.(node.HeldRequest); is {
		return h.HeldJob(), true
	}
	return node.Held{}, false
}
