package embedded

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"couchrelay/core/kv"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// afterStall writes key while the disk stands still for longer than a transaction may take, and then another
// key. It returns a transaction that began during the stall and so does not see key.
func afterStall(t *testing.T, prepare func(tx kv.Tx), key string) (*Database, kv.Transaction) {
	fs := &faultyFS{FS: vfs.NewMem()}
	now := clock.NewMock()
	now.Set(time.Unix(1_000_000, 0))
	db := mustOpen(t, "store", Options{FS: fs, Clock: now})
	t.Cleanup(func() { mustClose(t, db) })
	do(t, db, prepare)
	gate := newGate()
	fs.set(gate.hook)
	var client sync.WaitGroup
	client.Go(func() {
		if err := set(db, key, "first"); err != nil {
			t.Error(err)
		}
	})
	<-gate.reached
	now.Add(window + 50*time.Millisecond)
	tx := db.Begin(bg, kv.Options{})
	if v, err := tx.Get([]byte(key)); err != nil || v != nil {
		t.Fatalf("%s is %q, %v during the sync", key, v, err)
	}
	gate.open()
	client.Wait()
	if err := set(db, "other", ""); err != nil {
		t.Fatal(err)
	}
	return db, tx
}

// TestNoUpdateIsLostInAStall: a read from before a commit that took long to sync conflicts with that commit.
func TestNoUpdateIsLostInAStall(t *testing.T) {
	db, tx := afterStall(t, func(kv.Tx) {}, "n")
	tx.Set([]byte("n"), []byte("second"))
	if err := tx.Commit(); kv.CodeOf(err) != kv.TransactionTooOld || value(t, db, "n") != "first" {
		t.Errorf("committed with %v, and n is %q", err, value(t, db, "n"))
	}
}

// TestNoGapHidesWhatCameInAStall: a scan of an old view notes no gap where there is a key by now.
func TestNoGapHidesWhatCameInAStall(t *testing.T) {
	key := func(i int) string { return fmt.Sprintf("q%06d", i) }
	queue := kv.Range{Begin: []byte("q"), End: []byte("r")}
	prepare := func(tx kv.Tx) {
		for i := range 5 * wideGap {
			tx.Clear([]byte(key(i)))
		}
	}
	db, tx := afterStall(t, prepare, key(2*wideGap))
	if list, err := tx.GetRange(queue, kv.RangeOptions{}); err != nil || len(list) != 0 {
		t.Fatalf("the old view has %v, %v", list, err)
	}
	do(t, db, func(tx kv.Tx) {
		if list, err := tx.GetRange(queue, kv.RangeOptions{}); err != nil || len(list) != 1 {
			t.Errorf("the queue has %v, %v", list, err)
		}
	})
}
