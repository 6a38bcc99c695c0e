package oracle

import (
	"bytes"
	"couchrelay/core/checkpoint"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/ryw"
	"slices"
)

// transitions are the invariants of how a job's record changes.
type transitions struct{ *chronicle }

var transitionSubject = subject{
	invariants: []Invariant{
		{"S7", "A job's state changes in the ways that there are, its document says the same, and it counts the workers that vanished with it."},
		{"S16", "The counters of a job never go back, and are those that its run told last."},
	},
	begin: func(c *chronicle) {
		o := &transitions{c}
		c.on.jobChanged.add(o.checkSignal)
		c.on.jobMoved.add(o.checkMove)
	},
}

// checkMove is S7 and S16: states change in the ways that there are, and counters never go back.
func (o *transitions) checkMove(j jobChange) {
	b, a := j.before.record, j.after.record
	if age := a.Expires.Sub(a.LastUpdated); a.Expires != 0 && age != o.w.Config().TransientMaxAge {
		o.Fail("S7", "job %s of a request is over, and forgotten after %s", j.id, age)
	}
	if !j.anew && !legal(b.State, a.State) {
		o.Fail("S7", "job %s went from %s to %s by %v", j.id, b.State, a.State, j.Request)
	}
	if !j.anew && a.RepID == b.RepID && b.RepID != "" {
		o.checkCounters(j.id, b.Stats, a.Stats)
	}
}

// checkSignal is a part of L4: whoever waits for jobs is told of all that become ready.
func (o *transitions) checkSignal(j jobChange) {
	ready := func(s *shadow) bool { return s.header != nil && s.header.State == jobs.Pending && s.header.Due == 0 }
	if !ready(j.after) || ready(j.before) {
		return
	}
	if !slices.ContainsFunc(j.Mutations, func(m ryw.Mutation) bool { return bytes.Equal(m.Key, o.w.Store().Keys.Jobs.Signal) }) {
		o.Fail("L4", "job %s is ready by %v, and nobody is told", j.id, j.Request)
	}
}

func legal(from, to jobstore.State) bool {
	switch from {
	case jobstore.Pending, jobstore.Crashing:
		return to == from || to == jobstore.Running
	case jobstore.Running:
		return true
	}
	return to == from
}

// fewer says whether a counter is less than it was.
func fewer(is, was checkpoint.Counters) bool {
	return is.MissingChecked < was.MissingChecked || is.MissingFound < was.MissingFound || is.DocsRead < was.DocsRead || is.DocsWritten < was.DocsWritten ||
		is.DocWriteFailures < was.DocWriteFailures || is.BulkGetDocs < was.BulkGetDocs || is.BulkGetAttempts < was.BulkGetAttempts
}

// checkCounters is S16.
func (o *transitions) checkCounters(id string, b, a jobstore.Stats) {
	if fewer(a.Counters(), b.Counters()) {
		o.Fail("S16", "counters of job %s went back from %+v to %+v", id, b.Counters(), a.Counters())
	}
}
