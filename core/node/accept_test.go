package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
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
	d.onOwned(&call{id: 1, sent: w.now + 1}, Owned{Jobs: list})
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if len(d.runs) != 30_000 || !d.runs[7].gone || d.runs[8].gone || d.accepting {
		t.Errorf("%d runs, resumes: %v", len(d.runs), d.accepting)
	}
}

// TestLookAtManyAccounts: a node whose jobs are of many accounts looks at all of them, and no transaction takes long.
func TestLookAtManyAccounts(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	d := w.start("n", func(c *Config) { c.MaxJobs = 3 + 900; c.MaxChurn = 1; c.Interval = time.Hour })
	w.pass(10 * time.Second)
	for i := range 900 {
		d.runs = append(d.runs, &run{id: uint64(100 + i), account: fmt.Sprintf("t%d/_replicator", i), since: w.now, charged: w.now, grown: w.now})
	}
	parts := 0
	d.hold = func(q Request) bool {
		survey, is := q.(Survey)
		if is {
			parts++
		}
		if len(survey.Accounts) > 250 {
			t.Errorf("one transaction looks at %d accounts", len(survey.Accounts))
		}
		return false
	}
	d.timers.rotate = w.now
	d.step(Wake{})
	if parts != 5 || len(d.share.accounts) != 901 || d.share.accounts["t899/_replicator"].Shares != schedule.DefaultShares {
		t.Errorf("it saw %d accounts in %d transactions", len(d.share.accounts), parts)
	}
	d.timers.rotate = w.now
	d.step(Wake{})
	if parts != 10 || len(d.share.accounts) != 901 {
		t.Errorf("the next time it saw %d accounts in %d transactions", len(d.share.accounts), parts-5)
	}
}

// TestBehindDeletedDatabases: a node that found nothing but jobs of deleted databases asks again a second later, and
// is told of others meanwhile.
func TestBehindDeletedDatabases(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", func(c *Config) { c.PollInterval = time.Hour })
	w.pass(10 * time.Second)
	accepts := 0
	d.hold = func(q Request) bool {
		_, is := q.(Accept)
		if is {
			accepts++
		}
		return is
	}
	d.hungry = true
	d.step(Wake{})
	for i := range 5 {
		if accepts != i+1 || len(d.held) != i+1 {
			t.Fatalf("%d accepts after %d seconds", accepts, i)
		}
		d.step(Done{ID: d.held[i].ID, Result: Accepted{Short: true}})
		if len(d.awaits) == 0 || !d.awaiting[ReadyJobs] {
			t.Error("it does not wait to be told of jobs")
		}
		w.pass(sweepRest)
	}
	d.step(Done{ID: d.held[5].ID, Result: Accepted{}})
	if w.pass(time.Minute); accepts != 6 {
		t.Errorf("%d accepts in all", accepts)
	}
}

// TestNoneGivesWayToDropped: jobs of a deleted database that wait count for no rotation.
func TestNoneGivesWayToDropped(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	look := func() Surveyed {
		w.t.Helper()
		seen, err := kv.Run(context.Background(), w.db, func(tx kv.Tx) (Result, error) {
			return Perform(tx, w.s, Survey{First: 2}, w.now)
		})
		if err != nil {
			t.Fatal(err)
		}
		return seen.(Surveyed)
	}
	if got := look(); got.Ready != 3 || len(got.First) != 2 {
		t.Errorf("before the deletion: %+v", got)
	}
	w.do(func(tx kv.Tx) error {
		db, err := w.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		w.s.Drop(tx, db.Instance)
		return w.s.Docs.Delete(tx, "_replicator", db.Instance)
	})
	if got := look(); got.Ready != 0 || len(got.First) != 0 {
		t.Errorf("after the deletion: %+v", got)
	}
}

// TestJobBehindDropped: a job behind more jobs of a deleted database than an accept passes over runs once a sweep has
// removed some, and none of the others ever does.
func TestJobBehindDropped(t *testing.T) {
	w := newWorld(t)
	w.putMany(jobs.MaxPassed+100, true)
	w.do(func(tx kv.Tx) error {
		w.s.Drop(tx, tuple.UUID{1})
		return w.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	w.now = w.now.Add(time.Second)
	w.do(func(tx kv.Tx) error { return w.s.Docs.Create(tx, "_replicator", tuple.UUID{2}, w.now) })
	w.put("behind", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	d := w.start("n", func(c *Config) { c.PollInterval = time.Hour })
	w.pass(10 * time.Second)
	if len(d.running) != 0 {
		t.Fatalf("%d jobs run behind those of a deleted database", len(d.running))
	}
	w.do(func(tx kv.Tx) error { _, err := w.s.SweepDropped(tx, 200); return err })
	w.pass(2 * time.Second)
	if len(d.running) != 1 || len(d.awaits) > 2 {
		t.Errorf("%d jobs run, after %d waits", len(d.running), len(d.awaits))
	}
	for _, work := range d.running {
		if work.Record.DocID != "behind" {
			t.Errorf("job of document %s runs", work.Record.DocID)
		}
	}
}
