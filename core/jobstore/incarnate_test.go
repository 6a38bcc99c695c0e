package jobstore

import (
	"context"
	"encoding/binary"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// TestIncarnate: a new store has an incarnation; one of an earlier release gets none before all of its nodes have gone
// over.
func TestIncarnate(t *testing.T) {
	root := tuple.Subspace("root")
	keys := KeysBelow(root)
	incarnation := func(db kv.Database) int64 {
		n, err := kv.Run(context.Background(), db, func(tx kv.Tx) (int64, error) {
			if _, _, err := Init(tx, root, "uuid"); err != nil {
				return 0, err
			}
			return Incarnate(tx, keys)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	db := fakefdb.New()
	if n, again := incarnation(db), incarnation(db); n != 1 || again != 1 {
		t.Errorf("a new store has incarnation %d, then %d", n, again)
	}
	old := fakefdb.New()
	setSchema := func(version uint64) {
		err := kv.Do(context.Background(), old, func(tx kv.Tx) error {
			tx.Set(keys.Schema, binary.LittleEndian.AppendUint64(nil, version))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if setSchema(1); incarnation(old) != 0 {
		t.Error("a store that earlier releases may use has sequences")
	}
	if schemaVersion < 2 {
		return
	}
	if setSchema(2); incarnation(old) != 1 {
		t.Error("a store that all nodes have gone over to has no sequences")
	}
}

// TestLostIncarnation: where a job has changed in a later incarnation than the store's, a check says so, and a repair
// lets no change to come sort before those that there are.
func TestLostIncarnation(t *testing.T) {
	for name, value := range map[string][]byte{"lost": nil, "of before": tuple.Pack(2, 0)} {
		b := newFullBench(t)
		for range 3 {
			b.do1(func(tx kv.Tx) error { return b.s.Keys.Jobs.Reincarnate(tx) })
		}
		b.s.Jobs.Incarnation = 4
		b.put("last", simple, admin)
		b.do1(func(tx kv.Tx) error {
			if tx.Set(b.s.Keys.Jobs.Incarnation, value); value == nil {
				tx.Clear(b.s.Keys.Jobs.Incarnation)
			}
			return nil
		})
		found := b.findings()
		if len(found) != 1 || found[0].Key != "jobs/replication/incarnation" {
			t.Errorf("%s: %v", name, found)
		}
		for len(found) > 0 && b.mend(&found[0]) {
			found = b.findings()
		}
		n := get(b, func(tx kv.Tx) (int64, error) { return b.s.Keys.Jobs.Incarnate(tx) })
		if len(found) > 0 || n != 4 {
			t.Errorf("%s: after the repair incarnation %d, %v", name, n, found)
		}
	}
}
