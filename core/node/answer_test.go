package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// record is the record of a document's job.
func (w *world) record(doc string) *jobstore.Record {
	w.t.Helper()
	var rec *jobstore.Record
	w.do(func(tx kv.Tx) (err error) {
		rec, err = w.s.Record(tx, jobstore.DocumentJobs(tuple.UUID{1})+doc)
		return err
	})
	return rec
}

// TestEndWaitsForRecord: a run that ends while its numbers are being stored has its end stored after them.
func TestEndWaitsForRecord(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Record); return is }
	id := n.runOf("r")
	n.step(RunProgress{Run: id})
	n.endRun(id, replication.Completed)
	if len(n.held) != 1 || w.state("r") != jobstore.Running {
		t.Fatalf("%v are held, and it is %s", n.held, w.state("r"))
	}
	n.step(n.perform(n.held[0]))
	if w.state("r") != jobstore.Completed || n.Running() != 0 {
		t.Errorf("it is %s, and %d run", w.state("r"), n.Running())
	}
}

// TestRefusedDocumentsOnDemand: a run hears once that its refused documents are to be tried, as soon as an operator
// asks for it, also while it is to give way and finishes a document, and whatever the time of the demand before.
func TestRefusedDocumentsOnDemand(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n", nil)
	w.pass(time.Minute)
	run := n.runOf("r001")
	n.stays = true
	n.find(run).giveWay(n.Node)
	refusal := peer.Refusal{ID: "d", Rev: "1-a", Status: 403}
	n.step(RunRefused{Run: run, Findings: []replication.Finding{{Refusal: refusal}}})
	if stored := fmt.Sprint(run, " replication.Stored"); count(n.told, stored) != 1 {
		t.Errorf("once its list was stored the run was told %q", n.told) // it waits for that with its checkpoint
	}
	want := fmt.Sprint(run, " replication.TryRefused")
	for i, at := range []instant.Time{w.now, w.now.Add(-time.Hour)} { // the first is by a clock that is ahead
		w.do(func(tx kv.Tx) error {
			o := jobstore.Operator{Store: w.s, Tx: tx, Now: at}
			changed, err := o.Retry(jobstore.DocumentJobs(tuple.UUID{1})+"r001", "")
			if !changed {
				t.Error("there is nothing to try")
			}
			return err
		})
		w.pass(time.Second)
		for _, pause := range []time.Duration{0, time.Hour} {
			w.pass(pause)
			if count(n.told, want) != i+1 {
				t.Errorf("%s after demand %d runs were told %q", pause, i, n.told)
			}
		}
	}
}

// TestEveryEndStoresItsNumbers: a job has the numbers of its run, however the run ended.
func TestEveryEndStoresItsNumbers(t *testing.T) {
	for _, cause := range []replication.Cause{
		replication.Completed, replication.Stopped, replication.Changed, replication.Crashed,
	} {
		w := newWorld(t)
		w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
		n := w.start("n1", nil)
		end := replication.End{Cause: cause}
		end.Info.DocsRead = 7
		n.step(RunEnded{Run: n.runOf("r"), End: end})
		if got := w.record("r").Stats.DocsRead; got != 7 {
			t.Errorf("%s: it has read %d documents", cause, got)
		}
	}
}

// TestEveryEndSettlesItsTurn: what a run owes is put on its account by each request that ends a run.
func TestEveryEndSettlesItsTurn(t *testing.T) {
	for _, row := range registry {
		if _, ends := row.request.(EndsTurn); !ends {
			continue
		}
		w := newWorld(t)
		w.s.Config.Sharing.Policy = schedule.Tags
		w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
		n := w.start("n1", nil)
		work := n.running[n.runOf("r")]
		held, turn := Held{JobID: work.JobID, Lock: work.Lock}, jobstore.Turn{Place: work.Place, Owed: time.Hour}
		before := w.tail("_replicator")
		var q Request
		switch row.request.(type) {
		case Complete:
			q = Complete{Held: held, Turn: turn}
		case Crash:
			q = Crash{Held: held, Turn: turn}
		case Fail:
			q = Fail{Held: held, Turn: turn}
		case Requeue:
			q = Requeue{Held: held, Turn: turn}
		case StandBy:
			q = StandBy{Held: held, RepID: "another", Turn: turn}
		default:
			t.Fatalf("%T ends a run too", row.request)
		}
		if done := n.perform(Ask{Request: q}); done.Fault != Committed {
			t.Fatal(done)
		}
		if w.tail("_replicator") < before+int64(time.Hour/time.Microsecond) {
			t.Errorf("%s: the account's tail moved from %d to %d", q, before, w.tail("_replicator"))
		}
	}
}

// tail is the tag of an account's next job.
func (w *world) tail(account string) (tag int64) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error {
		raw, err := tx.Get(w.s.Keys.Tail.Pack(account))
		if err == nil {
			tag = int64(binary.LittleEndian.Uint64(append(slices.Clone(raw), make([]byte, 8)...)))
		}
		return err
	})
	return tag
}

// TestFailedForADocument: a job that fails for the sake of a document which its target refused lists it, and has the
// numbers of its last run.
func TestFailedForADocument(t *testing.T) {
	w := newWorld(t)
	w.put("a", `{"source":"http://h/a","target":"http://h/b","on_refusal":"fail"}`)
	d := w.start("n", nil)
	w.pass(10 * time.Second)
	end := replication.End{
		Cause: replication.Failed, Trouble: replication.Trouble{Error: "refused", Reason: "the target refused it"},
		Info:    replication.Info{Counters: checkpoint.Counters{DocsRead: 7}},
		Refused: &replication.Finding{Refusal: peer.Refusal{ID: "x", Rev: "1-a", Status: 403, Error: "forbidden"}},
	}
	d.step(RunEnded{Run: d.runOf("a"), End: end})
	w.pass(time.Second)
	rec := w.record("a")
	if rec.State != jobstore.Failed || rec.RefusedTotal() != 1 || rec.Stats.DocsRead != 7 {
		t.Errorf("%s, %d documents are listed, %d were read", rec.State, rec.RefusedTotal(), rec.Stats.DocsRead)
	}
}

// TestTakenJobIsLookedForOnce: a node that was told of a job that was taken away does not ask for its jobs
// again and again.
func TestTakenJobIsLookedForOnce(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	w.pass(time.Second)
	w.put("r000", `{"_deleted":true}`)
	asked := 0
	n.hold = func(q Request) bool {
		if _, is := q.(ListOwned); is {
			asked++
		}
		return false
	}
	for range 100 {
		w.pass(10 * time.Millisecond)
	}
	n.stopAll()
	if n.Running() != 1 || asked < 1 || asked > 2 {
		t.Errorf("%d run, and in a second the node asked %d times for its jobs", n.Running(), asked)
	}
}

// TestManyJobsOfSilentWorker: all jobs of a silent worker are given back at once, though one transaction takes
// only some of them.
func TestManyJobsOfSilentWorker(t *testing.T) {
	w := newWorld(t)
	w.putMany(2*DefaultBatches().Expire+1, true)
	one := w.start("n1", nil)
	w.pass(time.Second)
	two := w.start("n2", nil)
	one.paused = true
	for len(two.running) == 0 {
		w.pass(time.Second)
	}
	w.pass(time.Second)
	if n := len(two.running); n != 2*DefaultBatches().Expire+1 {
		t.Errorf("a second after the first of them %d run", n)
	}
}

// TestFailForARefusal: a job that fails for the sake of a refused document lists it, with the numbers of its run.
func TestFailForARefusal(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b","on_refusal":"fail"}`)
	n := w.start("n1", nil)
	work := n.running[n.runOf("r")]
	refused := replication.Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Status: 403}}
	n.perform(Ask{Request: Fail{Held: Held{work.JobID, work.Lock}, Trouble: replication.Trouble{Error: "refused"},
		Stats: &jobstore.Stats{DocsRead: 7}, Refused: &refused}})
	if v := w.record("r").View(); v.State != jobstore.Failed || v.Refused != 1 || w.record("r").Stats.DocsRead != 7 {
		t.Errorf("%+v", v)
	}
}

// TestHaltedRequests: a request of a run whose job is gone, or runs under another lock of this worker, is answered as
// canceled; one whose worker was expired is halted.
func TestHaltedRequests(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	work := n.running[n.runOf("r")]
	old := Held{JobID: work.JobID, Lock: work.Lock}
	old.Lock.Batch++
	expired := Held{JobID: work.JobID, Lock: jobs.Lock{Worker: "expired", Batch: 1}}
	gone := Held{JobID: "gone", Lock: work.Lock}
	for held, want := range map[Held]Outcome{old: Canceled, gone: Canceled, expired: Halted} {
		for _, q := range []Request{
			Record{Held: held}, Complete{Held: held}, Crash{Held: held}, Fail{Held: held}, Requeue{Held: held},
			Claim{Held: held, RepID: "a"}, Resume{held},
		} {
			if done := n.perform(Ask{Request: q}); done.Fault != want {
				t.Errorf("%s: %s", q, done)
			}
		}
	}
	if w.state("r") != jobstore.Running {
		t.Errorf("the job is %s", w.state("r"))
	}
}

// TestHaltedRun: a run whose request is halted ends at once, and what it used is charged.
func TestHaltedRun(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	id := n.runOf("r000")
	n.hold = func(q Request) bool { _, is := q.(Record); return is }
	w.pass(time.Second)
	n.step(RunProgress{Run: id, Info: replication.Info{Written: 1}})
	n.step(Done{ID: n.held[0].ID, Fault: Halted, Text: "its lease is another one's"})
	if len(n.running) != 0 || n.Running() != 0 || count(n.notes, "halted") != 1 {
		t.Errorf("%d run, %d take slots; notes %q", len(n.running), n.Running(), n.notes)
	}
	n.hold = func(q Request) bool { _, is := q.(Charge); return !is }
	w.pass(2 * n.cfg.usageInterval())
	if used := w.used("_replicator"); used < time.Second {
		t.Errorf("charged are %s", used)
	}
}

// TestHealthyRunAbsolves: a run that is healthy for long enough makes up for workers that vanished with its
// job.
func TestHealthyRunAbsolves(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.start("n1", nil).paused = true
	two := w.start("n2", nil)
	w.pass(2 * two.cfg.ActivityTimeout)
	id := two.runOf("r000")
	lost := func() (n int) {
		w.do(func(tx kv.Tx) error {
			j, err := w.s.Jobs.Get(tx, two.running[id].JobID)
			n = j.Lost
			return err
		})
		return n
	}
	two.step(RunProgress{Run: id})
	if lost() != 1 {
		t.Fatalf("%d workers vanished", lost())
	}
	w.pass(w.s.Config.Backoff.Health + time.Second)
	if two.step(RunProgress{Run: id}); lost() != 0 {
		t.Errorf("%d workers count as vanished after a healthy run", lost())
	}
}

// TestOutcomeOf: the outcome of a failed transaction follows from the error that its own wraps.
func TestOutcomeOf(t *testing.T) {
	for err, want := range map[error]Outcome{
		nil: Committed, fmt.Errorf("job: %w", jobs.ErrHalt): Halted,
		fmt.Errorf("job: %w", jobs.ErrCanceled): Canceled, fmt.Errorf("job: %w", jobs.ErrWorkerConflict): Halted,
		fmt.Errorf("worker: %w", jobs.ErrLeaseLost): LeaseLost, context.DeadlineExceeded: StoreDown,
	} {
		if got := OutcomeOf(err); got != want {
			t.Errorf("%v is %q", err, got)
		}
	}
}

// TestRetireUntilDone: a node leaves only when the last of the jobs that it still holds is given back.
func TestRetireUntilDone(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Retire); return is }
	n.step(Drain{})
	w.pass(time.Second)
	n.step(Done{ID: n.held[0].ID, Result: Progressed{Done: false}})
	if n.exited || len(n.held) != 2 {
		t.Fatalf("exited: %v; asked for %v", n.exited, n.held)
	}
	n.step(Done{ID: n.held[1].ID, Result: Progressed{Done: true}})
	if !n.exited {
		t.Error("it has not left")
	}
}

// TestExpireOfLivingWorker: a worker that sent a heartbeat after the one by which it was judged keeps its
// jobs.
func TestExpireOfLivingWorker(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	var judged []Member
	w.do(func(tx kv.Tx) (err error) {
		judged, err = Members(tx, w.s)
		return err
	})
	w.pass(n.cfg.ActivityTimeout)
	expire := Expire{Worker: n.worker, Beat: &judged[0].Beat, Limit: DefaultBatches().Expire}
	if done := n.perform(Ask{Request: expire}); done.Fault != Committed {
		t.Fatal(done)
	}
	w.pass(n.cfg.ActivityTimeout)
	if n.Running() != 1 || slices.Contains(n.notes, "lease_lost") {
		t.Errorf("%d run; %q", n.Running(), n.notes)
	}
}

// TestDuplicateOfRequest: a document whose replication a request runs waits, and does not fail for good.
func TestDuplicateOfRequest(t *testing.T) {
	w := newWorld(t)
	w.s.Config.DuplicatesWait = false
	body := `{"source":"http://h/a","target":"http://h/b"}`
	rep, err := spec.ParseRequest([]byte(body), spec.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	w.do(func(tx kv.Tx) error {
		_, err := w.s.Replicate(tx, rep, "", w.now)
		return err
	})
	n := w.start("n1", nil)
	w.put("r", body)
	w.pass(time.Second)
	id := n.runOf("r")
	n.step(RunIdentifies{Run: id, ID: n.running[id].Record.RepID, Base: "b"})
	rec := w.record("r")
	if rec.State != jobstore.Crashing || rec.Error != "duplicate" || !strings.Contains(rec.Reason, "`_replicate`") {
		t.Errorf("it is %s: %s: %s", rec.State, rec.Error, rec.Reason)
	}
}

// TestLostLeaseForgetsRequests: what a run asked for under a lease is not asked for again when that is lost.
func TestLostLeaseForgetsRequests(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	w.down = true
	n.step(RunProgress{Run: n.runOf("r000")})
	w.pass(n.cfg.ActivityTimeout + time.Second)
	if !slices.Contains(n.notes, "lease_lost") {
		t.Fatalf("%q", n.notes)
	}
	for _, c := range slices.AppendSeq(slices.Clone(n.waiting), maps.Values(n.flying)) {
		if q, held := c.req.(HeldRequest); held {
			t.Errorf("it goes on to ask for %s", q)
		}
	}
}

// TestResetIsStoredWithWhatTheRunTells: the order that a run was begun with goes once the run has carried it out, and
// not before, also if the run tells that at its end only, however it ends.
func TestResetIsStoredWithWhatTheRunTells(t *testing.T) {
	done := replication.Info{Reset: true}
	for name, tells := range map[string]func(run uint64) Event{
		"progress": func(run uint64) Event { return RunProgress{Run: run, Info: done} },
		"completed": func(run uint64) Event {
			return RunEnded{Run: run, End: replication.End{Cause: replication.Completed, Info: done}}
		},
		"crashed": func(run uint64) Event {
			return RunEnded{Run: run, End: replication.End{Cause: replication.Crashed, Info: done}}
		},
		"stopped": func(run uint64) Event {
			return RunEnded{Run: run, End: replication.End{Cause: replication.Stopped, Info: done}}
		},
	} {
		w := newWorld(t)
		n, run := w.startsOver()
		order := func() instant.Time { return w.record("r000").Reset }
		n.step(RunProgress{Run: run})
		if order() != 5 {
			t.Errorf("%s: the order is gone before it is carried out", name)
		}
		n.step(tells(run))
		if order() != 0 {
			t.Errorf("%s: the order is still there", name)
		}
	}
}

// startsOver starts a node with a run that is to start over: the order is of the time 5.
func (w *world) startsOver() (n *driven, run uint64) {
	w.putMany(1, true)
	n = w.start("n1", nil)
	run = n.runOf("r000")
	id := n.running[run].JobID
	w.do(func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: w.s, Tx: tx, Now: 5}.Reset(id, "")
		return err
	})
	w.pass(time.Second)
	n.endRun(run, replication.Stopped)
	w.pass(time.Second)
	return n, n.runOf("r000")
}

// TestResetOfKilledRun: a run that is killed before it was stored that it has started over need not do so again.
func TestResetOfKilledRun(t *testing.T) {
	w := newWorld(t)
	n, run := w.startsOver()
	n.hold = func(q Request) bool { _, is := q.(Record); return is }
	n.step(RunProgress{Run: run})
	n.step(RunProgress{Run: run, Info: replication.Info{Reset: true}}) // which waits for the record before
	n.step(Drain{})
	w.pass(n.cfg.StopTimeout + time.Second)
	if w.record("r000").Reset != 5 {
		t.Fatal("it was stored while the store did not answer")
	}
	n.step(n.perform(n.held[0]))
	if rec := w.record("r000"); rec.Reset != 0 || rec.State != jobstore.Pending {
		t.Errorf("the job is %s, and starts over by an order of %d", rec.State, rec.Reset)
	}
}

// TestEndIsTriedAsOften: attempts to store what a run told do not count for its end, which takes the request's place.
func TestEndIsTriedAsOften(t *testing.T) {
	n := New(Config{})
	c := &call{req: Record{}, run: &run{state: over, writes: writes{end: Complete{}}}, odd: maxOdd}
	n.answered(c, Done{Fault: StoreDown, Unreadable: "j"})
	if _, is := c.req.(Complete); !is || c.odd != 1 {
		t.Errorf("%s has failed %d times", c.req, c.odd)
	}
}
