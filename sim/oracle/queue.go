package oracle

import (
	"couchrelay/core/jobs"
	"couchrelay/sim/world"
)

// queues are the invariants of how the queue agrees with itself.
type queues struct{ *chronicle }

var queueSubject = subject{
	invariants: []Invariant{
		{"S3g", "The indexes and counters of the queue and of accounts agree with the jobs that there are."},
	},
	begin: func(c *chronicle) {
		q := &queues{c}
		c.on.ticked.add(func(world.Ticked) { q.checkCounts() })
		c.on.atRest.add(func(struct{}) { q.audit() })
	},
}

// audit is S3g in full, which reads everything.
func (q *queues) audit() {
	if err := q.w.Store().Jobs.Audit(q.w.Present()); err != nil {
		q.Fail("S3g", "the queue contradicts itself: %v", err)
	}
	if err := q.w.Store().Audit(q.w.Present()); err != nil {
		q.Fail("S3g", "the counters of accounts are wrong: %v", err)
	}
	q.checkCounts()
}

// checkCounts is the part of S3g that is cheap: the counters of the queue agree with the jobs by all commits.
func (q *queues) checkCounts() {
	var want jobs.Counts
	for _, s := range q.shadows {
		switch h := s.header; {
		case h == nil:
		case h.State == jobs.Running:
			want.Running++
		case h.State == jobs.Finished:
			want.Finished++
		case h.Lot != "":
			want.Parked++
		case h.Due > 0:
			want.Waiting++
		default:
			want.Ready++
		}
	}
	if got, err := q.w.Store().Jobs.Counts(q.w.Present()); err != nil {
		q.unreadable("counters of the queue", err)
	} else if got != want {
		q.Fail("S3g", "the queue counts %+v, and has %+v", got, want)
	}
}
