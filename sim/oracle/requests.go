package oracle

import (
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
	"fmt"
)

// requests are the invariants of POST /_replicate.
type requests struct {
	*chronicle
	asksFor map[string]string // what requests are for, by the ids of their jobs
}

var requestSubject = subject{
	begin: func(c *chronicle) {
		o := &requests{c, map[string]string{}}
		c.on.requestAnswered.add(func(f world.RequestAnswered) { o.checkID(f.ID, f.Replication) })
		c.on.requestAccepted.add(func(f world.RequestAccepted) { o.accepted(f.ID, f.Replication, f.Made) })
		c.on.requestCanceled.add(func(f world.RequestCanceled) { o.canceled(f.ID, f.At) })
	},
}

// checkID is a part of S3: requests for something else have jobs of their own.
func (o *requests) checkID(id string, rep *spec.Replication) {
	what := fmt.Sprintf("from %s to %s, continuous: %v, since %s, with %+v", rep.Source.URL, rep.Target.URL, rep.Continuous, rep.SinceSeq, rep.Filter)
	if before, known := o.asksFor[id]; known && before != what {
		o.Fail("S3", "job %s is one %s, and a request for one %s was given it", id, before, what)
	}
	o.asksFor[id] = what
}

// accepted is S3 for requests: one that was made at a moment and answered has its job, unless that was removed
// meanwhile. Another one may have replaced it.
func (o *requests) accepted(id string, rep *spec.Replication, made instant.Time) {
	switch s := o.shadows[id]; {
	case s == nil || s.header == nil && s.gone < made:
		o.Fail("S3", "request %s was accepted, and has no job", id)
	case s.header != nil && s.header.State == jobs.Finished && s.over < made:
		o.Fail("S3", "request %s was accepted, and its job was over at %s", id, s.over)
	case s.header != nil && s.record.User != world.Requester:
		o.Fail("S3", "request %s of %s was accepted, and its job is one of %q", id, world.Requester, s.record.User)
	case s.header != nil && (s.record.Source != rep.Source.URL || s.record.Target != rep.Target.URL || s.record.Continuous != rep.Continuous):
		o.Fail("S3", "request %s from %s to %s was accepted, and its job does something else", id, rep.Source.URL, rep.Target.URL)
	}
}

// canceled is S4 for requests: the job of one that was there before somebody canceled it is gone. A request that was
// under way for long may have come since, whatever its date is.
func (o *requests) canceled(id string, at instant.Time) {
	if s := o.shadows[id]; s != nil && s.header != nil && s.came < at {
		o.Fail("S4", "request %s was canceled, and its job of %s is there", id, s.record.Created)
	}
}
