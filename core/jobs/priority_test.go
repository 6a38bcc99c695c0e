package jobs

import (
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// addWith adds a job with a priority of these elements.
func addWith(t *testing.T, db kv.Database, q *Queue, id string, priority ...any) {
	t.Helper()
	must(t, db, func(tx kv.Tx) (struct{}, error) {
		return struct{}{}, q.Add(tx, id, Schedule{Priority: tuple.Pack(priority...)}, nil)
	})
}

// TestMaxPriority: an accept takes jobs up to a priority and that one included, whatever priorities are made of.
func TestMaxPriority(t *testing.T) {
	for name, c := range map[string]struct {
		priorities [][]any
		max        []byte
		want       []string
	}{
		"numbers":        {[][]any{{-5}, {0}, {255}, {256}, {70000}}, tuple.Pack(256), []string{"0", "1", "2", "3"}},
		"below all":      {[][]any{{1}, {2}}, tuple.Pack(0), nil},
		"above all":      {[][]any{{1}, {2}}, tuple.Pack(3), []string{"0", "1"}},
		"none":           {[][]any{{1}, {2}}, nil, []string{"0", "1"}},
		"words":          {[][]any{{"high"}, {"high\x00"}, {"low"}}, tuple.Pack("high"), []string{"0"}},
		"parts of pairs": {[][]any{{1, 9}, {2, 0}, {2, 9}, {3}}, tuple.Pack(2), []string{"0", "1", "2"}},
		"pairs":          {[][]any{{1, 9}, {2, 0}, {2, 9}}, tuple.Pack(2, 0), []string{"0", "1"}},
	} {
		db, q := newQueue(t)
		register(t, db, q, "w")
		for i, p := range c.priorities {
			addWith(t, db, q, string(rune('0'+i)), p...)
		}
		d := Demand{Batch: 1, Max: 9, MaxPriority: string(c.max)}
		taken := must(t, db, func(tx kv.Tx) (Taken, error) { return q.Accept(tx, "w", d, nil) })
		var got []string
		for _, j := range taken.Jobs {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: took %v, want %v", name, got, c.want)
		}
	}
}

// reads is a transaction that counts the ranges that are read from its snapshot, and their rows.
type reads struct {
	kv.Tx
	snapshot kv.Reader
	seen     *seen
}

type seen struct{ ranges, rows int }

type snapshotReads struct {
	kv.Reader
	seen *seen
}

func (r reads) Snapshot() kv.Reader { return snapshotReads{r.snapshot, r.seen} }

func (r snapshotReads) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	rows, err := r.Reader.GetRange(at, o)
	r.seen.ranges, r.seen.rows = r.seen.ranges+1, r.seen.rows+len(rows)
	return rows, err
}

// TestMaxPriorityLooksNoFurther: jobs behind the priority are neither read nor in the way of the commit. A store may
// fail without a cause, but not each time.
func TestMaxPriorityLooksNoFurther(t *testing.T) {
	var failed error
	for range 20 {
		db, q := newQueue(t)
		register(t, db, q, "w")
		addWith(t, db, q, "now", 1)
		addWith(t, db, q, "later", 9)
		addWith(t, db, q, "latest", 10)
		var at seen
		tx := open(t, db, func(tx kv.Tx) error {
			at = seen{}
			d := Demand{Batch: 1, Max: 5, Window: 16, MaxPriority: string(tuple.Pack(1))}
			_, err := q.Accept(reads{tx, tx.Snapshot(), &at}, "w", d, nil)
			return err
		})
		if at.rows != 1 {
			t.Fatalf("%d rows of the queue were looked at", at.rows)
		}
		must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, "later") })
		addWith(t, db, q, "latest of all", 11)
		if failed = tx.Commit(); failed == nil {
			return
		}
	}
	t.Error(failed)
}

// passing passes over the jobs of a map.
type passing map[string]bool

func (p passing) Passes(id string) bool { return p[id] }

func (passing) Judge(*Job) (Verdict, error) { return Verdict{}, nil }

// TestPassedOver: jobs behind some that are passed over are found, and an accept looks at no more rows than it may, in
// a few reads; the next one finds those behind.
func TestPassedOver(t *testing.T) {
	const window = 16
	for _, c := range []struct {
		passed int
		found  bool
	}{{0, true}, {1, true}, {window, true}, {MaxPassed - 1, true}, {MaxPassed + 2*window, false}} {
		db, q := newQueue(t)
		register(t, db, q, "w")
		gone := passing{}
		for i := range c.passed { // each by itself: a store with faults lets no transaction of a thousand reads through
			id := fmt.Sprint("gone", i)
			gone[id] = true
			addWith(t, db, q, id, 1)
		}
		for i := range window {
			addWith(t, db, q, fmt.Sprint("job", i), 2)
		}
		var at seen
		accept := func(behind string) Taken {
			return must(t, db, func(tx kv.Tx) (Taken, error) {
				at = seen{}
				d := Demand{Batch: 1, Max: 2, Window: window, Behind: behind}
				return q.Accept(reads{tx, tx.Snapshot(), &at}, "w", d, gone)
			})
		}
		taken := accept("")
		if len(taken.Jobs) == 2 != c.found || taken.Passed == "" != c.found || at.rows > MaxPassed+window ||
			at.ranges > 2 {
			t.Errorf("behind %d others: took %d, passed %q, %+v", c.passed, len(taken.Jobs), taken.Passed, at)
		}
		if taken.Passed != "" {
			if taken = accept(taken.Passed); len(taken.Jobs) != 2 || at.rows > 2*window+MaxPassed {
				t.Errorf("behind %d others: the next one took %d, %+v", c.passed, len(taken.Jobs), at)
			}
		}
		counts := must(t, db, func(tx kv.Tx) (Counts, error) { return q.Counts(tx) })
		if want := int64(c.passed + window - len(taken.Jobs)); counts.Ready != want {
			t.Errorf("behind %d others: %d are ready, want %d", c.passed, counts.Ready, want)
		}
	}
}

// TestPassedOverBetween: the bound is for all that an accept passes over, also if it finds a job now and then.
func TestPassedOverBetween(t *testing.T) {
	const window = 16
	db, q := newQueue(t)
	register(t, db, q, "w")
	gone := passing{}
	for i := range 2 * MaxPassed {
		id := fmt.Sprintf("%04d", i)
		gone[id] = i%(MaxPassed/2) != 0
		addWith(t, db, q, id, 1)
	}
	var at seen
	taken := must(t, db, func(tx kv.Tx) (Taken, error) {
		at = seen{}
		return q.Accept(reads{tx, tx.Snapshot(), &at}, "w", Demand{Batch: 1, Max: 9, Window: window}, gone)
	})
	if len(taken.Jobs) < 2 || at.rows > MaxPassed+window {
		t.Errorf("took %d, %+v", len(taken.Jobs), at)
	}
}

// TestPassedOverAtTheBound: an accept that has passed over exactly as many jobs as it may looks no further, whether it
// has found one before them or not.
func TestPassedOverAtTheBound(t *testing.T) {
	for front := range 2 {
		db, q := newQueue(t)
		register(t, db, q, "w")
		gone := passing{}
		for i := range MaxPassed {
			id := fmt.Sprint("gone", i)
			gone[id] = true
			addWith(t, db, q, id, 2)
		}
		for i := range front {
			addWith(t, db, q, fmt.Sprint("front", i), 1)
		}
		addWith(t, db, q, "behind", 3)
		var at seen
		taken := must(t, db, func(tx kv.Tx) (Taken, error) {
			at = seen{}
			d := Demand{Batch: 1, Max: 2, Window: MaxPassed + front}
			return q.Accept(reads{tx, tx.Snapshot(), &at}, "w", d, gone)
		})
		if len(taken.Jobs) != front || taken.Passed != "" != (front == 0) || at.rows > MaxPassed+front {
			t.Errorf("behind %d: took %v, passed %q, %+v", front, taken.Jobs, taken.Passed, at)
		}
	}
}
