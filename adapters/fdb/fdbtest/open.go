//go:build fdb

package fdbtest

import (
	"testing"

	"couchrelay/adapters/fdb"
)

func openAt(t testing.TB, clusterFile string) *fdb.Database {
	t.Helper()
	db, err := fdb.Open(clusterFile, fdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
