package jobs

import (
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// counting is a transaction that counts the jobs that come to work and leave it.
type counting struct {
	kv.Tx
	atWork map[string]int64
}

func (c counting) Tally(kind string, n int64) { c.atWork[kind] += n }

// TestTally: each job counts once when it comes to work and once when it leaves, however that happens; moves in
// between do not count.
func TestTally(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	soon := Schedule{Priority: tuple.Pack(0)}
	remove := func(tx kv.Tx) error {
		_, err := q.Remove(tx, "a")
		return err
	}
	var lock Lock
	for _, step := range []struct {
		what           string
		do             func(tx kv.Tx) error
		added, removed int64
	}{
		{"added", func(tx kv.Tx) error { return q.Add(tx, "a", soon, []byte("{}")) }, 1, 0},
		{"added again", func(tx kv.Tx) error { return q.Add(tx, "a", soon, []byte("{}")) }, 0, 0},
		{"accepted", func(tx kv.Tx) error {
			taken, err := q.Accept(tx, "w", Demand{Batch: 1, Max: 1}, nil)
			if err == nil {
				lock = taken.Jobs[0].Lock
			}
			return err
		}, 0, 0},
		{"finished", func(tx kv.Tx) error {
			_, err := q.Finish(tx, "a", lock, []byte("{}"))
			return err
		}, 0, 1},
		{"run again", func(tx kv.Tx) error { return q.Add(tx, "a", soon, []byte("{}")) }, 1, 0},
		{"removed", remove, 0, 1},
		{"removed again", remove, 0, 0},
	} {
		c := must(t, db, func(tx kv.Tx) (counting, error) {
			c := counting{tx, map[string]int64{}}
			return c, step.do(c)
		})
		if c.atWork[TallyAdded] != step.added || c.atWork[TallyRemoved] != step.removed {
			t.Errorf("%s: counted %v, want %d added and %d removed", step.what, c.atWork, step.added, step.removed)
		}
	}
}
