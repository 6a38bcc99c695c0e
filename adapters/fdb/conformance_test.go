//go:build fdb

package fdb_test

import (
	"testing"

	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/sim/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Store {
		db, prefix, advance := fdbtest.Open(t)
		return conformance.Store{DB: db, Prefix: prefix, Advance: advance, Exact: !fdbtest.Real}
	})
}
