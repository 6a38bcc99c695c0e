package jobstore

import (
	"context"
	"errors"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

func TestInit(t *testing.T) {
	db, root := fakefdb.New(), tuple.Subspace(tuple.Pack("x"))
	made := false
	run := func(offered string) (string, error) {
		return kv.Run(context.Background(), db, func(tx kv.Tx) (uuid string, err error) {
			uuid, made, err = Init(tx, root, offered)
			return uuid, err
		})
	}
	if uuid, err := run("one"); uuid != "one" || !made || err != nil {
		t.Error(uuid, made, err)
	}
	if uuid, err := run("two"); uuid != "one" || made || err != nil {
		t.Error("the uuid changed, or the store is new", uuid, made, err)
	}
	schema := func(n byte) {
		if err := kv.Do(context.Background(), db, func(tx kv.Tx) error {
			tx.Set(root.Pack("schema"), []byte{n, 7: 0})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	schema(1)
	if uuid, err := run("two"); uuid != "one" || made || err != nil {
		t.Error("of an earlier release's store:", uuid, made, err)
	}
	schema(9)
	if _, err := run("one"); !errors.Is(err, ErrSchema) {
		t.Error(err)
	}
}

// TestInitRefusesForeignKeys: a prefix that others use is not taken over.
func TestInitRefusesForeignKeys(t *testing.T) {
	db, root := fakefdb.New(), tuple.Subspace(tuple.Pack("x"))
	foreign := func(tx kv.Tx) error { tx.Set(append(root, 0xff), nil); return nil }
	if err := kv.Do(context.Background(), db, foreign); err != nil {
		t.Fatal(err)
	}
	before := db.Hash()
	err := kv.Do(context.Background(), db, func(tx kv.Tx) error { _, _, err := Init(tx, root, "u"); return err })
	if !errors.Is(err, ErrForeign) || db.Hash() != before {
		t.Errorf("%v, store changed %v", err, db.Hash() != before)
	}
}
