package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
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

// TestLookAtManyJobs: a worker compares its list with its runs in a moment, since nothing else goes on meanwhile.
func TestLookAtManyJobs(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", nil)
	var list []jobs.Held
	for i := range 30_000 {
		h := Held{JobID: fmt.Sprintf("0123456789abcdef0123456789abcdef|%032d", i), Lock: jobs.Lock{Worker: d.worker, Batch: uint64(i / 50)}}
		d.runs = append(d.runs, &run{id: uint64(i + 1), held: h, since: w.now, charged: w.now})
		if i != 7 {
			list = append(list, jobs.Held{ID: strings.Clone(h.JobID), Lock: h.Lock})
		}
	}
	began := time.Now()
	d.onOwned(&call{sent: w.now + 1}, Owned{Jobs: list})
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if len(d.runs) != 29_999 || d.runs[7].id != 9 || d.accepting {
		t.Errorf("%d runs, resumes: %v", len(d.runs), d.accepting)
	}
}
