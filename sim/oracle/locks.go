package oracle

import (
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"slices"
)

// locks are the invariants of jobs' locks.
type locks struct{ *chronicle }

var lockSubject = subject{
	invariants: []Invariant{
		{"S1", "No job is run by two live workers under one lock."},
		{"S2", "A worker that lost its job commits nothing for it any more."},
	},
	begin: func(c *chronicle) {
		o := &locks{c}
		c.on.landed.add(o.checkFencing)
		c.on.runStarted.add(o.checkStarted)
	},
}

// checkStarted is S1.
func (o *locks) checkStarted(r *run) {
	lock := r.Lock()
	for _, other := range o.runs {
		if other.JobID() != r.JobID() {
			continue
		}
		if other.Lock() == lock {
			o.Fail("S1", "job %s runs twice under lock %v", r.JobID(), lock)
		}
		if other.p == r.p {
			o.Fail("S1", "job %s runs on %s as %v, and now as %v too", r.JobID(), r.p.Name, other.Lock(), lock)
		}
		o.checkTakeover(other, r)
	}
}

// checkFencing is S2: a write for a job commits only under the job's present lock.
func (o *locks) checkFencing(l landing) {
	held, ok := heldBy(l.Request)
	if !ok || !slices.Contains(l.jobs, held.JobID) {
		return
	}
	s := o.shadows[held.JobID]
	if s == nil || s.header == nil || s.header.State != jobs.Running || s.header.Lock != held.Lock {
		o.Fail("S2", "%s committed, but the job is %v", l.Request, s)
	}
}

// checkTakeover is S1 too: a job that another worker took over because its worker was silent does not run
// there any more, unless that one stood still and does not know yet.
func (o *locks) checkTakeover(old, r *run) {
	now := o.w.Now()
	if r.p.Awoke() > 0 && now.Sub(r.p.Awoke()) < r.p.Settings().ActivityTimeout && !o.holds(r) {
		return // it was suspended, and by its clock its lease goes on
	}
	if old.p == r.p || old.p.Paused() || now.Sub(old.p.PausedLast()) < old.p.Settings().ActivityTimeout {
		return
	}
	s := o.shadows[old.JobID()]
	if s == nil || s.gone >= old.Began() { // it was removed and added again: the old run is told soon
		return
	}
	if old.p.Settings().ActivityTimeout != r.p.Settings().ActivityTimeout {
		return // in the middle of an upgrade that changes it nobody can promise this
	}
	o.Fail("S1", "job %s runs on %s since %s, and now on %s too", r.JobID(), old.p.Name, old.Began(), r.p.Name)
}

// heldBy is the job and lock of a request that writes under a lock.
func heldBy(q node.Request) (node.Held, bool) {
	h, is := q.(node.HeldRequest)
	if !is {
		return node.Held{}, false
	}
	return h.HeldJob(), true
}
