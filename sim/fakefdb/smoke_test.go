package fakefdb

import (
	"context"
	"testing"

	"couchrelay/core/kv"
)

func TestSmoke(t *testing.T) {
	db := New()
	for range 3 {
		err := kv.Do(context.Background(), db, func(tx kv.Tx) error {
			tx.Add([]byte("n"), 1)
			_, err := tx.Get([]byte("n"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if db.Dump() != "\"n\" = \"\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"\n" {
		t.Error(db.Dump())
	}
}
