package embedded_test

import (
	"testing"

	"couchrelay/adapters/embedded"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/programs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestPrograms(t *testing.T) {
	db, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	programs.Check(t,
		programs.Store{Name: "fake", DB: fakefdb.New(), Exact: true},
		programs.Store{Name: "embedded", DB: db, Exact: true})
}
