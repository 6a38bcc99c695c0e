package jobs

import (
	"context"
	"errors"
	"testing"

	"couchrelay/core/kv"
)

// TestBrokenLease: a worker's row that cannot be read is told as what it is.
func TestBrokenLease(t *testing.T) {
	for _, key := range [][]any{{"w"}, {5}} {
		db, q := newQueue(t)
		if err := kv.Do(context.Background(), db, func(tx kv.Tx) error {
			tx.Set(q.Keys.Worker.Pack(key...), []byte{})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, err := kv.Run(context.Background(), db, func(tx kv.Tx) ([]Lease, error) { return q.Leases(tx) })
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("worker %v: %v", key, err)
		}
	}
}
