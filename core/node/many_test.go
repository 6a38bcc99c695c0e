package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// TestLookAtManyJobs: a worker compares its list with its runs in a moment, since nothing else goes on
// meanwhile. It needs less time than it takes to look a fifth of the list up in the runs one by one, at least
// once in ten times, as other programs may have the machine.
func TestLookAtManyJobs(t *testing.T) {
	for range 10 {
		if took, most := lookAtMany(t); took < most || t.Failed() {
			return
		}
	}
	t.Error("it takes too long")
}

// lookAtMany compares a long list, and returns how long that took and how long it may take.
func lookAtMany(t *testing.T) (took, most time.Duration) {
	w := newWorld(t)
	d := w.start("n", nil)
	var list []jobs.Held
	for i := range 30_000 {
		h := Held{JobID: fmt.Sprintf("0123456789abcdef0123456789abcdef|%032d", i),
			Lock: jobs.Lock{Worker: d.worker, Batch: uint64(i / 50)}}
		d.occupy(&run{id: uint64(i + 1), held: h, accepted: w.now, since: w.now, charged: w.now})
		if i != 7 {
			list = append(list, jobs.Held{ID: strings.Clone(h.JobID), Lock: h.Lock})
		}
	}
	owned := Owned{Jobs: list}
	for i := range 20_000 {
		owned.Holds = append(owned.Holds, jobstore.Hold{Server: fmt.Sprintf("h%d.example", i)})
	}
	d.runs[11].job.Source = "https://u@H1.example/db/"
	for _, h := range list {
		owned.Retries = append(owned.Retries, jobstore.RetryAsked{JobID: h.ID, At: w.now})
	}
	began := time.Now()
	d.onOwned(&call{id: 1, sent: w.now + 1}, owned)
	took = time.Since(began)
	if len(d.runs) != 30_000 || !d.runs[7].gone || d.runs[8].gone || d.accepting {
		t.Errorf("%d runs, resumes: %v", len(d.runs), d.accepting)
	}
	if d.runs[11].state != stopping || d.runs[12].state != going || d.runs[12].listed.tried != w.now {
		t.Error("the runs do not obey")
	}
	began = time.Now()
	found := 0
	for _, h := range list[len(list)-len(list)/5:] {
		if slices.ContainsFunc(d.runs, func(r *run) bool { return r.held.JobID == h.ID }) {
			found++
		}
	}
	if found != len(list)/5 {
		t.Errorf("%d found", found)
	}
	return took, time.Since(began)
}

// TestLookAtManyAccounts: a node whose jobs are of many accounts looks at all of them, and no transaction takes
// long.
func TestLookAtManyAccounts(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	d := w.start("n", func(c *Config) { c.MaxJobs = 3 + 900; c.MaxChurn = 1; c.Interval = time.Hour })
	w.pass(10 * time.Second)
	for i := range 900 {
		d.occupy(&run{
			id: uint64(100 + i), account: fmt.Sprintf("t%d/_replicator", i),
			accepted: w.now, since: w.now, charged: w.now, grown: w.now,
		})
	}
	parts := 0
	d.hold = func(q Request) bool {
		survey, is := q.(Survey)
		if is {
			parts++
		}
		const read, most = 50 * time.Millisecond, 5 * time.Second // of a slow store, and of any transaction
		if took := time.Duration(len(survey.Accounts)) * read; took > most {
			t.Errorf("one transaction looks at %d accounts, for %s", len(survey.Accounts), took)
		}
		return false
	}
	d.timers.rotate = w.now
	d.step(Wake{})
	last := d.share.accounts["t899/_replicator"]
	if parts != 19 || len(d.share.accounts) != 901 || last.Shares != schedule.DefaultShares {
		t.Errorf("it saw %d accounts in %d transactions", len(d.share.accounts), parts)
	}
	d.timers.rotate = w.now
	d.step(Wake{})
	if parts != 38 || len(d.share.accounts) != 901 {
		t.Errorf("the next time it saw %d accounts in %d transactions", len(d.share.accounts), parts-19)
	}
}
