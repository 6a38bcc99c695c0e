package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"couchrelay/core/kv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestScansAcrossGaps compares scans of all kinds with a map, over keys with long deleted stretches between
// them. Older transactions scan too.
func TestScansAcrossGaps(t *testing.T) {
	jumps := 0
	rapid.Check(t, func(rt *rapid.T) {
		db := mustOpen(t, "store", Options{FS: vfs.NewMem(), Clock: stopped()})
		defer mustClose(t, db)
		model := map[string]bool{}
		type older struct {
			tx   kv.Transaction
			keys map[string]bool
		}
		var olders []older
		number := rapid.IntRange(0, 400)
		key := func(i int) string { return fmt.Sprintf("k%03d", i) }
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			from, to := number.Draw(rt, "from"), number.Draw(rt, "to")
			switch rapid.IntRange(0, 5).Draw(rt, "op") {
			case 0, 1: // a stretch comes or goes
				insert := rapid.Bool().Draw(rt, "insert")
				do(t, db, func(tx kv.Tx) {
					for i := min(from, to); i < max(from, to); i++ {
						if insert {
							tx.Set([]byte(key(i)), nil)
							model[key(i)] = true
						} else {
							tx.Clear([]byte(key(i)))
							delete(model, key(i))
						}
					}
				})
			case 2: // a key within
				do(t, db, func(tx kv.Tx) { tx.Set([]byte(key(from)), nil) })
				model[key(from)] = true
			case 3:
				tx := db.Begin(bg, kv.Options{})
				if _, err := tx.ReadVersion(); err != nil {
					t.Fatal(err)
				}
				olders = append(olders, older{tx, maps.Clone(model)})
			default:
				tx, keys := db.Begin(bg, kv.Options{}), model
				if n := len(olders); n > 0 && rapid.Bool().Draw(rt, "older") {
					tx.Cancel()
					tx, keys = olders[n-1].tx, olders[n-1].keys
				}
				o := kv.RangeOptions{Reverse: rapid.Bool().Draw(rt, "reverse"),
					Limit: rapid.IntRange(0, 3).Draw(rt, "limit")}
				for range 2 { // the second scan knows the gaps that the first has found
					checkScan(rt, tx, keys, key(min(from, to)), key(max(from, to)), o)
				}
			}
		}
		jumps += db.gaps.begins.Len()
		for _, o := range olders {
			checkScan(rt, o.tx, o.keys, "k", "l", kv.RangeOptions{})
			o.tx.Cancel()
		}
		checkScan(rt, db.Begin(bg, kv.Options{}), model, "k", "l", kv.RangeOptions{Reverse: true})
	})
	if jumps == 0 {
		t.Error("no gap was ever noted")
	}
}

func checkScan(t *rapid.T, tx kv.Transaction, keys map[string]bool, from, to string, o kv.RangeOptions) {
	pairs, err := tx.GetRange(kv.Range{Begin: []byte(from), End: []byte(to)}, o)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, p := range pairs {
		got = append(got, string(p.Key))
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if from <= k && k < to {
			want = append(want, k)
		}
	}
	if o.Reverse {
		slices.Reverse(want)
	}
	if o.Limit > 0 && len(want) > o.Limit {
		want = want[:o.Limit]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s to %s, %+v: got %v, want %v", from, to, o, got, want)
	}
}

// TestGapsAreFound: after a queue was emptied from its head, scans of the head pass over few tombstones,
// wherever live stragglers are left, forwards and backwards.
func TestGapsAreFound(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	const n = 5000
	key := func(i int) []byte { return fmt.Appendf(nil, "q%06d", i) }
	do(t, db, func(tx kv.Tx) {
		for i := range n {
			tx.Set(key(i), nil)
		}
	})
	do(t, db, func(tx kv.Tx) {
		for i := range n {
			if i%1000 != 500 && i < n-1 {
				tx.Clear(key(i))
			}
		}
	})
	for _, reverse := range []bool{false, true} {
		db.gaps = gaps{}
		for round, atMost := range []int{3 * n, 20} {
			v := db.current()
			steps, live := countSteps(t, db, v, kv.Range{Begin: []byte("q"), End: []byte("r")}, reverse)
			db.release(v)
			if live != 6 || steps > atMost {
				t.Errorf("reverse %v, round %d: %d live keys in %d steps, want 6 in at most %d",
					reverse, round, live, steps, atMost)
			}
		}
	}
}

// countSteps scans as scan does, and returns the steps of Pebble's inner iterator.
func countSteps(t *testing.T, db *Database, v *view, r kv.Range, reverse bool) (steps, live int) {
	it, err := v.snapshot.NewIter(&pebble.IterOptions{LowerBound: r.Begin, UpperBound: r.End})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	w := &walk{it: it, in: r, gaps: db.gaps.in(r, v.version)}
	yield := func(_, _ []byte) bool { live++; return true }
	if reverse {
		w.backward(yield)
	} else {
		w.forward(yield)
	}
	db.noteGaps(w.found, v.version)
	return w.steps, live
}

func TestGapSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gaps
		version, written := int64(1), int64(1)
		since := map[int]int64{} // key to the version from which it is known to be empty
		key := func(i int) []byte { return []byte{byte('a' + i)} }
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			i, j := rapid.IntRange(0, 9).Draw(t, "i"), rapid.IntRange(0, 9).Draw(t, "j")
			version++
			if rapid.Bool().Draw(t, "split") {
				g.split(key(i))
				delete(since, i)
				written = version
			} else if i != j {
				view := rapid.Int64Range(written, version).Draw(t, "view") // of the scan: it may be an old one
				g.add(kv.Range{Begin: key(min(i, j)), End: key(max(i, j))}, view)
				for k := min(i, j); k < max(i, j); k++ {
					since[k] = min(cmp.Or(since[k], view), view)
				}
			}
			at := rapid.Int64Range(1, version).Draw(t, "at")
			known := map[int]bool{}
			for _, r := range g.in(kv.Range{Begin: key(0), End: key(10)}, at) {
				for k := range 10 {
					known[k] = known[k] || r.Contains(key(k))
				}
			}
			for k := range 10 {
				empty := since[k] > 0 && since[k] <= at
				if known[k] && !empty {
					t.Fatalf("%q counts as empty at %d", key(k), at)
				}
				if at == version && empty && !known[k] {
					t.Fatalf("%q is forgotten", key(k))
				}
			}
		}
	})
}
