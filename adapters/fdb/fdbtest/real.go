//go:build fdb && !fdbctest

package fdbtest

import (
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"

	"couchrelay/adapters/fdb"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Real reports whether the tests run against FoundationDB itself.
const Real = true

// Place returns an empty place for a store: a cluster file and a name for the key prefix. The keys below it
// are removed when the test ends.
func Place(t testing.TB) (clusterFile, name string) {
	t.Helper()
	clusterFile, name = os.Getenv("FDB_CLUSTER_FILE"), "couchrelay-test-"+rand.Text()
	db := openAt(t, clusterFile)
	t.Cleanup(func() {
		err := kv.Do(context.Background(), db, func(tx kv.Tx) error {
			tx.ClearRange(kv.PrefixRange(tuple.Pack(name)))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	return clusterFile, name
}

// Open opens an empty store, of which the test may use the keys below prefix. advance moves the
// cluster's clock; it is nil, since a real clock cannot be moved.
func Open(t testing.TB) (db *fdb.Database, prefix []byte, advance func(time.Duration)) {
	t.Helper()
	path, name := Place(t)
	return openAt(t, path), tuple.Pack(name), nil
}

// OpenDistant is Open. The round trips of a real cluster are as long as they are.
func OpenDistant(t testing.TB, _ time.Duration) (db *fdb.Database, prefix []byte) {
	t.Helper()
	db, prefix, _ = Open(t)
	return db, prefix
}
