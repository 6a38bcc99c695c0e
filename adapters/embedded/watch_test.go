package embedded

import (
	"context"
	"errors"
	"testing"

	"couchrelay/core/kv"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestWatchEndsWithItsWait: a watch whose Wait has ended is gone. Otherwise a node that checks a quiet queue
// once a minute would use up all watches within a week.
func TestWatchEndsWithItsWait(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
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
	db.mu.Lock()
	defer db.mu.Unlock()
	if n := db.watches.Len(); n != 0 {
		t.Errorf("%d watches left", n)
	}
}

// TestWatchEndsBeforeItsTransaction: a watch that is cancelled before its transaction commits does not begin.
func TestWatchEndsBeforeItsTransaction(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	tx := db.Begin(bg, kv.Options{})
	w := tx.Watch([]byte("k"))
	w.Cancel()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	within(t, "the next commit", func() {
		if err := set(db, "k", "v"); err != nil {
			t.Error(err)
		}
	})
	if err := w.Wait(bg); kv.CodeOf(err) != kv.OperationCancelled || db.watches.Len() != 0 {
		t.Errorf("%v, %d watches left", err, db.watches.Len())
	}
}
