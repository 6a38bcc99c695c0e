package docs

import (
	"fmt"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/fakefdb/damaged"
)

// others has n transactions change something else.
func (w *world) others(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := kv.Do(t.Context(), w, func(tx kv.Tx) error { tx.Set([]byte("other"), nil); return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPendingOfBursts: where changes come in bursts, versions say little of how many follow. The estimate is at least
// within what was counted from both ends.
func TestPendingOfBursts(t *testing.T) {
	const some = 2500
	for _, quiet := range []int{1, 1200, some - 1} { // the place of a long time without changes
		w := newWorld(t)
		for i := range some {
			if i == quiet {
				w.others(t, 5000)
			}
			doc := Document{ID: fmt.Sprintf("d%04d", i), Rev: rev("1-a"), Body: []byte("{}")}
			w.update(t, Edit{Document: doc, Replicated: true})
		}
		rows := w.feed(t, Query{})
		for at := range rows {
			if at%37 != 0 {
				continue
			}
			pending := must(t, w, func(db *Database) (int64, error) { return db.Pending(rows[at].Seq) })
			before, after := min(at+1, pendingExact+1), min(some-at-1, pendingExact+1)
			if pending < int64(after) || pending > int64(some-before) {
				t.Fatalf("quiet before %d: %d pending after row %d", quiet, pending, at)
			}
		}
	}
}

// TestPendingOfAnotherCluster: in a store that was restored into a cluster whose versions are lower, the versions of
// what is written now lie before those of the feed. The estimate is within what was counted from both ends, too.
func TestPendingOfAnotherCluster(t *testing.T) {
	const some = 2500
	w := newWorld(t)
	edits := make([]Edit, some)
	for i := range edits {
		edits[i] = replicated(t, fmt.Sprintf(`{"_id":"d%04d","_rev":"1-a"}`, i))
	}
	w.update(t, edits...)
	db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
	rows := w.feed(t, Query{})
	middle := rows[some/2].Seq
	for _, last := range []Seq{{}, rows[0].Seq, rows[some/4].Seq} {
		w.change(t, kv.KeyValue{Key: db.key(keySeq), Value: last.stored()})
		pending := must(t, w, func(db *Database) (int64, error) { return db.Pending(middle) })
		if pending <= pendingExact || pending > some-pendingExact {
			t.Errorf("after version %d: %d pending", last.version(), pending)
		}
	}
	err := damaged.Unread(t.Context(), w.Database.(*fakefdb.Database), func(tx kv.Tx) error {
		db, err := w.Open(tx, w.name)
		if err == nil {
			_, err = db.Pending(middle)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
