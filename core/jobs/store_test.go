//go:build !fdb

package jobs

import (
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// newStore is an empty store and the root to use in it.
func newStore(testing.TB) (kv.Database, tuple.Subspace) {
	return fakefdb.New(), tuple.Subspace(tuple.Pack("test"))
}
