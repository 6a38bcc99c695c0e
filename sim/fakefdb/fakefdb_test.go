package fakefdb

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/kv/watchers"

	"pgregory.net/rapid"
)

var bg = context.Background()

func do(t testing.TB, db kv.Database, fn func(tx kv.Tx)) {
	t.Helper()
	if err := kv.Do(bg, db, func(tx kv.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestHash: it depends on the contents alone, and on all of them.
func TestHash(t *testing.T) {
	hashes := map[uint64]string{}
	rapid.Check(t, func(rt *rapid.T) {
		db := New()
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
			do(t, db, func(tx kv.Tx) {
				switch rapid.IntRange(0, 3).Draw(rt, "op") {
				case 0:
					tx.Clear([]byte(key))
				case 1:
					tx.ClearRange(kv.Range{Begin: []byte(key), End: []byte("c")})
				case 2:
					tx.Add([]byte(key), 1)
				default:
					tx.Set([]byte(key), []byte(rapid.SampledFrom([]string{"", "x"}).Draw(rt, "value")))
				}
			})
		}
		fresh := New()
		do(t, fresh, func(tx kv.Tx) {
			for _, p := range db.Pairs() {
				tx.Set(p.Key, p.Value)
			}
		})
		if db.Hash() != fresh.Hash() || db.Dump() != fresh.Dump() {
			rt.Fatalf("hash %x of\n%s, fresh %x of\n%s", db.Hash(), db.Dump(), fresh.Hash(), fresh.Dump())
		}
		if other, ok := hashes[db.Hash()]; ok && other != db.Dump() {
			rt.Fatalf("one hash for\n%s and\n%s", other, db.Dump())
		}
		hashes[db.Hash()] = db.Dump()
	})
}

// TestPrune: what nobody can read any more takes no memory.
func TestPrune(t *testing.T) {
	now := instant.Seconds(1)
	db := New(WithClock(func() instant.Time { now = now.Add(time.Millisecond); return now }))
	for i := range 20_000 {
		do(t, db, func(tx kv.Tx) {
			tx.Add([]byte("counter"), 1)
			tx.Set(fmt.Appendf(nil, "queue/%06d", i), []byte("job"))
			tx.Clear(fmt.Appendf(nil, "queue/%06d", i-1))
		})
	}
	values := 0
	for c := db.data.keys.First(); c.Valid(); c.Next() {
		values += len((*c.Value()).values)
	}
	if values > 20_000 || db.data.keys.Len() > 6_000 || len(db.data.old) > 30_000 {
		t.Errorf("%d keys with %d values and %d notes left", db.data.keys.Len(), values, len(db.data.old))
	}
	if got := len(db.Pairs()); got != 2 {
		t.Errorf("%d pairs, want 2", got)
	}
}

// TestIntact has a reader change what it got.
func TestIntact(t *testing.T) {
	db := New()
	do(t, db, func(tx kv.Tx) { tx.Set([]byte("a"), []byte("1")) })
	if err := db.Intact(); err != nil {
		t.Error(err)
	}
	do(t, db, func(tx kv.Tx) {
		v, _ := tx.Get([]byte("a"))
		v[0]++
	})
	if db.Intact() == nil {
		t.Error("nothing noticed")
	}
}

func TestDump(t *testing.T) {
	db := New()
	do(t, db, func(tx kv.Tx) {
		tx.Set(tuple.Pack("jobs", 7, nil, []byte{1}), []byte("x\n"))
		tx.Set([]byte("raw"), nil)
	})
	if want := "(\"jobs\", 7, nil, b\"\\x01\") = \"x\\n\"\n\"raw\" = \"\"\n"; db.Dump() != want {
		t.Errorf("got %s, want %s", db.Dump(), want)
	}
}

func TestStats(t *testing.T) {
	db := New()
	do(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte("value")) })
	one, two := db.Begin(bg, kv.Options{}), db.Begin(bg, kv.Options{})
	for _, tx := range []kv.Transaction{one, two} {
		if _, err := tx.Get([]byte("k")); err != nil {
			t.Fatal(err)
		}
		tx.Clear([]byte("k"))
	}
	if err := one.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := two.Commit(); kv.CodeOf(err) != kv.NotCommitted {
		t.Fatal(err)
	}
	if err := db.Begin(bg, kv.Options{}).Commit(); err != nil {
		t.Fatal(err)
	}
	want := Stats{Transactions: 4, Attempts: 2, Commits: 2, ReadOnly: 1, Conflicts: 1, Reads: 2, KeysWritten: 2,
		BytesWritten: 7, BytesRead: 10}
	if got := db.Stats(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOnCommit(t *testing.T) {
	var landings []Landing
	db := New(OnCommit(func(l Landing) { landings = append(landings, l) }))
	do(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), nil) })
	do(t, db, func(tx kv.Tx) { _, _ = tx.Get([]byte("k")) })
	if len(landings) != 1 || landings[0].Tx != 1 || string(landings[0].Mutations[0].Key) != "k" {
		t.Errorf("got %+v", landings)
	}
}

func TestTooManyWatches(t *testing.T) {
	db := New()
	for i := range watchers.Max + 1 {
		tx := db.Begin(bg, kv.Options{})
		w := tx.Watch([]byte("k"))
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if i == watchers.Max {
			if err := w.Wait(bg); kv.CodeOf(err) != kv.TooManyWatches {
				t.Errorf("got %v", err)
			}
		}
	}
	if do(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), nil) }); db.watches.Len() != 0 ||
		db.Stats().WatchesFired != watchers.Max {
		t.Errorf("%d watches left, %d fired", db.watches.Len(), db.Stats().WatchesFired)
	}
}

// TestWatchEndsWithItsWait: whoever has waited long enough leaves nothing behind.
func TestWatchEndsWithItsWait(t *testing.T) {
	db := New()
	ctx, cancel := context.WithCancel(bg)
	cancel()
	for range 3 {
		w, err := kv.Run(bg, db, func(tx kv.Tx) (kv.Watch, error) { return tx.Watch([]byte("k")), nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if n := db.watches.Len(); n != 0 {
		t.Errorf("%d watches left", n)
	}
}

// BenchmarkTransaction is the inner loop of a simulation: five reads, a scan of a queue's head and
// five writes.
func BenchmarkTransaction(b *testing.B) {
	db := New()
	keys := make([][]byte, 1000)
	value := make([]byte, 200)
	do(b, db, func(tx kv.Tx) {
		for i := range keys {
			keys[i] = tuple.Pack("couchrelay", "jobs", i)
			tx.Set(keys[i], value)
		}
	})
	all := kv.Range{Begin: tuple.Pack("couchrelay"), End: []byte{0xff}}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		tx := db.Begin(bg, kv.Options{})
		_, _ = tx.Snapshot().GetRange(all, kv.RangeOptions{Limit: 16})
		for k := range 5 {
			key := keys[(i*7+k*131)%1000]
			if _, err := tx.Get(key); err != nil {
				b.Fatal(err)
			}
			tx.Set(key, value)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
		tx.Cancel()
	}
}

// TestTrips: a commit tells of the round trips of a client that asks for nothing twice.
func TestTrips(t *testing.T) {
	a, b, c := []byte("a"), []byte("b"), []byte("c")
	ac := kv.Range{Begin: a, End: c}
	for name, of := range map[string]struct {
		read func(kv.Tx)
		most int
	}{
		"nothing":             {func(kv.Tx) {}, 0},
		"one after the other": {func(tx kv.Tx) { tx.Get(a); tx.Get(b) }, 2},
		"at once":             {func(tx kv.Tx) { tx.GetAll([][]byte{a, b}) }, 1},
		"twice":               {func(tx kv.Tx) { tx.Get(a); tx.Snapshot().Get(a) }, 1},
		"of a range":          {func(tx kv.Tx) { tx.GetRange(ac, kv.RangeOptions{}); tx.Get(b) }, 1},
		"beside a range":      {func(tx kv.Tx) { tx.GetRange(ac, kv.RangeOptions{}); tx.Get(c) }, 2},
		"prefetched":          {func(tx kv.Tx) { tx.Prefetch([][]byte{a, c}, nil); tx.Get(a); tx.Get(c) }, 1},
		"prefetched apart": {func(tx kv.Tx) {
			tx.Snapshot().Prefetch(nil, []kv.Range{ac})
			tx.Prefetch([][]byte{b, c}, nil)
			tx.Get(a)
		}, 2},
	} {
		trips := -1
		db := New(OnCommit(func(l Landing) { trips = l.Trips }))
		attempts := 0
		kv.Do(t.Context(), db, func(tx kv.Tx) error {
			of.read(tx)
			tx.Set([]byte("written"), nil)
			if attempts++; attempts == 1 {
				return kv.NewError(kv.NotCommitted)
			}
			return nil
		})
		if trips != of.most {
			t.Errorf("%s: %d round trips, not %d", name, trips, of.most)
		}
	}
}
