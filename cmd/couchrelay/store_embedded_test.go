//go:build !fdb

package main

import (
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/adapters/embedded"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newStore returns a function that opens an empty store, again after a close, and the key prefix to use.
func newStore(t testing.TB) (open func() store, keyPrefix string) {
	files := vfs.NewMem()
	return func() store {
		db, err := embedded.Open("store", embedded.Options{FS: files})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}, "couchrelay"
}

// TestUUIDIsKept: the server uuid of the last start is in the store, and so in its backups. Else a store whose service
// had got another one, as by an import, would be restored with the first: no job would find its checkpoints.
func TestUUIDIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.restartAs("0123456789abcdef")
	r.stop()
	r.start(config.Default())
	if got := r.want(200, "GET", "", "")["uuid"]; got != "0123456789abcdef" {
		t.Errorf("without a uuid in its configuration the service has %v", got)
	}
}
