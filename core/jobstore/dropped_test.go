package jobstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestUnreadableDropped: a job of which a row cannot be read is named by the sweep of its deleted database, and a sweep
// that passes over it empties that database and others. Only the job and the note of its database stay.
func TestUnreadableDropped(t *testing.T) {
	for _, part := range [][]any{nil, {int64(0)}} {
		b := newBench(t)
		b.do(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "other/_replicator", tuple.UUID{2}, b.now) })
		b.put("a", simple, admin)
		b.put("b", `{"source":"http://h/1","target":"http://h/2"}`, admin)
		err := b.writeTo("other/_replicator", "c", `{"source":"http://h/3","target":"http://h/4"}`, admin)
		if err != nil {
			t.Fatal(err)
		}
		b.do1(func(tx kv.Tx) error {
			for name, instance := range map[string]tuple.UUID{"_replicator": {1}, "other/_replicator": {2}} {
				b.s.Drop(tx, instance)
				if err := b.s.Docs.Delete(tx, name, instance); err != nil {
					return err
				}
			}
			tx.Set(b.s.Keys.Jobs.Job.Pack(append([]any{jobID("a")}, part...)...), []byte{0xff})
			return nil
		})
		sweep := func(without ...string) (done bool, err error) {
			err = kv.Do(t.Context(), b.db, func(tx kv.Tx) (err error) {
				done, err = b.s.SweepDropped(tx, 1, without...)
				return err
			})
			return done, err
		}
		var unreadable *jobs.UnreadableError
		if _, err := sweep(); !errors.As(err, &unreadable) || unreadable.Job != jobID("a") {
			t.Fatalf("%v: %v", part, err)
		}
		for n := 0; ; n++ {
			done, err := sweep(jobID("a"))
			if done && err == nil {
				break
			}
			if err != nil || n > 9 {
				t.Fatalf("%v: after %d sweeps: %v", part, n, err)
			}
		}
		ids := get(b, func(tx kv.Tx) ([]string, error) { return b.s.Keys.Jobs.IDs(tx) })
		noted := get(b, func(tx kv.Tx) (Dropped, error) { return b.s.Keys.DroppedDBs(tx) })
		if len(ids) != 1 || ids[0] != jobID("a") || len(noted) != 1 || !noted.Has(jobID("a")) {
			t.Errorf("%v: left are the jobs %q of %q", part, ids, noted)
		}
	}
}

// TestUnreadableBehindDropped: a sweep that passes over jobs reads none behind those that it removes. A further
// one that cannot be read would cost it what it has done.
func TestUnreadableBehindDropped(t *testing.T) {
	b := newBench(t)
	b.put("a", simple, admin)
	b.put("b", `{"source":"http://h/1","target":"http://h/2"}`, admin)
	b.put("c", `{"source":"http://h/3","target":"http://h/4"}`, admin)
	for _, name := range []string{"a", "b", "c"} {
		b.pause(jobID(name)) // else they stand in the way of accepts, and go first
	}
	b.do1(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		for _, name := range []string{"a", "c"} {
			tx.Set(b.s.Keys.Jobs.Job.Pack(jobID(name)), []byte{0xff})
		}
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 1, jobID("a"), "of another database"); return err })
	ids := get(b, func(tx kv.Tx) ([]string, error) { return b.s.Keys.Jobs.IDs(tx) })
	if want := []string{jobID("a"), jobID("c")}; !slices.Equal(ids, want) {
		t.Errorf("left are the jobs %q, want %q", ids, want)
	}
}

// TestSweepWithinLimit: a sweep removes no more jobs than it is to, be they more than a page.
func TestSweepWithinLimit(t *testing.T) {
	b := newBench(t)
	for i := range 2 * dropPage {
		if err := b.writeTo("_replicator", fmt.Sprint("r", i), simple, admin); err != nil {
			t.Fatal(err)
		}
	}
	b.do1(func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{1}); return nil })
	before := get(b, b.jobsCounted)
	b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, dropPage+6); return err })
	if n := before - get(b, b.jobsCounted); n != dropPage+6 {
		t.Errorf("%d jobs are removed, and should be %d", n, dropPage+6)
	}
}

// TestManyDropped: a look-up of a job does not look at each deleted database, of which there may be as many as users,
// nor does the removal of each take a transaction, which reads all of them.
func TestManyDropped(t *testing.T) {
	const databases = 200_000
	d := make(Dropped, databases)
	for i := range d {
		d[i] = instancePrefix(tuple.UUID{byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for i := range databases {
		instance := tuple.UUID{byte(i >> 16), byte(i >> 8), byte(i)}
		if !d.Has(documentJobID(instance, "a")) || !d.Has(DocumentJobs(instance)) {
			t.Fatalf("%x does not count as deleted", instance)
		}
		if instance[15] = 1; d.Has(documentJobID(instance, "a")) || d.Has(DocumentJobs(instance)) || d.Has("") {
			t.Fatalf("%x counts as deleted", instance)
		}
	}
	b := newBench(t)
	b.do1(func(tx kv.Tx) error {
		for i := range 3 * dropPage {
			b.s.Drop(tx, tuple.UUID{2, byte(i)})
		}
		return nil
	})
	for n, done := 1, false; !done; n++ {
		b.do1(func(tx kv.Tx) (err error) { done, err = b.s.SweepDropped(tx, DropLimit); return err })
		if n > 4 {
			t.Fatalf("after %d sweeps there are databases left", n)
		}
	}
	if left := get(b, func(tx kv.Tx) (Dropped, error) { return b.s.Keys.DroppedDBs(tx) }); len(left) > 0 {
		t.Errorf("sweeps leave %d deleted databases", len(left))
	}
}

// TestPlaceOfSweep: a sweep that has emptied a database, and leaves the next one half done, notes that at the latter.
func TestPlaceOfSweep(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a", "b", "c"} {
		b.put(name, fmt.Sprintf(`{"source":"http://h/%s","target":"http://h/t"}`, name), admin)
		b.pause(jobID(name)) // else they stand in the way of accepts, and go first
	}
	b.do1(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{}) // has no jobs, and counts as one
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	for _, want := range [][]string{{jobID("c")}, nil} {
		done := get(b, func(tx kv.Tx) (bool, error) { return b.s.SweepDropped(tx, 3) })
		ids := get(b, func(tx kv.Tx) ([]string, error) { return b.s.Keys.Jobs.IDs(tx) })
		noted := get(b, func(tx kv.Tx) (Dropped, error) { return b.s.Keys.DroppedDBs(tx) })
		if !slices.Equal(ids, want) || done != (want == nil) || len(noted) != len(want) {
			t.Errorf("left are the jobs %q of %q, done: %v", ids, noted, done)
		}
	}
}

// TestLostLabelOfDropped: a repair of a lost row by which lists find a job of a deleted database leaves nothing to
// repair.
func TestLostLabelOfDropped(t *testing.T) {
	b := newBench(t)
	b.do1(func(tx kv.Tx) error {
		_, _, err := Init(tx, testRoot, "uuid")
		return err
	})
	b.put("a", simple, admin)
	b.do1(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	rows := get(b, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(b.s.Keys.Index.Range(), kv.RangeOptions{})
	})
	if sound := b.check(true, b.db.Present()); len(sound) > 0 || len(rows) == 0 {
		t.Fatalf("%d rows, and before any is lost a check finds %v", len(rows), sound)
	}
	for _, row := range rows {
		b.do1(func(tx kv.Tx) error { tx.Clear(row.Key); return nil })
		for _, f := range b.check(true, b.db.Present()) {
			b.mend(&f)
		}
		if left := b.check(true, b.db.Present()); len(left) > 0 {
			t.Errorf("%s was lost, and after the repair a check finds %v", check.Readable(testRoot, row.Key), left)
		}
	}
}

// TestStrayRowOfDropped: a row of the queue without its job, as a damaged store may have, is no obstacle to a sweep.
func TestStrayRowOfDropped(t *testing.T) {
	b := newBench(t)
	b.put("a", simple, admin)
	b.do1(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		tx.Set(b.s.Keys.Jobs.Ready.Pack([]byte("p"), int64(0)), []byte(jobID("stray")))
		tx.Set(b.s.Keys.Jobs.Owned.Pack("w", uint64(1), jobID("stray")), nil)
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, DropLimit); return err })
	if ids := get(b, func(tx kv.Tx) ([]string, error) { return b.s.Keys.Jobs.IDs(tx) }); len(ids) > 0 {
		t.Errorf("left are the jobs %q", ids)
	}
}
