package oracle

import (
	"couchrelay/core/jobs"
	"couchrelay/core/node"
)

// losses count workers that vanish with a job.
type losses struct{ *chronicle }

var lossSubject = subject{
	begin: func(c *chronicle) {
		o := &losses{c}
		c.on.jobMoved.add(o.checkLost)
		c.on.runStarted.add(o.checkSuspect)
	},
}

// mayLose is how many workers may vanish with a job in a row before it is suspected of bringing them down.
const mayLose = 5

// checkLost is a part of S7: a worker that vanishes counts against the jobs that it had, until one of them ends a run
// in order or has run for as long as health takes.
func (o *losses) checkLost(j jobChange) {
	id, before, after, l := j.id, j.before, j.after, j.landing
	want := before.header.Lost
	switch q := l.Request.(type) {
	case node.Expire, node.Retire:
		if before.header.State == jobs.Running {
			want++
		}
	case node.Complete, node.Crash, node.Fail, node.Requeue:
		want = 0
	case node.Record:
		if rec := after.record; q.JobID == id && rec.LastUpdated.Sub(rec.LastStart) > o.w.Config().Backoff.Health {
			want = 0
		}
	case node.Accept, node.Claim, node.Promote:
	default:
		return // users may make the job anew
	}
	if after.header.Lost != want {
		o.Fail("S7", "job %s has lost %d workers after %d by %v", id, after.header.Lost, before.header.Lost, l.Request)
	}
}

// checkSuspect is a part of S7: a job that its workers vanished with again and again is held back.
func (o *losses) checkSuspect(r *run) {
	id := r.JobID()
	if s := o.shadows[id]; o.holds(r) && s.header.Lost >= mayLose {
		o.Fail("S7", "%s runs job %s, which has lost %d workers", r.p.Name, id, s.header.Lost)
	}
}
