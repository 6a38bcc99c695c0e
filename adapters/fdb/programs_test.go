//go:build fdb

package fdb_test

import (
	"testing"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/programs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPrograms compares the stores with each other. Where they differ, FoundationDB itself is right.
func TestPrograms(t *testing.T) {
	disk, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	db, prefix, _ := fdbtest.Open(t)
	name := "FoundationDB's-bindings-over-the-double"
	if fdbtest.Real {
		name = "FoundationDB"
	}
	programs.Check(t,
		programs.Store{Name: "fake", DB: fakefdb.New(), Exact: true},
		programs.Store{Name: "embedded", DB: disk, Exact: true},
		programs.Store{Name: name, DB: db, Prefix: prefix, Exact: !fdbtest.Real})
}
