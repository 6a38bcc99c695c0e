package jobstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// TestDueOfAClockAhead: a clock that was wrong for a moment keeps no job waiting for years.
func TestDueOfAClockAhead(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w, year := b.accept(), 365*24*time.Hour
	b.do1(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now.Add(year)).Crash(crash.Trouble, nil, Turn{}, 1)
	})
	promote := func() (moved int) {
		b.do1(func(tx kv.Tx) (err error) { moved, _, err = b.s.Promote(tx, b.now, 5); return err })
		return moved
	}
	if moved := promote(); moved != 1 {
		t.Errorf("%d jobs are promoted", moved)
	}
	w = b.accept()
	b.s.Config.Backoff.Min = b.s.Config.Backoff.Max
	b.do1(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now.Add(23*time.Hour)).Crash(crash.Trouble, nil, Turn{}, 1)
	})
	if moved := promote(); moved != 0 {
		t.Error("a job that waits for the longest back-off is promoted at once by a clock 23 hours behind")
	}
}

// TestEndlessBackoff: where max_backoff_penalty_sec is as long as can be, so that waits double for ever, a job waits.
func TestEndlessBackoff(t *testing.T) {
	b := newBench(t)
	b.s.Config.Backoff.Max = math.MaxInt64 / time.Second * time.Second
	b.put("r", simple, admin)
	b.crash(b.accept())
	var moved int
	if b.do1(func(tx kv.Tx) (err error) { moved, _, err = b.s.Promote(tx, b.now, 5); return err }); moved != 0 {
		t.Error("a job that has crashed runs again at once")
	}
}

// TestPromoteWithinLimit: the limit is for all that one call moves, for whatever reason.
func TestPromoteWithinLimit(t *testing.T) {
	b := newBench(t)
	year := 365 * 24 * time.Hour
	for i := range 4 {
		b.put(fmt.Sprint("r", i), strings.Replace(simple, "http://h/b", fmt.Sprint("http://h/b", i), 1), admin)
		w, now := b.accept(), b.now
		if i >= 2 {
			now = now.Add(year)
		}
		b.do1(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, now).Crash(crash.Trouble, nil, Turn{}, 1) })
	}
	b.now = b.now.Add(b.s.Config.Backoff.Max)
	for _, want := range []int{3, 1, 0} {
		var moved int
		b.do1(func(tx kv.Tx) (err error) { moved, _, err = b.s.Promote(tx, b.now, 3); return err })
		if moved != want {
			t.Errorf("%d jobs are promoted, want %d", moved, want)
		}
	}
}

// TestRecreatedBeforeSwept: a job of a deleted database that is still to be swept is given to no worker, and is in no
// document's way for good.
func TestRecreatedBeforeSwept(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	b.do1(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	b.do1(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "_replicator", tuple.UUID{2}, b.now) })
	b.put("r", simple, admin)
	work := get(b, func(tx kv.Tx) ([]Work, error) {
		taken, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 1, Max: 5}, b.now)
		work := taken.Work
		return work, err
	})
	if len(work) != 1 || work[0].JobID != documentJobID(tuple.UUID{2}, "r") {
		t.Fatalf("accepted %+v", work)
	}
	claim := func() error { return b.claim(work[0], work[0].Record.RepID) }
	dup, is := errors.AsType[*Duplicate](claim())
	if !is || !dup.Passing {
		t.Errorf("before the sweep: %+v", dup)
	}
	for done := false; !done; {
		b.do1(func(tx kv.Tx) (err error) { done, err = b.s.SweepDropped(tx, 10); return err })
	}
	if err := claim(); err != nil {
		t.Errorf("after the sweep: %v", err)
	}
}

// TestCrashesWithoutGettingFurther: runs that crash at the same checkpoint count as crashes in a row however long they
// last, until one has moved the checkpoint on, has done all there is, or is another replication's.
func TestCrashesWithoutGettingFurther(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id, none, some := jobID("r"), int64(0), int64(7)
	run := func(want int, told ...Stats) {
		t.Helper()
		w := b.accept()
		if err := b.claim(w, "rep"); err != nil {
			t.Fatal(err)
		}
		for _, s := range told[:len(told)-1] {
			b.end(w, func(h Owned) error { return h.Progress(s) })
		}
		b.now = b.now.Add(2 * b.s.Config.Backoff.Health)
		b.do(func(tx kv.Tx) error {
			return b.s.Owned(tx, id, w.Lock, b.now).Crash(crash.Trouble, &told[len(told)-1], Turn{}, 1)
		})
		if rec := b.record(id); rec.ErrorCount != 1 || rec.Stuck != want || rec.Crashes() != max(want, 1) {
			t.Errorf("%d crashes in a row, %d without getting further, want %d", rec.ErrorCount, rec.Stuck, want)
		}
		b.retry(id)
	}
	at := func(seq SeqText) Stats {
		return Stats{CheckpointedSourceSeq: seq, ThroughSeq: "8", SourceSeq: "9", ChangesPending: &none}
	}
	run(1, at(""))
	run(2, at(""), at("5"), at("5"))
	run(3, at("5"), at("5"))
	run(4, at(""), at("5"))
	run(1, at("5"), at("6"))
	run(2, at("6"))
	run(1, at("7"))
	done := at("7")
	done.ThroughSeq = done.SourceSeq
	run(2, at("7"))
	run(1, done, at("7"))
	done.ChangesPending = &some
	run(2, done, at("7"))
	w := b.accept()
	if err := b.claim(w, "another"); err != nil || b.record(id).Stuck != 0 {
		t.Errorf("%v; another replication is stuck %d times", err, b.record(id).Stuck)
	}
}

const simple = `{"source":"http://u:p@h/a","target":"http://h/b"}`

var admin = Writer{Name: "adm", Admin: true, Roles: []string{"_admin"}}

var crash = replication.End{Cause: replication.Crashed,
	Trouble: replication.Trouble{Error: "db_not_found", Reason: "could not open http://h/a/"}}

func TestDocumentBecomesJob(t *testing.T) {
	b := newBench(t)
	if refusal := b.put("r", simple, admin); refusal != nil {
		t.Fatal(refusal)
	}
	rec := b.record(jobID("r"))
	if rec.State != Pending || rec.Database != "_replicator" || rec.DocID != "r" || rec.Source != "http://h/a/" ||
		rec.History[0].Type != "added" {
		t.Errorf("record %+v", rec)
	}
	if !strings.Contains(b.doc("r"), `"owner":"adm"`) {
		t.Errorf("document %s", b.doc("r"))
	}
	b.now++
	w := b.accept()
	if w.Record.State != Running || w.Record.Node != "node1" || w.Record.LastStart != b.now ||
		w.Replication.Source.Credentials.IsSet() == false {
		t.Errorf("work %+v", w.Record)
	}
	if err := b.claim(w, "rep"); err != nil {
		t.Fatal(err)
	}
	b.now++
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Progress(Stats{DocsWritten: 3}) })
	if rec := b.record(w.JobID); rec.Stats.DocsWritten != 3 || rec.RepID != "rep" || rec.LastUpdated != b.now {
		t.Errorf("record %+v", rec)
	}
	end := replication.End{Cause: replication.Completed, Result: []byte(`{"history":[]}`)}
	end.Info.DocsWritten = 4
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(end, Turn{}) })
	rec = b.record(w.JobID)
	if rec.State != Completed || rec.Stats.DocsWritten != 4 || string(rec.Result) != `{"history":[]}` ||
		rec.Node != "" {
		t.Errorf("record %+v", rec)
	}
	for _, want := range []string{
		`"_replication_state":"completed"`, `"_replication_state_time":"2023-11-14T22:13:20Z"`,
		`"docs_written":4`, `"source":"http://u:p@h/a"`,
	} {
		if !strings.Contains(b.doc("r"), want) {
			t.Errorf("document %s lacks %s", b.doc("r"), want)
		}
	}
}

// TestEdits: what happens to the job when its document is written again.
func TestEdits(t *testing.T) {
	const other = `{"source":"http://h/other","target":"http://h/b"}`
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.put("r", `{"source":"http://u:p@h/a","target":"http://h/b","comment":1}`, admin)
	b.wantState(w.JobID, Running) // the same replication goes on
	b.put("r", other, admin)
	b.wantState(w.JobID, Pending)
	err := kv.Do(context.Background(), b.db, func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Progress(Stats{})
	})
	if !errors.Is(err, jobs.ErrCanceled) {
		t.Errorf("the old run may go on: %v", err)
	}
	w = b.accept()
	if w.Replication.Source.URL != "http://h/other/" {
		t.Errorf("runs %s", w.Replication.Source.URL)
	}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{}, Turn{}) })
	b.put("r", strings.TrimSuffix(other, "}")+`,"_replication_state":"completed","x":1}`, admin)
	b.wantState(w.JobID, Completed) // done stays done
	b.put("r", other, admin)
	b.wantState(w.JobID, Pending) // until the state is taken off
	b.put("r", `{"_deleted":true}`, admin)
	b.wantState(w.JobID, "absent")
	if spec := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, w.JobID) }); spec != nil {
		t.Error("the replication is still stored")
	}
}

func TestRefusedDocuments(t *testing.T) {
	b := newBench(t)
	for body, want := range map[string]string{
		`{"target":"http://h/b"}`:                                      "Missing replicator database",
		`{"source":"a","target":"http://h/b"}`:                         "local_endpoints_not_supported",
		`{"source":"http://h/a","target":"http://h/b","continuous":1}`: "parameter `continuous` must be a boolean",
	} {
		if refusal := b.put("r", body, admin); refusal == nil || refusal.Kind != docs.Denied ||
			!strings.HasPrefix(refusal.Reason, want) {
			t.Errorf("%s: %v", body, refusal)
		}
		b.wantState(jobID("r"), "absent")
	}
	for _, id := range []string{"_design/d", "_local/l"} {
		if refusal := b.put(id, `{"any":"thing"}`, admin); refusal != nil {
			t.Errorf("%s: %v", id, refusal)
		}
		b.wantState(jobID(id), "absent")
	}
}

func TestOwner(t *testing.T) {
	b := newBench(t)
	b.put("forged", strings.Replace(simple, "}", `,"user_ctx":{"name":"root"}}`, 1), Writer{Name: "eve"})
	// Where a job may connect depends on what its writer may do, and not on a name that the document gives.
	rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, jobID("forged")) })
	if rep.DocID != "forged" || rep.Owner != "" || b.record(jobID("forged")).User != "eve" {
		t.Errorf("replication of document %q, owner %q", rep.DocID, rep.Owner)
	}
	b.put("r", simple, Writer{Name: "joe"})
	changed := `{"source":"http://h/x","target":"http://h/b","owner":"joe"}`
	if refusal := b.put("r", changed, Writer{Name: "eve"}); refusal == nil || refusal.Kind != docs.Denied {
		t.Errorf("eve wrote joe's document: %v", refusal)
	}
	if refusal := b.put("r", changed, admin); refusal != nil {
		t.Error(refusal)
	}
	if !strings.Contains(b.doc("r"), `"owner":"joe"`) {
		t.Error(b.doc("r"))
	}
	b.put("n", simple, Writer{})
	if !strings.Contains(b.doc("n"), `"owner":null`) {
		t.Error(b.doc("n"))
	}
}

func TestCrashes(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	for n := 1; n <= 3; n++ {
		w := b.accept()
		b.now = b.now.Add(1_000_000_000)
		b.do(func(tx kv.Tx) error {
			return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(crash.Trouble, nil, Turn{}, 1)
		})
		rec := b.record(w.JobID)
		last := Event{Type: "crashed", At: b.now, Reason: "db_not_found: could not open http://h/a/"}
		if rec.State != Crashing || rec.ErrorCount != n || rec.History[0] != last {
			t.Fatalf("after crash %d: %+v", n, rec)
		}
		j := get(b, func(tx kv.Tx) (*jobs.Job, error) { return b.s.Jobs.Get(tx, w.JobID) })
		if wait := j.Due.Sub(b.now); wait > b.s.Config.Backoff.Delay(n) || wait < b.s.Config.Backoff.Delay(n)*3/4 {
			t.Errorf("waits %s after crash %d", wait, n)
		}
		b.now = j.Due
		b.do1(func(tx kv.Tx) error { _, _, err := b.s.Jobs.Promote(tx, b.now, 5); return err })
	}
	w := b.accept()
	b.now = b.now.Add(b.s.Config.Backoff.Health + 1_000_000)
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Progress(Stats{}) })
	if rec := b.record(w.JobID); rec.ErrorCount != 0 || rec.Reason != "" {
		t.Errorf("not healed: %+v", rec)
	}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Requeue(nil, Turn{}) })
	b.wantState(w.JobID, Pending)
}

// TestStalledIsTold: a run that got nowhere has an event of its own in the history.
func TestStalledIsTold(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	stalled := replication.Trouble{Error: "stalled", Reason: "nothing was read"}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(stalled, nil, Turn{}, 1) })
	rec := b.record(w.JobID)
	e := rec.History[0]
	if e.Type != "stalled" || e.Reason != "stalled: nothing was read" ||
		rec.State != Crashing || rec.Error != "stalled" {
		t.Errorf("%+v", rec)
	}
}

// TestCompletionHeals: a job that completes after crashes tells of none of them.
func TestCompletionHeals(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(crash.Trouble, nil, Turn{}, 1)
	})
	b.now = b.now.Add(b.s.Config.Backoff.Max)
	b.do1(func(tx kv.Tx) error { _, _, err := b.s.Jobs.Promote(tx, b.now, 5); return err })
	w = b.accept()
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{Cause: replication.Completed}, Turn{})
	})
	if rec := b.record(w.JobID); rec.State != Completed || rec.ErrorCount != 0 || rec.Error != "" {
		t.Errorf("%+v", rec)
	}
}

// TestHistoryIsBounded: the newest events stay.
func TestHistoryIsBounded(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	for range 15 {
		b.now++
		w := b.accept()
		b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Requeue(nil, Turn{}) })
	}
	if h := b.record(jobID("r")).History; len(h) != 20 || h[0].Type != "pending" || h[0].At != b.now {
		t.Errorf("%d events, the newest %+v", len(h), h[0])
	}
}

func TestDuplicates(t *testing.T) {
	b := newBench(t)
	b.put("one", simple, admin)
	first := b.accept()
	b.put("two", simple, admin)
	second := b.accept()
	if err := b.claim(first, "rep"); err != nil {
		t.Fatal(err)
	}
	const refused = "Replication `rep` specified by document `two` already started, triggered by document `one` " +
		"from db `_replicator`"
	if err := b.claim(second, "rep"); err == nil || err.Error() != refused {
		t.Fatalf("the second may run too: %v", err)
	}
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, first.JobID, first.Lock, b.now).Crash(crash.Trouble, nil, Turn{}, 1)
	})
	if b.claim(second, "rep") == nil {
		t.Fatal("took the replication of a job that waits after a crash")
	}
	trouble := replication.Trouble{Error: "duplicate", Reason: refused}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, second.JobID, second.Lock, b.now).Fail(trouble, Turn{}) })
	if !strings.Contains(b.doc("two"), "already started, triggered by document `one`") ||
		!strings.Contains(b.doc("two"), `"_replication_state":"failed"`) {
		t.Error(b.doc("two"))
	}
	b.put("one", `{"_deleted":true}`, admin)
	b.put("two", simple, admin)
	if err := b.claim(b.accept(), "rep"); err != nil {
		t.Errorf("the first is gone, but %v", err)
	}
}

func TestReplicationIDChanges(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.claim(w, "one")
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Progress(Stats{DocsRead: 7}) })
	b.claim(w, "two")
	if rec := b.record(w.JobID); rec.RepID != "two" || rec.Stats.DocsRead != 0 {
		t.Errorf("record %+v", rec)
	}
	if owner := get(b, func(tx kv.Tx) (string, error) { return b.s.JobOf(tx, "one") }); owner != "" {
		t.Errorf("the old id still belongs to %q", owner)
	}
}

func (b *bench) replicate(user string) string {
	b.t.Helper()
	rep, err := spec.ParseRequest([]byte(strings.Replace(simple, "/b", "/"+user, 1)), b.s.Config.Parse)
	if err != nil {
		b.t.Fatal(err)
	}
	var id string
	b.do(func(tx kv.Tx) (err error) { id, err = b.s.Replicate(tx, rep, user, b.now); return err })
	return id
}

// TestJobOfTheWinner writes two conflicting revisions of a document in one transaction. The job follows the winner,
// though the other one was validated last.
func TestJobOfTheWinner(t *testing.T) {
	b := newBench(t)
	edit := func(rev, target string) docs.Edit {
		body := fmt.Sprintf(`{"_id":"r","_rev":"1-%s","source":"http://s/a","target":"http://t/%s"}`,
			strings.Repeat(rev, 32), target)
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			t.Fatal(err)
		}
		return docs.Edit{Document: *doc, Replicated: true}
	}
	b.do(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		written, err := b.s.WriteDocs(tx, db, []docs.Edit{edit("b", "winner"), edit("a", "loser")},
			Writer{Admin: true}, b.now)
		for _, w := range written {
			if w.Err != nil {
				t.Errorf("%s is refused: %v", w.Rev, w.Err)
			}
		}
		return err
	})
	if rec := b.record(jobID("r")); rec == nil || rec.Target != "http://t/winner/" {
		t.Errorf("the job is %+v", rec)
	}
}

// TestEndOfAnotherLeaf deletes the winner of a document whose job is over, so that another leaf wins, which tells
// another end. The job tells that, too.
func TestEndOfAnotherLeaf(t *testing.T) {
	b := newBench(t)
	write := func(body string, replicated bool) {
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			t.Fatal(err)
		}
		b.do(func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			edits := []docs.Edit{{Document: *doc, Replicated: replicated}}
			_, err = b.s.WriteDocs(tx, db, edits, Writer{Admin: true}, b.now)
			return err
		})
	}
	rev := "2-" + strings.Repeat("b", 32)
	write(`{"_id":"r","_rev":"1-`+strings.Repeat("a", 32)+`","source":"http://s/a","target":"http://t/a",`+
		`"_replication_state":"completed"}`, true)
	write(`{"_id":"r","_rev":"`+rev+`","source":"http://s/a","target":"http://t/b",`+
		`"_replication_state":"failed","_replication_state_reason":"why"}`, true)
	if rec := b.record(jobID("r")); rec == nil || rec.State != Failed || rec.Target != "http://t/b/" {
		t.Errorf("the job of the winner is %+v", rec)
	}
	write(`{"_id":"r","_rev":"`+rev+`","_deleted":true}`, false)
	if rec := b.record(jobID("r")); rec == nil || rec.State != Completed || rec.Target != "http://t/a/" {
		t.Errorf("the job of the leaf that is left is %+v", rec)
	}
}
