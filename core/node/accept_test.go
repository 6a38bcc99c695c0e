package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
)

// TestAcceptOfLargeRecords: jobs whose records do not fit into one transaction together run all the same, and so do the
// others.
func TestAcceptOfLargeRecords(t *testing.T) {
	w := newWorld(t)
	long := "http://p/" + strings.Repeat("&", 60_000) // six bytes each in a record
	for i := range 20 {
		w.put(fmt.Sprintf("large%02d", i),
			fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b%d","proxy":%q}`, i, i, long))
	}
	w.putMany(30, true)
	d := w.start("n", nil)
	w.pass(time.Minute)
	if len(d.running) != 50 || slices.Contains(d.notes, "store_error") {
		t.Errorf("%d of 50 jobs run; %v", len(d.running), d.notes)
	}
	w.audit()
}

// TestLongNames: jobs of documents with the longest names, in which a byte takes two in a key, run, and come back when
// their worker is lost, though many of them do not fit into one transaction.
func TestLongNames(t *testing.T) {
	w := newWorld(t)
	const some = 101 // more than are taken, or given back, at once
	for i := range some {
		name := fmt.Sprint(strings.Repeat("\x00", 4000), i)
		w.put(name, fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b"}`, i))
	}
	one := w.start("n1", nil)
	w.pass(time.Minute)
	two := w.start("n2", nil)
	one.paused = true
	w.pass(w.handoverBound() + time.Minute)
	for _, d := range []*driven{one, two} {
		if len(d.running) != some || slices.Contains(d.notes, "store_error") {
			t.Errorf("%s: %d of %d jobs run; %v", d.name, len(d.running), some, d.texts)
		}
	}
	w.audit()
}

// TestUnreadableJobs: jobs of which a row cannot be read keep no others from being taken, and run once the rows are put
// right.
func TestUnreadableJobs(t *testing.T) {
	w := newWorld(t)
	w.putMany(8, true)
	var ids []string
	keys := w.s.Keys
	w.do(func(tx kv.Tx) error {
		rows, err := tx.GetRange(keys.Jobs.Ready.Range(), kv.RangeOptions{Limit: 4})
		for _, row := range rows {
			ids = append(ids, string(row.Value))
		}
		return err
	})
	damaged := [][]byte{
		keys.Jobs.Job.Pack(ids[0]), keys.Jobs.Job.Pack(ids[1], int64(0)), keys.Spec.Pack(ids[2], int64(0)),
	}
	was := make([][]byte, len(damaged))
	w.do(func(tx kv.Tx) (err error) {
		for i, key := range damaged {
			if was[i], err = tx.Get(key); err != nil || was[i] == nil {
				return fmt.Errorf("row %x: %w", key, err)
			}
			tx.Set(key, []byte{0xff})
		}
		return nil
	})
	d := w.start("n", func(c *Config) { c.MaxJobs = 6; c.MaxAcceptors = 1 })
	w.pass(10 * time.Second)
	if len(d.running) != 5 {
		t.Fatalf("%d of 5 jobs run; %v", len(d.running), d.texts)
	}
	w.pass(10 * time.Minute)
	if n := count(d.notes, "job_unreadable"); n < 3 || n > 20 {
		t.Errorf("operators are told %d times", n)
	}
	w.do(func(tx kv.Tx) error {
		for i, key := range damaged {
			tx.Set(key, was[i])
		}
		return nil
	})
	w.pass(10 * time.Minute)
	if len(d.running) != 6 {
		t.Errorf("%d jobs run once all can be read; %v", len(d.running), d.texts)
	}
	w.audit()
}

// TestBehindDeletedDatabases: a node that found nothing but jobs of deleted databases looks behind them at once, for
// however long, stays there, and begins at the head again with the next poll.
func TestBehindDeletedDatabases(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", func(c *Config) { c.PollInterval = 5 * time.Second })
	w.pass(10 * time.Second)
	var asked []string
	d.hold = func(q Request) bool {
		accept, is := q.(Accept)
		if is {
			asked = append(asked, accept.Demand.Behind)
		}
		return is
	}
	answer := func(a Accepted) { d.step(Done{ID: d.held[len(asked)-1].ID, Result: a}) }
	d.hungry = true
	d.step(Wake{})
	for _, passed := range []string{"b", "e", "h"} { // longer than a poll takes
		w.pass(4 * time.Second)
		answer(Accepted{Passed: passed})
	}
	answer(Accepted{})
	if !d.awaiting[ReadyJobs] {
		t.Error("it does not wait to be told of jobs")
	}
	d.timers.poll = w.now.Add(time.Second)
	d.hungry = true
	d.step(Wake{})
	answer(Accepted{})
	w.pass(2 * time.Second)
	if want := []string{"", "b", "e", "h", "h", ""}; !slices.Equal(asked, want) {
		t.Errorf("accepts look behind %q, want %q", asked, want)
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

// TestJobBehindDropped: a job behind many jobs of a deleted database runs before a sweep has removed any of them, and
// so does one that comes to stand before them later; none of the others ever does.
func TestJobBehindDropped(t *testing.T) {
	w := newWorld(t)
	w.putMany(2*jobs.MaxPassed+100, true)
	w.do(func(tx kv.Tx) error {
		w.s.Drop(tx, tuple.UUID{1})
		return w.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	before := w.now.Add(-time.Second)
	w.now = w.now.Add(time.Second)
	w.do(func(tx kv.Tx) error { return w.s.Docs.Create(tx, "_replicator", tuple.UUID{2}, w.now) })
	w.put("behind", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	d := w.start("n", func(c *Config) { c.PollInterval = 5 * time.Second })
	running := func() (list []string) {
		for _, work := range d.running { // order does not matter: it is sorted
			list = append(list, work.Record.DocID)
		}
		slices.Sort(list)
		return list
	}
	w.pass(3 * time.Second)
	if got := running(); !slices.Equal(got, []string{"behind"}) {
		t.Fatalf("%q run", got)
	}
	now := w.now
	w.now = before
	w.put("before", `{"source":"http://h/e","target":"http://h/f","continuous":true}`)
	w.now = now
	w.pass(6 * time.Second)
	if got := running(); !slices.Equal(got, []string{"before", "behind"}) {
		t.Errorf("%q run", got)
	}
}

// TestHeadAfterPassing: a node that had no slot left while it passed over jobs of a deleted database begins at the head
// of the queue when it has one again.
func TestHeadAfterPassing(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", func(c *Config) { c.MaxJobs = 1 })
	w.put("first", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	d.hold = func(q Request) bool { _, is := q.(Accept); return is }
	w.pass(time.Millisecond)
	fewer, more := d.cfg.Settings, d.cfg.Settings
	fewer.MaxJobs = 0
	d.step(Configure{fewer})
	d.step(Done{ID: d.held[0].ID, Result: Accepted{Passed: "\xff"}})
	w.pass(d.cfg.PollInterval)
	d.hold = nil
	d.step(Configure{more})
	if got := w.state("first"); got != jobstore.Running {
		t.Errorf("the first job is %s", got)
	}
}

// TestRotationBehindDropped: a look at the queue goes on behind jobs of a deleted database, so that runs give way for
// the jobs there.
func TestRotationBehindDropped(t *testing.T) {
	w := newWorld(t)
	w.putMany(jobs.MaxPassed+100, true)
	w.do(func(tx kv.Tx) error {
		w.s.Drop(tx, tuple.UUID{1})
		return w.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	w.now = w.now.Add(time.Second)
	w.do(func(tx kv.Tx) error { return w.s.Docs.Create(tx, "_replicator", tuple.UUID{2}, w.now) })
	d := w.start("n", func(c *Config) { c.MaxJobs, c.MaxChurn, c.Interval = 0, 1, time.Hour })
	var places []int // of the answers
	w.pass(10 * time.Second)
	d.hold = func(q Request) bool {
		survey, is := q.(Survey)
		if is {
			places = append(places, len(survey.Behind))
		}
		return false
	}
	look := func(waiting bool, surveys int) {
		t.Helper()
		places = nil
		d.timers.rotate = w.now
		d.step(Wake{})
		w.pass(time.Second)
		if len(places) != surveys || places[0] != 0 || places[1] == 0 || d.share.waiting != waiting {
			t.Errorf("surveys begin %v bytes behind the head, jobs wait: %t", places, d.share.waiting)
		}
	}
	look(false, 2)
	w.put("behind", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	look(true, 2)
}

// TestPatienceWithOtherClock: jobs that are left to a node which stands still are taken after a moment, whatever the
// wall clock says.
func TestPatienceWithOtherClock(t *testing.T) {
	w := newWorld(t)
	a, b := w.start("a", nil), w.start("b", nil)
	a.skew = time.Hour
	w.pass(10 * time.Second)
	b.paused = true
	w.putMany(20, true)
	if w.pass(patience / 2); a.Running() == 20 {
		t.Error("no job is left to the other node")
	}
	if w.pass(2 * patience); a.Running() != 20 {
		t.Errorf("%d of 20 jobs run", a.Running())
	}
}

// TestSurveyFindsJobs: a node that was not told of jobs which are ready finds them with its next look at the queue.
func TestSurveyFindsJobs(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", func(c *Config) { c.PollInterval, c.Interval = time.Hour, time.Minute })
	w.pass(10 * time.Second)
	d.awaits = nil // the watch is lost
	w.putMany(1, true)
	if w.pass(2 * time.Minute); d.Running() != 1 {
		t.Error("the job does not run")
	}
}

// TestHeldJobsAtTheHead: many jobs under a hold keep those behind them in the queue from running for no longer than
// it takes to park them, many at once, even if a single slot is free.
func TestHeldJobsAtTheHead(t *testing.T) {
	for _, slots := range []int{1, 500} {
		testHeldJobs(t, slots)
	}
}

func testHeldJobs(t *testing.T, slots int) {
	w := newWorld(t)
	w.putMany(3*AcceptLimit, true)
	w.now = w.now.Add(time.Second)
	w.put("free", `{"source":"http://free/a","target":"http://free/b"}`)
	w.do(func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: w.s, Tx: tx, Now: w.now}.MakeHold(jobstore.Hold{Server: "h"})
		return err
	})
	var last Accept
	d, accepts := w.start("n", func(c *Config) { c.MaxJobs, c.Settling = slots, time.Second }), 0
	d.hold = func(q Request) bool {
		if a, is := q.(Accept); is {
			accepts, last = accepts+1, a
		}
		return false
	}
	w.pass(1100 * time.Millisecond)
	if got := w.state("free"); got != jobstore.Running || accepts > 6 {
		t.Errorf("with %d slots it is %s after %d accepts", slots, got, accepts)
	}
	d.endRun(d.runOf("free"), replication.Completed)
	if w.pass(2 * d.cfg.PollInterval); last.Demand.Look != 0 {
		t.Errorf("with %d slots an accept looks at %d jobs, and none is held any more", slots, last.Demand.Look)
	}
}

// TestRunsUnderNewHold: a hold stops the runs that it matches, by their database, their source or their target, and no
// others.
func TestRunsUnderNewHold(t *testing.T) {
	for name, hold := range map[string]jobstore.Hold{
		"source": {Server: "from"}, "target": {Server: "to"}, "database": {Database: "_replicator"}, "": {Server: "b"},
	} {
		w := newWorld(t)
		d := w.start("n", nil)
		w.put("r", `{"source":"http://from/a","target":"http://to/b","continuous":true}`)
		w.pass(time.Second)
		w.do(func(tx kv.Tx) error {
			_, err := jobstore.Operator{Store: w.s, Tx: tx, Now: w.now}.MakeHold(hold)
			return err
		})
		w.pass(time.Second)
		if stopped := d.stopped[d.runOf("r")]; stopped != (name != "") {
			t.Errorf("a hold %+v: the run is stopped: %v", hold, stopped)
		}
	}
}

// rowOf is the key of a row of a document's job: of its header, or with 0 of its record.
func (w *world) rowOf(doc string, part ...any) []byte {
	return w.s.Keys.Jobs.Job.Pack(append([]any{jobstore.DocumentJobs(tuple.UUID{1}) + doc}, part...)...)
}

// damage gives a row another value, and returns what it was.
func (w *world) damage(key, value []byte) (was []byte) {
	w.t.Helper()
	w.do(func(tx kv.Tx) (err error) {
		if was, err = tx.Get(key); err == nil && was == nil {
			err = fmt.Errorf("there is no row %x", key)
		}
		tx.Set(key, value)
		return err
	})
	return was
}

// TestUnreadableWait: a job that waits and cannot be read keeps no others from coming back after a crash, or from a
// hold that was lifted, and comes back itself once it can be read.
func TestUnreadableWait(t *testing.T) {
	for _, held := range []bool{false, true} {
		w := newWorld(t)
		w.putMany(3, true)
		hold := jobstore.Hold{Database: "_replicator"}
		by := func(tx kv.Tx) jobstore.Operator { return jobstore.Operator{Store: w.s, Tx: tx, Now: w.now} }
		d, key := w.start("n", nil), w.rowOf("r000")
		w.pass(time.Minute)
		if held {
			key = w.rowOf("r000", 0)
			w.do(func(tx kv.Tx) error { _, err := by(tx).MakeHold(hold); return err })
			w.pass(2 * time.Second)
			d.stopAll()
		} else {
			for i := range 3 {
				d.endRun(d.runOf(fmt.Sprintf("r%03d", i)), replication.Crashed)
			}
		}
		w.pass(time.Second)
		if len(d.running) != 0 {
			t.Fatalf("held %v: %d jobs run", held, len(d.running))
		}
		was := w.damage(key, []byte{0xff})
		w.do(func(tx kv.Tx) error { _, err := by(tx).LiftHold(hold.ID()); return err })
		w.pass(10 * time.Minute)
		if len(d.running) != 2 {
			t.Errorf("held %v: %d of 2 jobs came back; %v", held, len(d.running), d.texts)
		}
		w.damage(key, was)
		w.pass(10 * time.Minute)
		if len(d.running) != 3 {
			t.Errorf("held %v: %d jobs run once all can be read; %v", held, len(d.running), d.texts)
		}
		w.audit()
	}
}

// TestUnreadableOfVanished: a job whose header cannot be read, or is not that of a running one, keeps no others of a
// worker that vanished from coming back, and comes back itself once it is right.
func TestUnreadableOfVanished(t *testing.T) {
	for _, strange := range []bool{false, true} {
		w := newWorld(t)
		w.putMany(3, true)
		key, wrong := w.rowOf("r000"), []byte{0xff}
		if strange {
			wrong = w.damage(key, nil)
			w.damage(key, wrong)
		}
		first := w.start("first", nil)
		w.pass(time.Minute)
		was := w.damage(key, wrong)
		first.paused = true
		second := w.start("second", nil)
		w.pass(10 * time.Minute)
		if len(second.running) != 2 {
			t.Errorf("strange %v: %d of 2 jobs came back; %v", strange, len(second.running), second.texts)
		}
		w.damage(key, was)
		w.pass(10 * time.Minute)
		if len(second.running) != 3 {
			t.Errorf("strange %v: %d jobs run once all are right; %v", strange, len(second.running), second.texts)
		}
		w.audit()
	}
}
