//go:build fdb

package jobs

import (
	"testing"

	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// newStore is an empty store and the root to use in it.
func newStore(t testing.TB) (kv.Database, tuple.Subspace) {
	db, prefix, _ := fdbtest.Open(t)
	return db, tuple.Subspace(prefix)
}
