package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAcceptOfLargeRecords: jobs whose records do not fit into one transaction together run all the same, and so do the
// others.
func TestAcceptOfLargeRecords(t *testing.T) {
	w := newWorld(t)
	long := "http://p/" + strings.Repeat("&", 60_000) // six bytes each in a record
	for i := range 20 {
		w.put(fmt.Sprintf("large%02d", i), fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b%d","proxy":%q}`, i, i, long))
	}
	w.putMany(30, true)
	d := w.start("n", nil)
	w.pass(time.Minute)
	if len(d.running) != 50 || slices.Contains(d.notes, "store_error") {
		t.Errorf("%d of 50 jobs run; %v", len(d.running), d.notes)
	}
	w.audit()
}
