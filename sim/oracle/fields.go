package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
)

// meaningful are the fields of replication documents that mean something, as far as users of this world write them.
var meaningful = []string{
	"source", "target", "continuous", "create_target", "create_target_params", "winning_revs_only", "use_checkpoints",
	"use_bulk_get", "worker_batch_size", "doc_ids", "filter", "query_params", "selector", "since_seq", "proxy",
	"user_ctx", "owner", "paused", "weight", "on_refusal",
}

// fields are the invariants of what replication documents should not have.
type fields struct{ *chronicle }

var fieldSubject = subject{
	invariants: []Invariant{
		{"S40a", "A document has marks of a replicator only if they say that its replication is over."},
		{"S40b", "A job names the fields of its document that mean nothing, and no others."},
	},
	begin: func(c *chronicle) {
		f := &fields{c}
		c.on.atRest.add(func(struct{}) { f.checkAtRest() })
	},
}

// checkAtRest looks at the documents whose users know what they wrote.
func (f *fields) checkAtRest() {
	for _, key := range slices.Sorted(maps.Keys(f.docs)) {
		if truth := f.docs[key]; !truth.j.Unsure() {
			f.check(key, truth.j.JobID(), f.document(truth.j.Tenant(), truth.j.ID()))
		}
	}
}

// check is S40a and S40b. A job that is over need not have followed its document.
func (f *fields) check(key, jobID string, found *docs.Document) {
	s := f.shadows[jobID]
	if found == nil || s == nil || s.header == nil || s.isOver() {
		return
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(found.Body, &body) != nil {
		return
	}
	var unknown []string
	over := jobstore.State(toldBy(found).State).Terminal()
	for _, name := range slices.Sorted(maps.Keys(body)) {
		switch {
		case strings.HasPrefix(name, "_replication_") && !over:
			f.Fail("S40a", "document %s has %s, and tells no end: %s", key, name, found.Body)
		case !strings.HasPrefix(name, "_") && !slices.Contains(meaningful, name):
			unknown = append(unknown, name)
		}
	}
	told := slices.Sorted(slices.Values(s.record.Unknown))
	if !slices.Equal(unknown, told) {
		f.Fail("S40b", "the job of document %s names the fields %q, not %q", key, told, unknown)
	}
}
