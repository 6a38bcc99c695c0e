package embedded_test

import (
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/sim/conformance"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Store {
		now := clock.NewMock()
		now.Set(time.Unix(1_000_000, 0))
		db, err := embedded.Open("store", embedded.Options{Clock: now, FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return conformance.Store{DB: db, Prefix: []byte("test/"), Advance: now.Add, Exact: true}
	})
}
