package jobs

import (
	"fmt"
	"testing"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// TestPartsCoverAll: each job is in exactly one of the parts into which the buckets are divided, and about as
// many are in each of equal ones, whether ids differ in the beginning or in the end.
func TestPartsCoverAll(t *testing.T) {
	const parts, jobs = 8, 8000
	for name, format := range map[string]string{"end": "0123456789abcdef|doc-%d", "beginning": "%d|doc"} {
		counts := [parts]int{}
		for n := range jobs {
			found := 0
			for i := range parts {
				if (Part{i * Buckets / parts, (i + 1) * Buckets / parts}).Has(fmt.Sprintf(format, n)) {
					counts[i]++
					found++
				}
			}
			if found != 1 || !(Part{}).Has(fmt.Sprintf(format, n)) {
				t.Fatalf("job %d is in %d parts", n, found)
			}
		}
		for _, n := range counts {
			if n < jobs/parts*8/10 || n > jobs/parts*12/10 {
				t.Errorf("%s: %v", name, counts)
			}
		}
	}
}

// TestSignalOfPart: a job that becomes ready changes the signal of every part that it is in, and wakes the
// watch of that part.
func TestSignalOfPart(t *testing.T) {
	db, q := newQueue(t)
	rapid.Check(t, func(rt *rapid.T) {
		from := rapid.IntRange(0, Buckets-1).Draw(rt, "from")
		p := Part{from, rapid.IntRange(from+1, Buckets).Draw(rt, "to")}
		id := rapid.StringN(1, 20, 40).Draw(rt, "id")
		must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, id) })
		signal := func(tx kv.Tx) (int64, error) { return q.Signal(tx, p) }
		before := must(t, db, signal)
		w := must(t, db, func(tx kv.Tx) (kv.Watch, error) { return q.WatchReady(tx, p), nil })
		defer w.Cancel()
		add(t, db, q, id)
		if after := must(t, db, signal); p.Has(id) && after != before+1 {
			rt.Fatalf("%v has %s, and its signal goes from %d to %d", p, id, before, after)
		}
		if p.Has(id) {
			if err := fired(t.Context(), w); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// TestWakes: a wait for one part serves another one whose jobs all change the same keys.
func TestWakes(t *testing.T) {
	const s = Buckets / shards
	for _, c := range []struct {
		p, o Part
		want bool
	}{
		{Part{}, Part{5, 6}, true},
		{Part{5, 6}, Part{}, false},
		{Part{}, Part{0, Buckets}, true},
		{Part{0, s}, Part{s - 1, s}, true},
		{Part{0, s}, Part{s - 1, s + 1}, false},
		{Part{s + 1, 2*s - 1}, Part{s, 2 * s}, true},
		{Part{s, 2 * s}, Part{0, 1}, false},
	} {
		if got := c.p.Wakes(c.o); got != c.want {
			t.Errorf("%v for %v: %v", c.p, c.o, got)
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
