package jobs

import (
	"context"
	"errors"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
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

// TestAddToCorruptJob: what cannot be read is not taken for a job that is not there.
func TestAddToCorruptJob(t *testing.T) {
	db, q := newQueue(t)
	err := kv.Do(context.Background(), db, func(tx kv.Tx) error {
		tx.Set(q.Keys.Job.Pack("a"), []byte("junk"))
		return q.Add(tx, "a", Schedule{}, nil)
	})
	if !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestAcceptedJobWithoutHeader: an accept that is repeated does not go on without a job that it took.
func TestAcceptedJobWithoutHeader(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, "a", Schedule{}, nil) })
	must(t, db, accept(q, "w", 1, 1))
	must(t, db, func(tx kv.Tx) (bool, error) { tx.ClearRange(q.Keys.Job.Range()); return true, nil })
	if _, err := kv.Run(context.Background(), db, accept(q, "w", 1, 1)); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestCheckOfIncarnation: incarnations begin with 1.
func TestCheckOfIncarnation(t *testing.T) {
	for value, finds := range map[string]bool{
		string(tuple.Pack(1, 5)): false, string(tuple.Pack(0, 5)): true, string(tuple.Pack(-1, 5)): true, "junk": true,
	} {
		db, root := newStore(t)
		keys := KeysBelow(root, "kind")
		found, err := kv.Run(context.Background(), db, func(tx kv.Tx) ([]check.Finding, error) {
			tx.Set(keys.Incarnation, []byte(value))
			c := check.New(check.Options{Root: root, Sections: Sections(keys, nil)})
			for {
				if found, done, err := c.Step(tx); done || err != nil || len(found) > 0 {
					return found, err
				}
			}
		})
		if err != nil || len(found) > 0 != finds {
			t.Errorf("%q: %v, %v", value, found, err)
		}
	}
}
