package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// TestRemovedJobStopsInOrder: the run keeps its slot until it has written its last checkpoint, or is killed, and
// nothing is stored for it.
func TestRemovedJobStopsInOrder(t *testing.T) {
	for _, stops := range []bool{true, false} {
		w := newWorld(t)
		w.putMany(2, true)
		n := w.start("n1", nil)
		n.runOf("r000")
		n.hold = func(q Request) bool {
			if held, is := q.(HeldRequest); is {
				t.Errorf("asked %s", held)
			}
			return false
		}
		w.put("r000", `{"_deleted":true}`)
		w.pass(10 * time.Millisecond)
		if n.Running() != 2 || len(n.stopped) != 1 {
			t.Errorf("%d run, %d stop", n.Running(), len(n.stopped))
		}
		if stops {
			n.stopAll()
		} else {
			n.step(RunProgress{Run: n.runOf("r000")})
			w.pass(n.cfg.StopTimeout)
		}
		if killed := slices.Contains(n.notes, "killed"); n.Running() != 1 || killed == stops {
			t.Errorf("%d run, killed %v, stops %v", n.Running(), killed, stops)
		}
		n.runOf("r001")
	}
}

// TestRemovedAfterLostLease: the node is told at once of a job that is removed under its second lease, though it still
// waits for such news under the first.
func TestRemovedAfterLostLease(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	w.down = true
	w.pass(n.cfg.ActivityTimeout)
	w.down = false
	w.pass(time.Minute)
	run := n.runOf("r000")
	w.put("r000", `{"_deleted":true}`)
	w.pass(10 * time.Millisecond)
	if !slices.Contains(n.notes, "lease_lost") || !n.stopped[run] {
		t.Errorf("stopped %v, notes %v", n.stopped, n.notes)
	}
}

// TestLostLeaseKills: other workers may run the jobs, so no run writes another checkpoint.
func TestLostLeaseKills(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	w.pass(time.Second)
	w.do(func(tx kv.Tx) error {
		_, err := w.s.Jobs.Expire(tx, n.worker, nil, 10)
		return err
	})
	n.lookOwned()
	n.step(Wake{})
	w.pass(10 * time.Millisecond)
	if len(n.stopped) != 0 || !slices.Contains(n.notes, "lease_lost") {
		t.Errorf("%d stop, notes %v", len(n.stopped), n.notes)
	}
}

// TestReplacedJobRunsAnew: the new run begins when the old one has written its last checkpoint.
func TestReplacedJobRunsAnew(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	old := n.runOf("r")
	w.put("r", `{"source":"http://h/c","target":"http://h/b"}`)
	w.pass(10 * time.Millisecond)
	if id := n.runOf("r"); id != old || n.Running() != 2 || !n.stopped[old] {
		t.Errorf("runs %v, %d slots", n.running, n.Running())
	}
	n.stopAll()
	w.pass(10 * time.Millisecond)
	if id := n.runOf("r"); id == old || n.running[id].Replication.Source.URL != "http://h/c/" || n.Running() != 1 {
		t.Errorf("runs %v", n.running)
	}
	n.step(RunEnded{Run: old}) // comes late, and is nothing to anybody
	if n.Running() != 1 {
		t.Error("the old run ended the new one")
	}
}

// TestReplacedAgain: a job that changes or goes while its new run waits for the old one leaves nothing behind.
func TestReplacedAgain(t *testing.T) {
	for _, last := range []string{`{"source":"http://h/d","target":"http://h/b"}`, `{"_deleted":true}`} {
		w := newWorld(t)
		w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
		n := w.start("n1", nil)
		old := n.runOf("r")
		w.put("r", `{"source":"http://h/c","target":"http://h/b"}`)
		w.pass(10 * time.Millisecond)
		w.put("r", last)
		w.pass(10 * time.Millisecond)
		n.endRun(old, replication.Stopped)
		w.pass(10 * time.Millisecond)
		for id, s := range n.running {
			if id == old || s.Replication.Source.URL == "http://h/c/" {
				t.Errorf("%s runs", s.Replication.Source.URL)
			}
		}
		if want := map[bool]int{true: 0, false: 1}[last == `{"_deleted":true}`]; n.Running() != want {
			t.Errorf("%d run, want %d", n.Running(), want)
		}
	}
}

// TestJobTakenUnheard: a job that the store says the node holds, of an accept that the node never heard of, runs,
// unless it is taken away before it is read.
func TestJobTakenUnheard(t *testing.T) {
	for _, gone := range []bool{false, true} {
		w := newWorld(t)
		n := w.start("n1", nil)
		w.pass(time.Second)
		w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
		w.do(func(tx kv.Tx) error {
			_, err := w.s.Accept(tx, n.worker, "n1", jobs.Demand{Batch: n.batch, Max: 1}, w.now)
			return err
		})
		n.hold = func(q Request) bool { _, is := q.(Resume); return is }
		n.lookOwned()
		n.step(Wake{})
		if gone {
			w.put("r", `{"_deleted":true}`)
		}
		n.hold = nil
		n.step(n.perform(n.held[0]))
		w.pass(10 * time.Millisecond)
		if want := map[bool]int{false: 1}[gone]; n.Running() != want || count(n.notes, "resumed") != want {
			t.Errorf("gone %v: %d run, notes %v", gone, n.Running(), n.notes)
		}
		w.pass(time.Minute)
		if replaced := count(n.notes, "halted"); replaced != 0 {
			t.Errorf("gone %v: the run was replaced %d times by the next accepts: %v", gone, replaced, n.notes)
		}
		w.put("next", `{"source":"http://h/c","target":"http://h/d"}`)
		w.pass(time.Minute)
		n.runOf("next") // the node goes on to take jobs
	}
}

// TestJobsTakenUnheard: all jobs of an accept that the node never heard of run at once. The first of them uses up the
// number of the accept, so no other accept would bring the rest, also one that is in flight when the node looks.
func TestJobsTakenUnheard(t *testing.T) {
	for _, hungry := range []bool{false, true} {
		w := newWorld(t)
		n := w.start("n1", nil)
		w.pass(time.Second)
		const some = 5
		w.putMany(some, true)
		w.do(func(tx kv.Tx) error {
			_, err := w.s.Accept(tx, n.worker, "n1", jobs.Demand{Batch: n.batch, Max: some}, w.now)
			return err
		})
		n.hold = func(q Request) bool { _, is := q.(Resume); return is && len(n.held) == 0 }
		n.lookOwned()
		n.step(Wake{})
		n.hungry = hungry
		n.step(n.perform(n.held[0]))
		w.pass(10 * time.Second)
		if n.Running() != some || count(n.notes, "resumed") != some {
			t.Errorf("hungry %v: %d run, notes %v", hungry, n.Running(), n.notes)
		}
	}
}

// TestJobTakenLate: a job that an early accept takes when others have brought jobs since runs, and the node
// goes on to take jobs under new numbers, so that none comes twice.
func TestJobTakenLate(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	for _, id := range []string{"a", "b"} {
		w.put(id, `{"source":"http://h/`+id+`","target":"http://h/b"}`)
		w.pass(time.Second)
	}
	n.endRun(n.runOf("a"), replication.Completed)
	w.pass(time.Second)
	w.put("r", `{"source":"http://h/r","target":"http://h/b"}`)
	w.do(func(tx kv.Tx) error {
		_, err := w.s.Accept(tx, n.worker, "n1", jobs.Demand{Batch: 0, Max: 1}, w.now)
		return err
	})
	n.lookOwned()
	n.step(Wake{})
	w.put("c", `{"source":"http://h/c","target":"http://h/b"}`)
	w.pass(time.Minute)
	if n.Running() != 3 || count(n.notes, "resumed") != 1 || count(n.notes, "halted") != 0 {
		t.Errorf("%d run, notes %v", n.Running(), n.notes)
	}
}

// TestOwnedBeforeAccepted: a list of the worker's jobs may be older than a job that came at the same moment. The run of
// that job goes on.
func TestOwnedBeforeAccepted(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	w.pass(time.Minute)
	n.hold = func(q Request) bool { _, is := q.(ListOwned); return is }
	n.step(Notified{Topic: WorkerCalls})
	list := n.perform(n.held[0])
	w.put("r", `{"source":"http://h/r","target":"http://h/b"}`)
	n.step(Notified{Topic: ReadyJobs})
	n.step(list)
	n.runOf("r")
	if count(n.notes, "halted") != 0 {
		t.Errorf("notes %v", n.notes)
	}
}

// TestCallUnheard: a job that was taken from the worker is noticed with the next heartbeat, without a notification.
func TestCallUnheard(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", func(c *Config) { c.ActivityTimeout = time.Minute })
	w.put("r", `{"source":"http://h/r","target":"http://h/b"}`)
	w.pass(5 * time.Minute)
	run := n.runOf("r")
	n.hold = func(q Request) bool { _, is := q.(Beat); return is }
	for len(n.held) == 0 {
		w.pass(time.Second)
	}
	n.awaits = slices.DeleteFunc(n.awaits, func(a Await) bool { return a.Topic == WorkerCalls })
	w.put("r", `{"_deleted":true}`)
	n.hold = nil
	n.step(n.perform(n.held[0]))
	if !n.stopped[run] {
		t.Errorf("the run goes on: %v", n.notes)
	}
}

// TestNewsOfGoneRuns: what a run tells that the node does not know, or has given up, is nothing to anybody.
func TestNewsOfGoneRuns(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	run := n.runOf("r000")
	n.step(RunEnded{Run: run, End: replication.End{Cause: replication.Completed}})
	asked := 0
	n.hold = func(Request) bool { asked++; return false }
	for _, id := range []uint64{run, 999} {
		for _, ev := range []Event{
			RunIdentifies{Run: id, ID: "x"}, RunProgress{Run: id}, RunEnded{Run: id}, RunReadsRefused{Run: id},
			RunRefused{Run: id, Findings: []replication.Finding{{}}},
		} {
			n.step(ev)
		}
	}
	if asked > 0 || n.Running() != 0 || w.state("r000") != jobstore.Completed {
		t.Errorf("%d requests, %d run, the job is %s", asked, n.Running(), w.state("r000"))
	}
}

// TestSlowRunsAreKilledTogether: of runs that are due at once none is passed over.
func TestSlowRunsAreKilledTogether(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	w.putMany(4, true)
	w.pass(2 * time.Second)
	for i := range 4 {
		w.put(fmt.Sprintf("r%03d", i), `{"_deleted":true}`)
	}
	for len(n.stopped) < 4 {
		w.pass(max(time.Millisecond, n.Deadline().Sub(w.now)))
	}
	w.pass(n.cfg.StopTimeout)
	if len(n.running) > 0 || len(n.runs) > 0 {
		t.Errorf("%d runs go on, and %d slots are taken", len(n.running), len(n.runs))
	}
}

// TestEachSlowStopIsKilled: in its time, whatever others were asked to stop later.
func TestEachSlowStopIsKilled(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	first := n.runOf("r000")
	w.put("r000", `{"_deleted":true}`)
	w.pass(time.Millisecond)
	ends := w.now.Add(n.cfg.StopTimeout)
	w.pass(time.Second)
	w.put("r001", `{"_deleted":true}`)
	w.pass(time.Millisecond)
	for n.Deadline() < ends.Add(-time.Millisecond) {
		w.pass(n.Deadline().Sub(w.now))
	}
	if _, on := n.running[first]; !on || n.Deadline() > ends {
		t.Errorf("the first run is on: %v, and the next step %s late", on, n.Deadline().Sub(ends))
	}
}

// TestUnreadableUnheard: a job that an accept took without being heard cannot be read. The next accept, which begins
// with the number of that one, goes on under another, and takes other jobs.
func TestUnreadableUnheard(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", nil)
	w.pass(time.Second)
	w.put("odd", `{"source":"http://h/a","target":"http://h/b"}`)
	w.do(func(tx kv.Tx) error {
		_, err := w.s.Accept(tx, n.worker, "n", jobs.Demand{Batch: n.batch, Max: 1}, w.now)
		return err
	})
	w.damage(w.rowOf("odd", 0), []byte{0xff})
	w.put("other", `{"source":"http://h/c","target":"http://h/d"}`)
	w.pass(30 * time.Second)
	n.runOf("other")
}

// TestContradictedUnheard: the header of a job that an accept took without being heard says that the job is over, or
// waits, as of a store of which a row was put back. The node goes on, and runs the job once the header is right.
func TestContradictedUnheard(t *testing.T) {
	for _, of := range []string{"over", "odd"} {
		w := newWorld(t)
		w.put("over", `{"source":"http://h/a","target":"http://h/b"}`)
		n := w.start("n", nil)
		w.pass(time.Second)
		n.endRun(n.runOf("over"), replication.Completed)
		w.put("odd", `{"source":"http://h/c","target":"http://h/d"}`)
		header := w.damage(w.rowOf(of), nil)
		w.damage(w.rowOf(of), header)
		w.do(func(tx kv.Tx) error {
			_, err := w.s.Accept(tx, n.worker, "n", jobs.Demand{Batch: n.batch, Max: 1}, w.now)
			return err
		})
		was := w.damage(w.rowOf("odd"), header)
		w.put("other", `{"source":"http://h/e","target":"http://h/f"}`)
		w.pass(time.Minute)
		n.runOf("other")
		w.damage(w.rowOf("odd"), was)
		w.pass(10 * time.Minute)
		n.runOf("odd")
		w.audit()
	}
}

// TestPausedUnheard: a job that an accept took without being heard is paused before the node learns of it. Its run is
// not even begun.
func TestPausedUnheard(t *testing.T) {
	const job = `{"source":"http://h/a","target":"http://h/b","continuous":true,"paused":%v}`
	w := newWorld(t)
	n := w.start("n", nil)
	w.pass(time.Second)
	n.hold = func(q Request) bool { _, accepts := q.(Accept); return accepts }
	w.put("late", fmt.Sprintf(job, false))
	w.pass(time.Second)
	n.hold = nil
	n.perform(n.held[0])
	w.put("late", fmt.Sprintf(job, true))
	n.step(n.perform(n.held[0]))
	w.pass(time.Minute)
	if n.nextRun != 1 || len(n.running) > 0 || len(n.stopped) > 0 {
		t.Errorf("of %d runs %d are under way, and %d were stopped", n.nextRun, len(n.running), len(n.stopped))
	}
	w.audit()
}

// TestRemovedWhileItWrites: a job is removed while its run stores its progress. The answer to that means nothing any
// more, and the log is told once that the run stops, however often the node looks. The run of a new job of that name
// begins after that, and does not pay for the wait.
func TestRemovedWhileItWrites(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n", nil)
	w.pass(time.Second)
	run := n.runOf("r000")
	n.hold = func(q Request) bool { _, records := q.(Record); return records }
	n.step(RunProgress{Run: run})
	answer := n.perform(n.held[0])
	w.put("r000", `{"_deleted":true}`)
	n.lookOwned()
	n.step(Wake{})
	n.step(answer)
	w.put("r000", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	w.pass(3 * time.Second)
	if halts := count(n.notes, "halted"); halts != 1 || !n.stopped[run] || n.Running() != 2 {
		t.Errorf("%d notes of the end, %d runs", halts, n.Running())
	}
	w.now = w.now.Add(time.Second)
	n.endRun(run, replication.Stopped)
	if r := n.runs[0]; r.start != nil || r.since != w.now || r.charged != w.now || r.grown != w.now {
		t.Errorf("the next run has been there since %s, and is charged from %s; now is %s", r.since, r.charged, w.now)
	}
	w.audit()
}
