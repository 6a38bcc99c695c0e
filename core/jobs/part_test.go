package jobs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// TestBuckets: each job is in one bucket, and about as many are in each, whether ids differ in the beginning
// or in the end.
func TestBuckets(t *testing.T) {
	const each = 200
	for name, format := range map[string]string{"end": "0123456789abcdef|doc-%d", "beginning": "%d|doc"} {
		counts := [Buckets]int{}
		for n := range each * Buckets {
			found := 0
			for b := range Buckets {
				if Part(1 << b).Has(fmt.Sprintf(format, n)) {
					counts[b]++
					found++
				}
			}
			if found != 1 || !Part(0).Has(fmt.Sprintf(format, n)) {
				t.Fatalf("job %d is in %d buckets", n, found)
			}
		}
		for _, n := range counts {
			if n < each*7/10 || n > each*13/10 {
				t.Errorf("%s: %v", name, counts)
			}
		}
	}
}

// TestBucketsStay: a job is in the bucket where earlier releases put it, since nodes of two releases may share the jobs
// of a store.
func TestBucketsStay(t *testing.T) {
	for id, want := range map[string]int64{"": 42, "a": 6, "0123456789abcdef|doc-1": 56, "0123456789abcdef|doc-2": 8} {
		if got := Bucket(id); got != want {
			t.Errorf("%q is in bucket %d, and was in %d", id, got, want)
		}
	}
}

// TestPlacesOfDemands: where one accept looks is not moved by another, also if both are at it in the same moment:
// none writes into the memory of the keys that they share.
func TestPlacesOfDemands(t *testing.T) {
	_, q := newQueue(t)
	demands := []Demand{
		{}, {MaxPriority: "a"}, {MaxPriority: "b"}, {Behind: "a"}, {Behind: "b"}, {MaxPriority: "c", Behind: "c"},
	}
	var places []kv.Range
	shared := q.Keys.Ready[:cap(q.Keys.Ready)]
	before := bytes.Clone(shared)
	for _, d := range demands {
		places = append(places, d.within(q.Keys.Ready))
	}
	if !bytes.Equal(shared, before) {
		t.Error("the key was written to")
	}
	in := func(at kv.Range, priority string) bool { return at.Contains([]byte(string(q.Keys.Ready) + priority)) }
	for i, want := range []string{"\x01abcd", "\x01a", "\x01ab", "bcd", "cd", ""} {
		for _, p := range []string{"\x01", "a", "b", "c", "d"} {
			if in(places[i], p) != strings.Contains(want, p) {
				t.Errorf("%+v has %q: %v", demands[i], p, !strings.Contains(want, p))
			}
		}
	}
}

// TestSignalOfPart: a job that becomes ready changes the signal of every part that it is in, and of no other,
// and wakes the watch of that part.
func TestSignalOfPart(t *testing.T) {
	db, q := newQueue(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := Part(rapid.Uint64().Draw(rt, "part"))
		id := rapid.StringN(1, 20, 40).Draw(rt, "id")
		must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, id) })
		signal := func(tx kv.Tx) (int64, error) { return q.Signal(tx, p) }
		before, grows := must(t, db, signal), int64(0)
		w := must(t, db, func(tx kv.Tx) (kv.Watch, error) { return q.WatchReady(tx, p), nil })
		defer w.Cancel()
		add(t, db, q, id)
		if p.Has(id) {
			grows = 1
			if err := fired(t.Context(), w); err != nil {
				rt.Fatal(err)
			}
		}
		if after := must(t, db, signal); after != before+grows {
			rt.Fatalf("%x has %s: %v, and its signal goes from %d to %d", p, id, p.Has(id), before, after)
		}
	})
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		p, o Part
		want bool
	}{{0, 0, true}, {0, 5, true}, {5, 0, false}, {7, 5, true}, {5, 7, false}, {5, 5, true}, {^Part(0), 0, true}} {
		if got := c.p.Covers(c.o); got != c.want {
			t.Errorf("%x covers %x: %v", c.p, c.o, got)
		}
	}
}

// TestCountersOfOldStores: the counters of a store from before they were spread count.
func TestCountersOfOldStores(t *testing.T) {
	db, q := newQueue(t)
	add(t, db, q, "a", "b")
	must(t, db, func(tx kv.Tx) (struct{}, error) {
		tx.ClearRange(q.Keys.Count.Range())
		tx.Add(q.Keys.Count.Pack("ready"), 2)
		return struct{}{}, nil
	})
	must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, "a") })
	c := must(t, db, func(tx kv.Tx) (Counts, error) { return q.Counts(tx) })
	if want := (Counts{Ready: 1}); c != want {
		t.Errorf("%+v", c)
	}
	must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, q.Audit(tx) })
}
