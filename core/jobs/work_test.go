package jobs

import (
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestDemandsShareNoBytes: accepts that run at once in one process look where each of them has to, also when the
// queue's prefix has room behind it, as prefixes have that were made of others.
func TestDemandsShareNoBytes(t *testing.T) {
	ready := tuple.Subspace(tuple.Pack("q")).Sub("ready")
	soon := Demand{MaxPriority: "a", Behind: "a"}.within(ready)
	begin, end := string(soon.Begin), string(soon.End)
	later := Demand{MaxPriority: "bb", Behind: "bb"}.within(ready)
	if string(soon.Begin) != begin || string(soon.End) != end {
		t.Errorf("another demand turned %q to %q into %q to %q", begin, end, soon.Begin, soon.End)
	}
	if later.Contains(soon.Begin) || !later.Contains(append(ready.Begin(2), "bbb"...)) {
		t.Errorf("%q to %q", later.Begin, later.End)
	}
}

// TestLooksBesidePart: a worker judges as many jobs as it may look at, of its part or beside it. All may be under a
// hold, and with one free slot it would park them one by one.
func TestLooksBesidePart(t *testing.T) {
	var rows []kv.KeyValue
	own := ^Part(0)
	for i := range 40 {
		id := fmt.Sprint("job", i)
		rows = append(rows, kv.KeyValue{Value: []byte(id)})
		own &^= 1 << Bucket(id)
	}
	enough := Demand{Max: 1, Look: 30, Part: 1 << Bucket("job0")} // of its part, so that it looks at no others
	beside := func(id string) bool { return !enough.Part.Has(id) }
	if chosen, _ := enough.choose(rows); slices.ContainsFunc(chosen, beside) {
		t.Errorf("%q are judged", chosen)
	}
	for _, part := range []Part{own, ^own} {
		d := Demand{Max: 1, Look: 30, Part: part}
		chosen, left := d.choose(rows)
		slices.Sort(chosen)
		if n := len(slices.Compact(chosen)); n != d.Look || left != "" {
			t.Errorf("%d jobs are judged, and %q is left", n, left)
		}
	}
}

// TestHeadOfTheQueue: who asks for some of the ready jobs gets so many, and who asks for none does not get all of them.
func TestHeadOfTheQueue(t *testing.T) {
	db, q := newQueue(t)
	add(t, db, q, "a", "b", "c")
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 4: 3} {
		head := must(t, db, func(tx kv.Tx) ([][]byte, error) { return q.Head(tx, n, false) })
		first := must(t, db, func(tx kv.Tx) ([][]byte, error) {
			list, _, err := q.Keys.First(tx, n, "", nil)
			return list, err
		})
		if len(head) != want || len(first) != want {
			t.Errorf("the first %d of three jobs are %q and %q", n, head, first)
		}
	}
}
