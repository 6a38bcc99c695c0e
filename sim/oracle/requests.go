package oracle

import (
	"fmt"

	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// requests are the invariants of POST /_replicate.
type requests struct {
	*chronicle
	asksFor map[string]string // replications of requests in the words of asks, by the ids of their jobs
}

var requestSubject = subject{
	invariants: []Invariant{
		{"S3d", "A request that was answered has its job, of its user and for what it asks."},
		{"S3e", "Requests for different replications have jobs of their own."},
		{"S3f", "A finished job of a request is kept until its time is over."},
		{"S4h", "The job of a request that was canceled is gone."},
	},
	begin: func(c *chronicle) {
		q := &requests{c, map[string]string{}}
		c.on.requestAnswered.add(q.answered)
		c.on.requestAccepted.add(q.accepted)
		c.on.requestCanceled.add(q.canceled)
		c.on.jobChanged.add(q.checkKept)
	},
}

// answered is S3e.
func (q *requests) answered(f world.RequestAnswered) {
	what := asks(f.Replication)
	if before, known := q.asksFor[f.ID]; known && before != what {
		q.Fail("S3e", "job %s is one %s, and a request for one %s was given it", f.ID, before, what)
	}
	q.asksFor[f.ID] = what
}

// asks describes the replication of a request, in words that tell one from another.
func asks(r *spec.Replication) string {
	return fmt.Sprintf("from %s to %s, continuous: %v, since %s, with %+v",
		r.Source.URL, r.Target.URL, r.Continuous, r.SinceSeq, r.Filter)
}

// accepted is S3d. A job that was removed after its request was made is excused, as it may have been
// canceled; so is a job that is over since then.
func (q *requests) accepted(f world.RequestAccepted) {
	rep, s := f.Replication, q.shadows[f.ID]
	if s == nil || s.header == nil {
		if s == nil || s.gone < f.Made {
			q.Fail("S3d", "request %s was accepted, and has no job", f.ID)
		}
		return
	}
	switch r := s.record; {
	case s.header.State == jobs.Finished && s.over < f.Made:
		q.Fail("S3d", "request %s was accepted, and its job was over at %s", f.ID, s.over)
	case r.User != world.Requester:
		q.Fail("S3d", "request %s of %s was accepted, and its job is one of %q",
			f.ID, world.Requester, r.User)
	case r.Source != rep.Source.URL || r.Target != rep.Target.URL || r.Continuous != rep.Continuous:
		q.Fail("S3d", "request %s from %s to %s was accepted, and its job does something else",
			f.ID, rep.Source.URL, rep.Target.URL)
	}
}

// canceled is S4h. A job that came after the cancellation was sent is excused: it may be of a request that
// came after.
func (q *requests) canceled(f world.RequestCanceled) {
	if s := q.shadows[f.ID]; s != nil && s.header != nil && s.came < f.At {
		q.Fail("S4h", "request %s was canceled, and its job of %s is there", f.ID, s.record.Created)
	}
}

// checkKept is S3f: a user may ask for the outcome until then.
func (q *requests) checkKept(j jobChange) {
	if _, sweeps := j.Request.(node.Sweep); !sweeps || j.after.header != nil {
		return
	}
	b := j.before.record
	if b != nil && b.Transient() && (!b.State.Terminal() || b.Expires > j.Wall) {
		q.Fail("S3f", "job %s of a request is %s until %s, and was removed at %s",
			j.id, b.State, b.Expires, j.Wall)
	}
}
