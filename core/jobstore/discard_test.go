package jobstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// mendAll repairs what can be, and returns what is left.
func (b *bench) mendAll() (left []check.Finding) {
	b.t.Helper()
	for range 10 {
		mended := false
		left = b.findings()
		for _, f := range left {
			mended = b.mend(&f) || mended
		}
		if !mended {
			return left
		}
	}
	b.t.Fatalf("repairs bring ever more to light: %v", left)
	return nil
}

// TestDiscard: a job of which one row cannot be read, or the first is gone, is removed, whatever the job does, and a
// repair puts in order what is left. Its document is deleted as any other then, or written again.
func TestDiscard(t *testing.T) {
	first := newFullBench(t)
	pairs := first.db.Pairs()
	for _, name := range []string{"done", "bad", "crash", "run", "wait", "paused", "held", "ready"} {
		id := jobID(name)
		for _, part := range []string{"header", "record", "replication", "gone"} {
			b := first
			key := map[string][]byte{
				"header": b.s.Keys.Jobs.Job.Pack(id), "record": b.s.Keys.Jobs.Job.Pack(id, 0),
				"replication": b.s.Keys.Spec.Pack(id, 0), "gone": b.s.Keys.Jobs.Job.Pack(id),
			}[part]
			b.do1(func(tx kv.Tx) error {
				if tx.Set(key, []byte(fakefdb.Unreadable)); part == "gone" {
					tx.Clear(key)
				}
				return nil
			})
			b.do1(func(tx kv.Tx) error { return Discard(tx, b.s, id) })
			left := b.mendAll()
			for _, f := range left {
				if f.What != fmt.Sprintf("document %q of _replicator has no job: write it again", name) {
					t.Errorf("%s, %s: %s: %s", name, part, f.Key, f.What)
				}
			}
			b.put(name, `{"_deleted":true}`, admin)
			if left = b.findings(); len(left) > 0 {
				t.Errorf("%s, %s: after the document was deleted: %v", name, part, left)
			}
			b.restore(pairs)
		}
	}
}

// TestDiscardOfReadable: nothing else is removed.
func TestDiscardOfReadable(t *testing.T) {
	b := newFullBench(t)
	before := b.db.Hash()
	for id, want := range map[string]error{jobID("run"): ErrReadable, "none": ErrNoJob} {
		_, err := kv.Run(t.Context(), b.db, func(tx kv.Tx) (any, error) { return nil, Discard(tx, b.s, id) })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, not %v", id, err, want)
		}
	}
	if b.db.Hash() != before {
		t.Error("rows have changed")
	}
}

// TestDiscardBeforeUnreadable: of the jobs that wait for the replication of the one that is removed the first cannot be
// read either. The next one has the replication then, and the other can be removed, too.
func TestDiscardBeforeUnreadable(t *testing.T) {
	b := newBench(t)
	b.s.Config.DuplicatesWait = true
	for _, id := range []string{"a", "b", "c"} {
		b.put(id, simple, admin)
	}
	for _, id := range []string{"a", "b"} {
		b.do1(func(tx kv.Tx) error {
			tx.Set(b.s.Keys.Jobs.Job.Pack(jobID(id), 0), []byte(fakefdb.Unreadable))
			return nil
		})
	}
	b.do1(func(tx kv.Tx) error { return Discard(tx, b.s, jobID("a")) })
	b.do1(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5, jobID("b")); return err })
	b.do1(func(tx kv.Tx) error {
		got, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 1, Max: 5}, b.now)
		if len(got.Work) != 1 || got.Work[0].JobID != jobID("c") || !got.Work[0].Claimed {
			t.Errorf("accepted are %v", got.Work)
		}
		return err
	})
	b.do1(func(tx kv.Tx) error { return Discard(tx, b.s, jobID("b")) })
	for _, f := range b.mendAll() {
		if !strings.Contains(f.What, "has no job: write it again") {
			t.Errorf("%s: %s", f.Key, f.What)
		}
	}
}

// TestRoundTripsOfDiscard: of many jobs that wait for others no claims are read one by one.
func TestRoundTripsOfDiscard(t *testing.T) {
	trips := func(n int) int {
		b := newBench(t)
		b.s.Config.DuplicatesWait = true
		for i := range n {
			body := fmt.Sprintf(`{"source":"http://h/%d","target":"http://t/b"}`, i)
			b.put(fmt.Sprint("first", i), body, admin)
			b.put(fmt.Sprint("second", i), body, admin)
		}
		r := &travelling{}
		b.do1(func(tx kv.Tx) error {
			r.Reader = tx
			tx.Set(b.s.Keys.Jobs.Job.Pack(jobID("first0"), 0), []byte(fakefdb.Unreadable))
			return Discard(travellingTx{tx, r}, b.s, jobID("first0"))
		})
		if rec := b.record(jobID("second0")); rec.WaitsFor != "" {
			t.Errorf("the next job still waits for %s", rec.WaitsFor)
		}
		return r.trips
	}
	if few, many := trips(2), trips(20); many > few {
		t.Errorf("%d round trips with 20 jobs that wait, %d with 2", many, few)
	}
}
