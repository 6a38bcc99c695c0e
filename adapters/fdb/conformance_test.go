//go:build fdb

package fdb_test

import (
	"context"
	"os"
	"testing"

	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/core/kv"
	"couchrelay/sim/conformance"
)

var bg = context.Background()

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Store {
		db, prefix, advance := fdbtest.Open(t)
		return conformance.Store{DB: db, Prefix: prefix, Advance: advance, Exact: !fdbtest.Real}
	})
}

// TestFaultsAreInjected: a run that was told to inject faults proves nothing if the client injects none.
func TestFaultsAreInjected(t *testing.T) {
	if _, on := os.LookupEnv("FDB_NETWORK_OPTION_CLIENT_BUGGIFY_ENABLE"); !on {
		t.Skip("the environment does not tell the client to inject faults")
	}
	db, prefix, _ := fdbtest.Open(t)
	for range 300 { // about one in ten fails
		tx := db.Begin(bg, kv.Options{})
		tx.Set(prefix, nil)
		err := tx.Commit()
		tx.Cancel()
		if err != nil {
			return
		}
	}
	t.Error("300 commits, and all succeed")
}
