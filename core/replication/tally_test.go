package replication

import (
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// TestTally: a run counts what it has done itself, and nothing of earlier runs.
func TestTally(t *testing.T) {
	w := newWorld(t)
	w.fill(5)
	w.refuses["doc1"], w.attachments["doc2"] = true, true
	w.plan.Resumed = checkpoint.Counters{DocsRead: 70, DocsWritten: 70, DocWriteFailures: 7}
	w.begin()
	w.wantEnd(Completed, "")
	got := w.run.Tally()
	read, written := got.BytesRead, got.BytesWritten
	got.BytesRead, got.BytesWritten = 0, 0
	want := Tally{DocsRead: 5, DocsWritten: 4, DocsRefused: 1, Checkpoints: 1}
	if got != want || read < 5*int64(w.docSize)-200 || written < 4*int64(w.docSize)-200 || read < written {
		t.Errorf("counted %+v with %d bytes read and %d written, want %+v", got, read, written, want)
	}
	w.begin()
	w.wantEnd(Completed, "")
	if got := w.run.Tally(); got != (Tally{}) {
		t.Errorf("with nothing to do it counts %+v", got)
	}
	w = newWorld(t)
	w.plan.UseBulkGet = false
	w.fill(5)
	w.begin()
	w.wantEnd(Completed, "")
	if got := w.run.Tally(); got.DocsRead != 5 || got.BytesRead == 0 || got.BytesRead != got.BytesWritten {
		t.Errorf("one by one it counts %+v", got)
	}
}

// TestTalliesAdd: each count is added to its like, and taken away from it.
func TestTalliesAdd(t *testing.T) {
	one, two := Tally{1, 2, 3, 4, 5, 6, 7}, Tally{10, 20, 30, 40, 50, 60, 70}
	sum := one
	sum.Add(two)
	if sum != (Tally{11, 22, 33, 44, 55, 66, 77}) || sum.Since(one) != two {
		t.Errorf("the sum is %+v, and without the first %+v", sum, sum.Since(one))
	}
}

// TestCounters: totals say what the target lacked, what came in bulk, and what was refused.
func TestCounters(t *testing.T) {
	w := newWorld(t)
	w.fill(5)
	w.dbs[peer.Target].write("doc0", "1-a")
	w.refuses["doc1"], w.attachments["doc2"] = true, true
	w.begin()
	want := checkpoint.Counters{
		MissingChecked: 5, MissingFound: 4, DocsRead: 4, DocsWritten: 3, DocWriteFailures: 1,
		BulkGetDocs: 3, BulkGetAttempts: 4,
	}
	if got := w.wantEnd(Completed, "").Info.Counters; got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// TestTallyOfFailures: a checkpoint that cannot be written counts as that.
func TestTallyOfFailures(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.failOn("put target _local", 0, status(500))
	w.begin()
	w.wantEnd(Crashed, "checkpoint_commit_failure")
	if got := w.run.Tally(); got.Checkpoints != 0 || got.CheckpointFailures != 1 {
		t.Errorf("counted %+v", got)
	}
}

// TestLag: a run is behind from its beginning until it has everything, and again from the next change on.
func TestLag(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(30)
	w.begin()
	began := w.now
	for _, behind := w.run.Lag(w.now); behind > 0 || w.now == began; _, behind = w.run.Lag(w.now) {
		if want := w.now.Sub(began); behind != want {
			t.Fatalf("after %s it is behind by %s", want, behind)
		}
		w.proceed(first)
	}
	if changes, _ := w.run.Lag(w.now); changes != 0 || w.run.Info().DocsWritten != 30 {
		t.Errorf("with %d documents it is up to date, and lacks %d changes", w.run.Info().DocsWritten, changes)
	}
	for end := w.now.Add(time.Hour); w.now < end; w.proceed(first) {
		if changes, behind := w.run.Lag(w.now); changes != 0 || behind != 0 {
			t.Fatalf("idle it lacks %d changes for %s", changes, behind)
		}
	}
	w.dbs[peer.Source].write("late", "1-a")
	w.dbs[peer.Source].write("later", "1-a")
	w.proceed(first)
	changes, behind := w.run.Lag(w.now.Add(time.Minute))
	if changes != 2 || behind != time.Minute {
		t.Errorf("a minute after 2 changes it lacks %d for %s", changes, behind)
	}
}
