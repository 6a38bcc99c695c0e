//go:build !fdb

package main

import (
	"testing"

	"couchrelay/adapters/embedded"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newStore returns a function that opens an empty store, again after a close, and the key prefix to use.
func newStore(t testing.TB) (open func() store, keyPrefix string) {
	files := vfs.NewMem()
	return func() store {
		db, err := embedded.Open("store", embedded.Options{FS: files})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}, "couchrelay"
}
