//go:build fdb && fdbctest

package fdbtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/fdb"
	"couchrelay/adapters/fdb/fdbctest"
	"couchrelay/sim/fakefdb"
)

// Real reports whether the tests run against FoundationDB itself.
const Real = false

var clusters atomic.Int64

// NewCluster returns an empty cluster of the double, and the path of its cluster file.
func NewCluster(t testing.TB) (*fdbctest.Cluster, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.cluster", clusters.Add(1)))
	if err := os.WriteFile(path, []byte("# of a test\ndouble:test@127.0.0.1:4500\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fdbctest.NewCluster(path), path
}

// Place returns an empty place for a store: a cluster file and a name for the key prefix.
func Place(t testing.TB) (clusterFile, name string) {
	t.Helper()
	_, path := NewCluster(t)
	return path, "test"
}

// Open opens an empty store, of which the test may use the keys below prefix. advance moves the
// cluster's clock.
func Open(t testing.TB) (db *fdb.Database, prefix []byte, advance func(time.Duration)) {
	t.Helper()
	c, path := NewCluster(t)
	return openAt(t, path), []byte("test/"), c.Advance
}

// OpenDistant is Open for a cluster whose round trips take so long.
func OpenDistant(t testing.TB, roundTrip time.Duration) (db *fdb.Database, prefix []byte) {
	t.Helper()
	c, path := NewCluster(t)
	c.Decide(func(fakefdb.Op) fakefdb.Outcome {
		return fakefdb.Outcome{Before: roundTrip / 2,
			After: roundTrip / 2}
	})
	return openAt(t, path), []byte("test/")
}
