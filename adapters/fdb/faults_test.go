//go:build fdb && fdbctest

package fdb_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/fdb"
	"couchrelay/adapters/fdb/fdbctest"
	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/core/kv"
	"couchrelay/sim/conformance"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// openCluster opens a cluster of its own and waits for the monitor's first probe: its operations would meet a
// test's faults, and what it learns of versions would make a stale transaction less stale.
func openCluster(t *testing.T, o fdb.Options) (*fdbctest.Cluster, *fdb.Database) {
	t.Helper()
	c, path := fdbtest.NewCluster(t)
	probed := make(chan struct{})
	last := sync.OnceFunc(func() { close(probed) })
	c.Decide(func(op fakefdb.Op) fakefdb.Outcome {
		if op.Kind == fakefdb.Read {
			last()
		}
		return fakefdb.Outcome{}
	})
	db, err := fdb.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	<-probed
	c.Decide(nil)
	return c, db
}

// once makes the first operation of a kind have a fault.
func once(kind fakefdb.Kind, out fakefdb.Outcome) func(fakefdb.Op) fakefdb.Outcome {
	done := false
	return func(op fakefdb.Op) fakefdb.Outcome {
		if done || op.Kind != kind {
			return fakefdb.Outcome{}
		}
		done = true
		return out
	}
}

func get(t *testing.T, db kv.Database, key string) []byte {
	t.Helper()
	v, err := kv.Run(bg, db, func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte(key)) })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestUnknownResultIsSeen: Commit returns an unknown result as such, whether the commit happened or not.
// kv.Run repeats its function, so one that is not idempotent counts twice.
func TestUnknownResultIsSeen(t *testing.T) {
	for fault, want := range map[fakefdb.Fault]uint64{fakefdb.UnknownLanded: 2, fakefdb.UnknownDropped: 1} {
		c, db := openCluster(t, fdb.Options{})
		c.Decide(once(fakefdb.Commit, fakefdb.Outcome{Fault: fault}))
		attempts := 0
		err := kv.Do(bg, db, func(tx kv.Tx) error {
			attempts++
			tx.Add([]byte("n"), 1)
			return nil
		})
		if n := binary.LittleEndian.Uint64(get(t, db, "n")); err != nil || attempts != 2 || n != want {
			t.Errorf("%s: %v, %d attempts, counted %d, want %d", fault, err, attempts, n, want)
		}
		c.Decide(once(fakefdb.Commit, fakefdb.Outcome{Fault: fault}))
		tx := db.Begin(bg, kv.Options{})
		tx.Set([]byte("k"), nil)
		if err := tx.Commit(); kv.CodeOf(err) != kv.CommitUnknownResult || !kv.MaybeCommitted(err) {
			t.Errorf("%s: commit gives %v", fault, err)
		}
		tx.Cancel()
	}
}

// TestLateCommits: a commit that ended with 1031 or 1039 is not repeated, and may still land.
func TestLateCommits(t *testing.T) {
	for fault, code := range map[fakefdb.Fault]kv.Code{fakefdb.TimedOutLate: kv.TransactionTimedOut,
		fakefdb.ClusterLate: kv.ClusterVersionChanged} {
		c, db := openCluster(t, fdb.Options{})
		watch, err := kv.Run(bg, db,
			func(tx kv.Tx) (kv.Watch, error) { return tx.Watch([]byte("late")), nil })
		if err != nil {
			t.Fatal(err)
		}
		c.Decide(once(fakefdb.Commit, fakefdb.Outcome{Fault: fault, Late: time.Millisecond}))
		err = kv.Do(bg, db, func(tx kv.Tx) error { tx.Set([]byte("late"), nil); return nil })
		var e *kv.Error
		if kv.CodeOf(err) != code || !kv.MaybeCommitted(err) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", fault, err)
		}
		if err := watch.Wait(bg); err != nil || get(t, db, "late") == nil {
			t.Errorf("%s: it did not land, %v", fault, err)
		}
	}
}

// TestOptionsOutlastAnAttempt: the client forgets a transaction's options whenever it starts again.
func TestOptionsOutlastAnAttempt(t *testing.T) {
	c, db := openCluster(t, fdb.Options{})
	var seen []kv.Options
	c.Decide(func(op fakefdb.Op) fakefdb.Outcome {
		if op.Options.Tag == "" || op.Kind != fakefdb.Commit {
			return fakefdb.Outcome{}
		}
		if seen = append(seen, op.Options); len(seen) < 3 {
			return fakefdb.Outcome{Fault: fakefdb.Conflict}
		}
		return fakefdb.Outcome{}
	})
	o := kv.Options{Priority: kv.PriorityBatch, Tag: "sweep", SizeLimit: 1000}
	set := func(n int) error {
		_, err := kv.RunWith(bg, db, o,
			func(tx kv.Tx) (any, error) { tx.Set([]byte("k"), make([]byte, n)); return nil, nil })
		return err
	}
	if err := set(10); err != nil || !slices.Equal(seen, []kv.Options{o, o, o}) {
		t.Errorf("%v, options %+v", err, seen)
	}
	if err := set(2000); kv.CodeOf(err) != kv.TransactionTooLarge {
		t.Error(err)
	}
	o.Tag = strings.Repeat("x", 17)
	if err := set(1); kv.CodeOf(err) != 2110 {
		t.Errorf("a tag of 17 bytes: %v", err)
	}
}

// TestEveryCodeComesThrough: every code of the client keeps its number, and is retryable or not as the
// contract says.
func TestEveryCodeComesThrough(t *testing.T) {
	for _, c := range []struct {
		kind  fakefdb.Kind
		fault fakefdb.Fault
		again bool
	}{
		{fakefdb.ReadVersion, fakefdb.TagThrottled, true},
		{fakefdb.ReadVersion, fakefdb.BatchThrottled, true},
		{fakefdb.Read, fakefdb.TooOldEarly, true}, {fakefdb.Read, fakefdb.FutureVersion, true},
		{fakefdb.Read, fakefdb.ProcessBehind, true},
		{fakefdb.Read, fakefdb.DatabaseLocked, true}, {fakefdb.Read, fakefdb.ReadTimedOut, false},
		{fakefdb.Commit, fakefdb.Conflict, true}, {fakefdb.Commit, fakefdb.ProxyMemory, true},
		{fakefdb.Commit, fakefdb.CommitTooOld, true},
		{fakefdb.Commit, fakefdb.TimedOutNever, false}, {fakefdb.Commit, fakefdb.ClusterNever, false},
	} {
		cluster, db := openCluster(t, fdb.Options{Probe: time.Hour})
		cluster.Decide(once(c.kind, fakefdb.Outcome{Fault: c.fault}))
		attempts := 0
		_, err := kv.Run(bg, db, func(tx kv.Tx) (any, error) {
			attempts++
			_, err := tx.Get([]byte("a"))
			tx.Set([]byte("b"), nil)
			return nil, err
		})
		if c.again && (err != nil || attempts != 2) || !c.again && (kv.CodeOf(err) == 0 || attempts != 1) {
			t.Errorf("%s: %v after %d attempts", c.fault, err, attempts)
		}
	}
}

// TestLostWatch: when the client loses a watch, Wait returns.
func TestLostWatch(t *testing.T) {
	c, db := openCluster(t, fdb.Options{})
	c.Decide(once(fakefdb.StartWatch, fakefdb.Outcome{Fault: fakefdb.WatchFailed}))
	w, err := kv.Run(bg, db, func(tx kv.Tx) (kv.Watch, error) { return tx.Watch([]byte("k")), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(bg); kv.CodeOf(err) != kv.OperationCancelled {
		t.Error(err)
	}
}

// TestConformanceUnderFaults runs the suite over a client that injects faults of its own.
func TestConformanceUnderFaults(t *testing.T) {
	t.Setenv(fdbctest.Buggify, "")
	conformance.Run(t, func(t testing.TB) conformance.Store {
		db, prefix, _ := fdbtest.Open(t)
		return conformance.Store{DB: db, Prefix: prefix}
	})
}

// TestLongRanges reads ranges that come in many batches. Keys beyond the limit do not count as read.
func TestLongRanges(t *testing.T) {
	c, db := openCluster(t, fdb.Options{Probe: time.Hour})
	key := func(i int) []byte { return binary.BigEndian.AppendUint16([]byte("k"), uint16(i)) }
	const count = 500
	err := kv.Do(bg, db, func(tx kv.Tx) error {
		for i := range count {
			tx.Set(key(i), make([]byte, 1000))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := kv.PrefixRange([]byte("k"))
	for _, o := range []kv.RangeOptions{{}, {Reverse: true}, {Limit: 300},
		{Limit: 300, Reverse: true}, {Limit: count}, {Limit: count + 1}} {
		for _, snapshot := range []bool{false, true} {
			tx := db.Begin(bg, kv.Options{})
			var r kv.Reader = tx
			if snapshot {
				r = tx.Snapshot()
			}
			reads := c.DB.Stats().Reads
			pairs, err := r.GetRange(all, o)
			if reads = c.DB.Stats().Reads - reads; o.Limit > 0 && reads != 1 {
				t.Errorf("%+v: %d reads", o, reads)
			}
			want := count
			if o.Limit > 0 {
				want = min(o.Limit, count)
			}
			if err != nil || len(pairs) != want {
				t.Fatalf("%+v: %d pairs, %v", o, len(pairs), err)
			}
			for i, p := range pairs {
				n := i
				if o.Reverse {
					n = count - 1 - i
				}
				if string(p.Key) != string(key(n)) {
					t.Fatalf("%+v: pair %d is %x", o, i, p.Key)
				}
			}
			last := 400 // read unless the limit ended before
			if o.Reverse {
				last = 100
			}
			if err := kv.Do(bg, db, func(tx kv.Tx) error {
				tx.Set(key(last),
					make([]byte, 1000))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			tx.Set([]byte("other"), nil)
			if conflict := kv.CodeOf(tx.Commit()) == kv.NotCommitted; conflict != (!snapshot &&
				o.Limit != 300) {
				t.Errorf("%+v, snapshot %v: conflict %v", o, snapshot, conflict)
			}
			tx.Cancel()
		}
	}
}

// TestStaleReads: a stale transaction takes a known read version, and sees all that this process has done.
func TestStaleReads(t *testing.T) {
	c, db := openCluster(t, fdb.Options{Probe: time.Hour})
	stale := func() string {
		v, err := kv.RunWith(bg, db, kv.Options{Stale: true},
			func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte("k")) })
		if err != nil {
			t.Fatal(err)
		}
		return string(v)
	}
	for _, want := range []string{"one", "two", "three"} {
		if err := kv.Do(bg, db, func(tx kv.Tx) error {
			tx.Set([]byte("k"),
				[]byte(want))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := stale(); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	if n := c.ReadVersionsGiven(); n == 0 {
		t.Error("every transaction asked for a read version")
	}
	before := c.ReadVersionsGiven()
	if get(t, db, "k"); c.ReadVersionsGiven() != before {
		t.Error("a transaction that must not be stale is")
	}
}

// TestStaleWrites: a stale transaction that conflicts sees in its next attempt what it conflicted with.
func TestStaleWrites(t *testing.T) {
	c, db := openCluster(t, fdb.Options{Probe: time.Hour, Clock: clock.NewMock()})
	if _, err := kv.Run(bg, db, kv.Tx.ReadVersion); err != nil {
		t.Fatal(err)
	}
	other := func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("new")); return nil }
	if err := kv.Do(bg, c.DB, other); err != nil {
		t.Fatal(err)
	}
	var seen []string
	_, err := kv.RunWith(bg, db, kv.Options{Stale: true}, func(tx kv.Tx) (struct{}, error) {
		v, err := tx.Get([]byte("k"))
		seen = append(seen, string(v))
		tx.Set([]byte("k"), []byte("newer"))
		return struct{}{}, err
	})
	if err != nil || !slices.Equal(seen, []string{"", "new"}) {
		t.Errorf("attempts saw %q, %v", seen, err)
	}
}

// TestStaleReadsGrowNoOlder: stale transactions in a row do not keep a read version beyond its age.
func TestStaleReadsGrowNoOlder(t *testing.T) {
	mock := clock.NewMock()
	mock.Set(time.Unix(1_700_000_000, 0))
	c, db := openCluster(t, fdb.Options{Probe: time.Hour, Clock: mock})
	written, seen := map[string]int{"": 0}, 0
	for i := 1; i < 10; i++ {
		value := strings.Repeat("x", i)
		written[value] = i
		if err := kv.Do(bg, c.DB,
			func(tx kv.Tx) error { tx.Set([]byte("k"), []byte(value)); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func(tx kv.Tx) ([]byte, error){
			func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte("k")) },
			func(tx kv.Tx) ([]byte, error) {
				pairs, err := tx.GetRange(kv.PrefixRange([]byte("k")), kv.RangeOptions{})
				if err != nil || len(pairs) == 0 {
					return nil, err
				}
				return pairs[0].Value, nil
			},
		} {
			v, err := kv.RunWith(bg, db, kv.Options{Stale: true}, read)
			if seen = written[string(v)]; err != nil || i-seen > 2 {
				t.Errorf("write %d is read when write %d is there, 400 ms after each other (%v)",
					seen, i, err)
			}
		}
		mock.Add(400 * time.Millisecond)
	}
}

// TestManyAtOnce uses handles from many goroutines while their finalizers run.
func TestManyAtOnce(t *testing.T) {
	_, db := openCluster(t, fdb.Options{})
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 100 {
				err := kv.Do(bg, db, func(tx kv.Tx) error {
					if _, err := tx.GetAll([][]byte{[]byte("a"), []byte("b")}); err != nil {
						return err
					}
					tx.Add([]byte("n"), 1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if n := binary.LittleEndian.Uint64(get(t, db, "n")); n != 800 {
		t.Errorf("counted %d", n)
	}
}
