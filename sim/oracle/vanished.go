package oracle

import (
	"couchrelay/core/jobs"
	"couchrelay/core/node"
)

// vanished counts the workers that vanish with a job: a job that brings its workers down, for example by the
// memory that it takes, must not bring down the whole fleet, one node after the other.
type vanished struct{ *chronicle }

var vanishedSubject = subject{
	invariants: []Invariant{
		{"S7c", "A job counts the workers that vanished with it in a row, and not those that gave their " +
			"leases up, until a run of it ends in order or lasts long enough."},
		{"S7d", "A job that lost five workers in a row does not run."},
	},
	begin: func(c *chronicle) {
		v := &vanished{c}
		c.on.jobMoved.add(v.checkCount)
		c.on.runStarted.add(v.checkHeldBack)
	},
}

// mayLose is how many workers may vanish with a job in a row before it is suspected of bringing them down.
const mayLose = 5

// checkCount demands that a job's count is right after every change. A worker that gives its lease up by itself has not
// vanished. A change by users is excused: they may make the job anew.
func (v *vanished) checkCount(j jobChange) {
	before, want := j.before.header.Lost, j.before.header.Lost
	switch q := j.Request.(type) {
	case node.Expire:
		if q.Beat != nil && j.before.header.State == jobs.Running {
			want++
		}
	case node.Retire:
	case node.Complete, node.Crash, node.Fail, node.Requeue:
		want = 0
	case node.Record:
		ran := j.after.record.LastUpdated.Sub(j.after.record.LastStart)
		if q.JobID == j.id && ran > v.w.Config().Backoff.Health {
			want = 0
		}
	case node.Accept, node.Claim, node.Promote:
	default:
		return
	}
	if is := j.after.header.Lost; is != want {
		v.Fail("S7c", "job %s has lost %d workers after %d by %v", j.id, is, before, j.Request)
	}
}

// checkHeldBack demands that a suspect does not run. A node that does not hold the job any more may still
// start it, and drops it soon.
func (v *vanished) checkHeldBack(r *run) {
	if s := v.shadows[r.JobID()]; v.holds(r) && s.header.Lost >= mayLose {
		v.Fail("S7d", "%s runs job %s, which has lost %d workers", r.p.Name, r.JobID(), s.header.Lost)
	}
}
