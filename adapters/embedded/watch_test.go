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
