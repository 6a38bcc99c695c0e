//go:build fdb

package fdb_test

import (
	"context"
	"testing"

	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/sim/conformance"
)

var bg = context.Background()

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Store {
		db, prefix, advance := fdbtest.Open(t)
		return conformance.Store{DB: db, Prefix: prefix, Advance: advance, Exact: !fdbtest.Real}
	})
}
