//go:build !fdb

package fdb

import (
	"fmt"

	"couchrelay/core/kv"
)

// Database is an open store. Builds without the tag fdb have none.
type Database struct{ kv.Database }

// Open fails with ErrNotBuilt.
func Open(clusterFile string, o Options) (*Database, error) {
	return nil, fmt.Errorf("store fdb:%s: %w", clusterFile, ErrNotBuilt)
}

// Exclusive says that no other process can use the store.
func (*Database) Exclusive() bool { return false }

// Err says why no operation can succeed.
func (*Database) Err() error { return ErrNotBuilt }

// Close does nothing.
func (*Database) Close() error { return nil }
