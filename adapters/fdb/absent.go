//go:build !fdb

package fdb

import (
	"context"
	"fmt"

	"couchrelay/core/kv"
)

// Database is an open store. Builds without the tag fdb have none.
type Database struct{ kv.Database }

// Open fails with ErrNotBuilt.
func Open(clusterFile string, o Options) (*Database, error) {
	return nil, fmt.Errorf("store fdb:%s: %w", clusterFile, ErrNotBuilt)
}

// Exclusive reports whether this process alone can use the store: a cluster is shared.
func (*Database) Exclusive() bool { return false }

// Err returns why no operation can succeed.
func (*Database) Err() error { return ErrNotBuilt }

// Available returns a context that lasts for ever.
func (*Database) Available() context.Context { return context.Background() }

// Close does nothing.
func (*Database) Close() error { return nil }
