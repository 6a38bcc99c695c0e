//go:build fdb

package main

import (
	"testing"

	"couchrelay/adapters/fdb"
	"couchrelay/adapters/fdb/fdbtest"
)

// newStore returns a function that opens an empty store, again after a close, and the key prefix to use.
func newStore(t testing.TB) (open func() store, keyPrefix string) {
	clusterFile, name := fdbtest.Place(t)
	return func() store {
		db, err := fdb.Open(clusterFile, fdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}, name
}
