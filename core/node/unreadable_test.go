package node

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
)

// TestUnreadableOfOwn: a demand, or a mark to stop, of one job of a node cannot be read. The node hears of cancels of
// the others all the same, tells operators, and goes on with the run; when the worker is lost, the others come back.
func TestUnreadableOfOwn(t *testing.T) {
	for _, marked := range []bool{false, true} {
		w := newWorld(t)
		w.putMany(3, true)
		n := w.start("n1", nil)
		w.pass(time.Second)
		odd, own := n.runOf("r000"), n.runs[0].held
		w.do(func(tx kv.Tx) error {
			key := w.s.Keys.Retry.Pack(own.JobID)
			if marked {
				key = w.s.Keys.Jobs.Owned.Pack(own.Lock.Worker, own.Lock.Batch, own.JobID)
			}
			tx.Set(key, []byte{0xff})
			return nil
		})
		run := n.runOf("r001")
		w.put("r001", `{"_deleted":true}`)
		w.pass(10 * time.Second)
		if !n.stopped[run] || n.stopped[odd] || !slices.Contains(n.notes, "job_unreadable") {
			t.Errorf("marked %v: stopped %v; %v", marked, n.stopped, n.texts)
		}
		n.stopAll()
		w.pass(10 * time.Minute)
		n.paused = true
		other := w.start("other", nil)
		w.pass(10 * time.Minute)
		if other.runOf("r002"); len(other.running) < 1 {
			t.Errorf("marked %v: %d run; %v", marked, len(other.running), other.texts)
		}
	}
}

// TestUnreadableOfRun: the record of a job that runs cannot be read when its run ends. Operators are told which job it
// is, others go on, and it is not taken for an outage of the store: a real one is told, and that it is over. The end is
// asked for more and more seldom.
func TestUnreadableOfRun(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	n := w.start("n1", nil)
	w.pass(time.Second)
	key := w.rowOf("r000", 0)
	was := w.damage(key, []byte{0xff})
	asked := 0
	n.hold = func(q Request) bool {
		if _, ends := q.(Crash); ends {
			asked++
		}
		return false
	}
	n.endRun(n.runOf("r000"), replication.Crashed)
	w.pass(3 * time.Minute)
	if asked > 50 {
		t.Errorf("the end is asked for %d times in three minutes", asked)
	}
	if told := count(n.notes, "job_unreadable"); told < 1 || told > 8 || slices.Contains(n.notes, "store_error") {
		t.Errorf("operators are told %d times: %v", told, n.texts)
	}
	w.down = true
	w.pass(time.Second * 12)
	w.down = false
	w.pass(3 * time.Minute)
	if !slices.Contains(n.notes, "store_error") || !slices.Contains(n.notes, "store_back") {
		t.Errorf("an outage is told as %v", n.texts)
	}
	w.damage(key, was)
	w.pass(10 * time.Minute)
	if n.Running() != 3 {
		t.Errorf("%d jobs run once all can be read; %v", n.Running(), n.texts)
	}
	w.audit()
}

// TestUnreadableDocument: the document of a run that has ended cannot be read, so that it cannot be told of the end.
// The run gives its slot to another job all the same, the job says why it is not over, and is once it can be read.
func TestUnreadableDocument(t *testing.T) {
	for _, cause := range []replication.Cause{replication.Completed, replication.Failed} {
		w := newWorld(t)
		w.putMany(2, false)
		n := w.start("n", func(c *Config) { c.MaxJobs = 1 })
		w.pass(5 * time.Second)
		doc, other := "r000", "r001"
		if w.state(doc) != jobstore.Running {
			doc, other = other, doc
		}
		var key []byte
		w.do(func(tx kv.Tx) error {
			db, err := w.s.Docs.Open(tx, "_replicator")
			if err == nil {
				reads, _ := w.s.Docs.Reads(db.Instance, doc)
				key = reads[0]
			}
			return err
		})
		was := w.damage(key, []byte{0xff})
		run := n.runOf(doc)
		delete(n.running, run)
		numbers := replication.Info{Counters: checkpoint.Counters{DocsWritten: 3}}
		n.step(RunEnded{Run: run, End: replication.End{Cause: cause, Info: numbers}})
		w.pass(time.Minute)
		if w.state(other) != jobstore.Running || w.state(doc) != jobstore.Crashing {
			t.Errorf("%v: %s is %s, and %s %s; %v", cause, doc, w.state(doc), other, w.state(other), n.texts)
		}
		if got := w.record(doc); got.Error != "document_unreadable" || got.Stats.DocsWritten != 3 {
			t.Errorf("%v: the job says %q, and has written %d", cause, got.Error, got.Stats.DocsWritten)
		}
		w.damage(key, was)
		n.endRun(n.runOf(other), cause)
		w.pass(5 * time.Minute)
		n.endRun(n.runOf(doc), cause)
		w.pass(time.Second)
		if !w.state(doc).Terminal() {
			t.Errorf("%v: %s is %s in the end; %v", cause, doc, w.state(doc), n.texts)
		}
		w.audit()
	}
}

// TestUnreadableOfDraining: a node that drains leaves, though a job that it ran cannot be read, and its progress could
// not be stored before. The others go on elsewhere, and so does this one once it can be read.
func TestUnreadableOfDraining(t *testing.T) {
	for _, part := range [][]any{nil, {0}} {
		unreadableOfDraining(t, part, func(*driven) {})
		unreadableOfDraining(t, part, func(n *driven) { n.step(RunProgress{Run: n.runOf("r000")}) })
	}
}

func unreadableOfDraining(t *testing.T, part []any, before func(*driven)) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n", nil)
	w.pass(time.Minute)
	key := w.rowOf("r000", part...)
	was := w.damage(key, []byte{0xff})
	before(n)
	n.step(Drain{})
	n.stopAll()
	w.pass(time.Minute)
	if !n.exited || !slices.Contains(n.notes, "job_unreadable") {
		t.Fatalf("%v: it stays with %d jobs: %v", part, n.Running(), n.texts)
	}
	other := w.start("other", nil)
	w.pass(time.Minute)
	if other.Running() != 1 {
		t.Errorf("%v: of the rest %d run", part, other.Running())
	}
	w.damage(key, was)
	w.pass(10 * time.Minute)
	if other.Running() != 2 {
		t.Errorf("%v: %d run once all can be read: %v", part, other.Running(), other.texts)
	}
	w.audit()
}

// TestClaimOfUnreadable: a job turns out to be a replication whose other job cannot be read, so its run cannot begin.
// It keeps its slot from no other job.
func TestClaimOfUnreadable(t *testing.T) {
	w := newWorld(t)
	w.put("one", `{"source":"http://h/a","target":"http://h/b","continuous":true}`)
	w.put("two", `{"source":"http://h/a","target":"http://h/b","continuous":true,"filter":"d/f"}`)
	var rec *jobstore.Record
	w.do(func(tx kv.Tx) (err error) {
		rec, err = w.s.Record(tx, jobstore.DocumentJobs(tuple.UUID{1})+"one")
		return err
	})
	was := w.damage(w.rowOf("one", 0), []byte{0xff})
	n := w.start("n", func(c *Config) { c.MaxJobs = 1 })
	w.pass(5 * time.Second)
	n.step(RunIdentifies{Run: n.runOf("two"), ID: rec.RepID, Base: rec.BaseID})
	w.put("three", `{"source":"http://h/c","target":"http://h/b","continuous":true}`)
	ran := false
	for range 5 {
		w.pass(time.Minute)
		ran = ran || w.state("three") == jobstore.Running
	}
	if !ran {
		t.Errorf("three has no turn, two is %s; %v", w.state("two"), n.texts)
	}
	w.damage(w.rowOf("one", 0), was)
	w.audit()
}

// TestPauseAfterUnreadable: a request that met a job which cannot be read is repeated without it after a short pause,
// however long the pauses of an outage before have become, and not at once.
func TestPauseAfterUnreadable(t *testing.T) {
	n := New(Config{Settings: DefaultSettings(), Exclusive: true})
	var ask Ask
	step := func(ev Event) {
		now := n.clock
		now.Steady = now.Steady.Add(10 * time.Millisecond)
		for _, e := range n.Step(now, ev) {
			if a, is := e.(Ask); is {
				if _, is := a.Request.(Promote); is {
					ask = a
				}
			}
		}
	}
	pause := func(e Done) time.Duration {
		e.ID, e.Fault = ask.ID, StoreDown
		step(e)
		since := n.clock.Steady
		for ask.ID == e.ID {
			step(Wake{})
		}
		return n.clock.Steady.Sub(since)
	}
	step(Start{})
	for range 4 {
		pause(Done{})
	}
	if long := pause(Done{}); long < 2*time.Second {
		t.Fatalf("in an outage the fifth pause is %s", long)
	}
	if short := pause(Done{Unreadable: "r"}); short < firstPause/2 || short > firstPause+10*time.Millisecond {
		t.Errorf("the pause is %s", short)
	}
}
