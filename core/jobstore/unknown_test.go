package jobstore

import (
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

// TestUnknownFields: a job tells which fields of its document mean nothing, also after an edit that changes nothing
// else, which leaves the job alone.
func TestUnknownFields(t *testing.T) {
	b := newBench(t)
	with := func(more string) string { return strings.TrimSuffix(simple, "}") + more + "}" }
	told := func(want ...string) {
		t.Helper()
		if got := b.record(jobID("r")).View().Unknown; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	b.put("r", with(`,"prioritty":5,"owner":"adm"`), admin)
	told("prioritty")
	b.put("r", with(`,"priority":5`), admin)
	told("priority")
	w := b.accept()
	b.put("r", with(`,"paws":true`), admin)
	told("paws")
	if rec := b.record(w.JobID); rec.State != Running || rec.Node != "node1" {
		t.Errorf("the run is %+v", rec)
	}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Requeue(nil, Turn{}) })
	told("paws")
	b.put("r", simple, admin)
	told()
	if events := len(b.record(w.JobID).History); events != 4 {
		t.Errorf("%d events, the job was made anew", events)
	}
}

// TestStaleMarks: what a replicator wrote into a document goes when it is written, also by a replication that brings
// the revision, unless it says that the replication is over.
func TestStaleMarks(t *testing.T) {
	b := newBench(t)
	const marks = `,"_replication_id":"i","_replication_state_time":"t",` +
		`"_replication_state_reason":"r","_replication_stats":{}`
	with := func(state string) string {
		return strings.TrimSuffix(simple, "}") + marks + `,"_replication_state":` + state + "}"
	}
	for _, state := range []string{`"triggered"`, `"error"`, `"other"`, `5`, `null`} {
		if refused := b.put("r", with(state), admin); refused != nil {
			t.Fatal(refused)
		}
		if got := b.doc("r"); strings.Contains(got, `"_repl`) || !strings.Contains(got, "source") {
			t.Errorf("%s: %s", state, got)
		}
		b.wantState(jobID("r"), Pending)
	}
	for _, state := range []string{`"completed"`, `"failed"`} {
		id := strings.Trim(state, `"`)
		b.put(id, with(state), admin)
		if got := b.doc(id); strings.Count(got, `"_repl`) != 5 {
			t.Errorf("%s: %s", state, got)
		}
		b.wantState(jobID(id), State(id))
	}
	b.do(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		raw := `{"_id":"copied","_rev":"7-abc",` + with(`"triggered"`)[1:]
		doc, err := docs.ParseDocument([]byte(raw), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		_, err = b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Replicated: true}}, admin, b.now)
		return err
	})
	if got := b.doc("copied"); strings.Contains(got, `"_repl`) {
		t.Error(got)
	}
	b.wantState(jobID("copied"), Pending)
}
