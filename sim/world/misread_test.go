package world

import (
	"testing"

	"couchrelay/sim/decide"
	"couchrelay/sim/fakefdb"
)

// TestScansReadAhead: a list that no index has need not look at the data of each job that it has read; it looks at all
// headers and keys, and other transactions at all data.
func TestScansReadAhead(t *testing.T) {
	w := New(Default(), decide.New(1))
	data, header := w.store.Keys.Jobs.Job.Pack("j", 0), w.store.Keys.Jobs.Job.Pack("j")
	for _, c := range []struct {
		row   fakefdb.Row
		asked Asked
		want  bool
	}{
		{fakefdb.Row{Key: data}, Asked{Scans: true}, true},
		{fakefdb.Row{Key: data, Behind: true}, Asked{Scans: true}, false},
		{fakefdb.Row{Key: header}, Asked{Scans: true}, false},
		{fakefdb.Row{Key: data}, Asked{}, false},
	} {
		if got := (sparing{w}).unneeded(c.row, c.asked); got != c.want {
			t.Errorf("%v for %+v: %v", c.row, c.asked, got)
		}
	}
}
