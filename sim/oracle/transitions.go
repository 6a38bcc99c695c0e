package oracle

import (
	"bytes"
	"slices"

	"couchrelay/core/checkpoint"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/ryw"
)

// transitions are the invariants of how a job's record changes: people and programs follow a job by that.
type transitions struct{ *chronicle }

var transitionSubject = subject{
	invariants: []Invariant{
		{"S7a", "A job of a request that is over is to be forgotten after the configured time."},
		{"S7b", "A job's state changes only while it runs, or as it begins to run."},
		{"S16a", "The counters of a job never go back while it is the same replication."},
		{"L4e", "A job that becomes ready raises the signal for which nodes without jobs wait."},
	},
	begin: func(c *chronicle) {
		t := &transitions{c}
		c.on.jobChanged.add(t.checkSignal)
		c.on.jobMoved.add(t.checkRecord)
	},
}

// checkRecord compares the records of a job before and after a commit. A job that was made anew may begin
// with any state. Its counters belong to its replication, which is another one if the filter function
// changed.
func (t *transitions) checkRecord(j jobChange) {
	before, after := j.before.record, j.after.record
	if age := after.Expires.Sub(after.LastUpdated); after.Expires != 0 &&
		age != t.w.Config().TransientMaxAge {
		t.Fail("S7a", "job %s of a request is over, and forgotten after %s", j.id, age)
	}
	if j.anew {
		return
	}
	if !legal(before.State, after.State) {
		t.Fail("S7b", "job %s went from %s to %s by %v", j.id, before.State, after.State, j.Request)
	}
	was, is := before.Stats.Counters(), after.Stats.Counters()
	same := after.RepID == before.RepID && before.RepID != "" && before.Reset == 0 && after.Reset == 0
	if same && fewer(is, was) {
		t.Fail("S16a", "counters of job %s went back from %+v to %+v", j.id, was, is)
	}
}

// legal reports whether a job may go from one state to another: a job that waits stays so until it runs, one
// that runs may end in any way, and one that is over stays so.
func legal(from, to jobstore.State) bool {
	switch from {
	case jobstore.Pending, jobstore.Crashing:
		return to == from || to == jobstore.Running
	case jobstore.Running:
		return true
	}
	return to == from
}

// fewer reports whether a counter is less than it was.
func fewer(is, was checkpoint.Counters) bool {
	return is.MissingChecked < was.MissingChecked || is.MissingFound < was.MissingFound ||
		is.DocsRead < was.DocsRead || is.DocsWritten < was.DocsWritten ||
		is.DocWriteFailures < was.DocWriteFailures ||
		is.BulkGetDocs < was.BulkGetDocs || is.BulkGetAttempts < was.BulkGetAttempts
}

// checkSignal demands that the commit which makes a job ready changes the row of the signal for which nodes
// wait in whose part the job is.
func (t *transitions) checkSignal(j jobChange) {
	if !j.after.ready() || j.before.ready() {
		return
	}
	bucket := int64(0)
	for !jobs.Part(1 << bucket).Has(j.id) {
		bucket++
	}
	signal := t.w.Store().Keys.Jobs.Signal.Pack(bucket)
	if !slices.ContainsFunc(j.Mutations, func(m ryw.Mutation) bool { return bytes.Equal(m.Key, signal) }) {
		t.Fail("L4e", "job %s is ready by %v, and the nodes that may wait for it are not told", j.id, j.Request)
	}
}

// ready reports whether the job waits for a free slot, and for nothing else.
func (s *shadow) ready() bool {
	return s.header != nil && s.header.State == jobs.Pending && s.header.Due == 0 && s.header.Lot == ""
}
