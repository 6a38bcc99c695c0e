package jobstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
)

// TestRepeatedAcceptTellsOfAStop: a node that did not hear the answer of an accept, and asks again, hears that a job
// which it got was paused in between. Otherwise it would run it, and stop it only at the next heartbeat.
func TestRepeatedAcceptTellsOfAStop(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	again := func() []Work {
		return get(b, func(tx kv.Tx) ([]Work, error) {
			taken, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 7, Max: 5}, b.now)
			return taken.Work, err
		})
	}
	if w := again(); len(w) != 1 || w[0].Stop {
		t.Fatalf("accepted %+v", w)
	}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).Pause(jobID("r"), ""); return err })
	if w := again(); len(w) != 1 || !w[0].Stop {
		t.Errorf("accepted again %+v", w)
	}
}

// TestPromoteKeepsItsLimit: one transaction moves no more jobs than it was asked to, of those that waited after a crash
// and those of a lifted hold together.
func TestPromoteKeepsItsLimit(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(crash.Trouble, nil, Turn{Place: w.Place}, 1)
	})
	hold := Hold{Server: "held"}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	for _, id := range []string{"x", "y", "z"} {
		b.put(id, `{"source":"http://held/`+id+`","target":"http://h/`+id+`"}`, admin)
	}
	b.tryAccept() // parks them
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
	b.now = b.now.Add(time.Hour)
	total := 0
	for range 4 {
		b.do1(func(tx kv.Tx) error {
			moved, _, err := b.s.Promote(tx, b.now, 2)
			if total += moved; moved > 2 {
				t.Errorf("%d jobs were moved, 2 at most were to be", moved)
			}
			return err
		})
	}
	if total != 4 {
		t.Errorf("%d jobs were moved, there are 4", total)
	}
}

// TestParkedRowWithoutJob: a store that lacks a job which a lifted hold let go is told to be corrupt.
func TestParkedRowWithoutJob(t *testing.T) {
	b := newBench(t)
	hold := Hold{Server: "h"}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	b.put("r", simple, admin)
	b.tryAccept() // parks it
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
	b.do1(func(tx kv.Tx) error { tx.ClearRange(b.s.Keys.Jobs.Job.Sub(jobID("r")).Range()); return nil })
	err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
	if !errors.Is(err, jobs.ErrCorrupt) {
		t.Error(err)
	}
}

// TestWaitingRowWithoutJob: so is one that lacks a job which waits for the end of another one.
func TestWaitingRowWithoutJob(t *testing.T) {
	b := newFullBench(t)
	run := get(b, func(tx kv.Tx) (*jobs.Job, error) { return b.s.Jobs.Get(tx, jobID("run")) })
	b.do1(func(tx kv.Tx) error { tx.ClearRange(b.s.Keys.Jobs.Job.Sub(jobID("wait")).Range()); return nil })
	b.do1(func(tx kv.Tx) error {
		return b.s.Owned(tx, run.ID, run.Lock, b.now).Complete(replication.End{}, Turn{})
	})
	err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 9); return err })
	if !errors.Is(err, jobs.ErrCorrupt) {
		t.Error(err)
	}
}

// TestLostPartOfReplication: a replication that has lost a part, without which the others can be read, does not run.
func TestLostPartOfReplication(t *testing.T) {
	b := newBench(t)
	b.put("r", strings.Replace(simple, "}", `,"doc_ids":["`+strings.Repeat("x", 3*specChunk)+`"]}`, 1), admin)
	id := jobID("r")
	b.do1(func(tx kv.Tx) error { tx.Clear(b.s.Keys.Spec.Pack(id, int64(1))); return nil })
	tx := b.db.Begin(t.Context(), kv.Options{})
	defer tx.Cancel()
	if rep, err := b.s.Spec(tx, id); !errors.Is(err, jobs.ErrCorrupt) {
		t.Errorf("%d bytes of its id are read, and the error is %v", len(rep.Filter.DocIDs[0]), err)
	}
}

// TestAuditCountsJobs: an audit, which tests and simulations rely on, finds an account whose number of jobs is off.
func TestAuditCountsJobs(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	for _, numbers := range []tuple.Subspace{b.s.Keys.Count, b.s.Keys.Weights} {
		b.do1(func(tx kv.Tx) error { tx.Add(numbers.Pack("_replicator"), 1); return nil })
		err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error { return b.s.Audit(tx) })
		if !errors.Is(err, jobs.ErrCorrupt) {
			t.Error(err)
		}
		b.do1(func(tx kv.Tx) error { tx.Add(numbers.Pack("_replicator"), -1); return b.s.Audit(tx) })
	}
}

// TestDamagedRecord: reading a job whose record is damaged, or waiting for it, fails with an error; the job does not
// count as deleted.
func TestDamagedRecord(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Jobs.Job.Pack(id, 0), []byte("{")); return nil })
	never := func(*Record) bool { return false }
	for name, read := range map[string]func(kv.Tx) error{
		"record":       func(tx kv.Tx) error { _, err := b.s.Record(tx, id); return err },
		"subscription": func(tx kv.Tx) error { _, _, err := Subscribe(tx, b.s, id, true, never); return err },
		"search":       func(tx kv.Tx) error { _, _, err := b.s.Find(tx, id); return err },
		"audit":        func(tx kv.Tx) error { return b.s.Audit(tx) },
		"accept": func(tx kv.Tx) error {
			_, err := b.s.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: 5}, b.now)
			return err
		},
	} {
		if err := kv.Do(t.Context(), b.db, read); err == nil || !strings.Contains(err.Error(), "record of job") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadsOfFinished: a job that is over, and was never more than a document with a state, can be read.
func TestReadsOfFinished(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://h/a","target":"http://h/b","_replication_state":"completed"}`, admin)
	if err := Reads(b.s, b.db.Present(), jobID("r")); err != nil || b.record(jobID("r")).State != Completed {
		t.Errorf("%v", err)
	}
}
