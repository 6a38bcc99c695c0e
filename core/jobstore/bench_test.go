package jobstore

import (
	"context"
	"errors"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/schedule"
	"couchrelay/sim/fakefdb"
)

// bench is a store with one replicator database and one worker.
type bench struct {
	t     *testing.T
	db    *fakefdb.Database
	s     *Store
	now   instant.Time
	batch uint64

	rows      int // of the store, as the last check counted them
	unchecked int // transactions since that check
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, db: fakefdb.New(), now: instant.Seconds(1_700_000_000)}
	b.s = New(tuple.Subspace(tuple.Pack("test")), DefaultConfig(repid.Server{UUID: "uuid"}))
	b.s.Config.DuplicatesWait = false // many tests make all their jobs of one replication
	b.do1(func(tx kv.Tx) error {
		tx.Set(b.s.Keys.Schema, encodeNumber(schemaVersion))
		tx.Set(b.s.Keys.UUID, []byte("uuid"))
		return nil
	})
	b.do(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "_replicator", tuple.UUID{1}, b.now) })
	b.do1(func(tx kv.Tx) error { return b.s.Jobs.Register(tx, "w", nil) })
	return b
}

// do runs a transaction that must succeed, twice: all of them are idempotent. The repetition may find
// that the lock is gone, since the first took it. A check of a large store takes long, so it comes after so
// many transactions that there is one for a hundred rows.
func (b *bench) do(f func(kv.Tx) error) {
	b.t.Helper()
	if err := kv.Do(context.Background(), b.db, f); err != nil {
		b.t.Fatal(err)
	}
	before := b.db.Hash()
	err := kv.Do(context.Background(), b.db, f)
	if err != nil && !errors.Is(err, jobs.ErrHalt) && !errors.Is(err, docs.ErrConflict) {
		b.t.Fatalf("repeated: %v", err)
	}
	if b.db.Hash() != before {
		b.t.Error("the repetition changed the store")
	}
	if b.unchecked++; 100*b.unchecked < b.rows {
		return
	}
	b.unchecked = 0
	b.do1(func(tx kv.Tx) error { return errors.Join(b.s.Jobs.Audit(tx), b.s.Audit(tx)) })
	for _, f := range b.findings() {
		b.t.Fatalf("a check finds %s: %s", f.Key, f.What)
	}
}

func (b *bench) do1(f func(kv.Tx) error) {
	b.t.Helper()
	if err := kv.Do(context.Background(), b.db, f); err != nil {
		b.t.Fatal(err)
	}
}

func get[T any](b *bench, f func(kv.Tx) (T, error)) T {
	b.t.Helper()
	v, err := kv.Run(context.Background(), b.db, f)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

var token uint64

// put writes a document of _replicator and returns why it was refused.
func (b *bench) put(id, body string, by Writer) *docs.Error {
	b.t.Helper()
	token++
	mine := token
	var refusal *docs.Error
	b.do(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		doc.ID = id
		if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil && (doc.Rev == revtree.Rev{}) {
			doc.Rev = old.Rev
		}
		written, err := b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: mine}}, by, b.now)
		if err == nil && written[0].Changed {
			refusal = nil
		}
		if err == nil && written[0].Err != nil && written[0].Err.Kind != docs.Conflict {
			refusal = written[0].Err
		}
		return err
	})
	return refusal
}

func (b *bench) doc(id string) string {
	b.t.Helper()
	return get(b, func(tx kv.Tx) (string, error) {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return "", err
		}
		doc, err := db.Read(id, docs.Want{})
		if err != nil {
			return "", err
		}
		return string(doc.Body), nil
	})
}

func jobID(doc string) string { return documentJobID(tuple.UUID{1}, doc) }

func (b *bench) record(jobID string) *Record {
	b.t.Helper()
	return get(b, func(tx kv.Tx) (*Record, error) { return b.s.Record(tx, jobID) })
}

func (b *bench) wantState(jobID string, want State) {
	b.t.Helper()
	rec := b.record(jobID)
	got := State("absent")
	if rec != nil {
		got = rec.State
	}
	if got != want {
		b.t.Fatalf("job %s is %s, want %s", jobID, got, want)
	}
}

// accept takes the only ready job.
func (b *bench) accept() Work {
	b.t.Helper()
	b.batch++
	var work []Work
	b.do(func(tx kv.Tx) (err error) {
		taken, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: b.batch, Max: 5}, b.now)
		work = taken.Work
		return err
	})
	if len(work) != 1 {
		b.t.Fatalf("accepted %d jobs", len(work))
	}
	return work[0]
}

func (b *bench) claim(w Work, repID string) error {
	var refused error
	b.do(func(tx kv.Tx) error {
		err := b.s.Owned(tx, w.JobID, w.Lock, b.now).Claim(repID, repID)
		var dup *Duplicate
		if errors.As(err, &dup) {
			refused = err
			return nil
		}
		return err
	})
	return refused
}

// ready is where the first ready jobs stand.
func (b *bench) ready(tx kv.Tx, n int) ([]schedule.Place, error) {
	list, _, err := b.s.Ready(tx, n, "")
	return list, err
}
