package jobstore

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// give carries out an order twice, as after an unknown commit result, and returns what the first attempt said.
func (b *bench) give(do func(Operator) (bool, error)) (changed bool, obstacle string) {
	b.t.Helper()
	first := true
	b.do(func(tx kv.Tx) error {
		done, err := do(b.by(tx))
		if o, is := errors.AsType[Obstacle](err); is {
			obstacle, err = string(o), nil
		}
		if first {
			changed, first = done, false
		}
		return err
	})
	return changed, obstacle
}

func (b *bench) retry(id string) (bool, string) {
	b.t.Helper()
	return b.give(func(o Operator) (bool, error) { return o.Retry(id, "") })
}

func (b *bench) reset(id string) (bool, string) {
	b.t.Helper()
	return b.give(func(o Operator) (bool, error) { return o.Reset(id, "") })
}

// end ends the run of a job.
func (b *bench) end(w Work, f func(Owned) error) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error { return f(b.s.Owned(tx, w.JobID, w.Lock, b.now)) })
}

func (b *bench) crash(w Work) {
	b.t.Helper()
	b.end(w, func(h Owned) error { return h.Crash(crash.Trouble, nil, Turn{Place: w.Place}, 1) })
}

// TestRetryEndsBackOff: the job is ready at once, and crashes still count.
func TestRetryEndsBackOff(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	if changed, _ := b.retry(id); changed {
		t.Error("there was a wait to end for a job that is ready")
	}
	b.crash(b.accept())
	if changed, obstacle := b.retry(id); !changed || obstacle != "" {
		t.Fatal("no wait was ended: ", obstacle)
	}
	if e := b.record(id).History[0]; e.Type != "retried" || e.By != "ann" {
		t.Errorf("history says %+v", e)
	}
	w := b.accept()
	if w.Record.ErrorCount != 1 {
		t.Errorf("%d errors", w.Record.ErrorCount)
	}
	b.now = b.now.Add(time.Second)
	if changed, _ := b.retry(id); changed {
		t.Error("a running job was retried")
	}
	b.crash(w)
	if b.record(id).ErrorCount != 2 {
		t.Error("the next wait is not longer")
	}
}

// TestRetryRepeated: an order whose commit had an unknown outcome is repeated, and ends no wait, and no end, that came
// since it was carried out.
func TestRetryRepeated(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	fail := func(w Work) {
		b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	}
	for state, ends := range map[State]func(Work){Crashing: b.crash, Failed: fail} {
		ends(b.accept())
		b.now = b.now.Add(time.Second)
		for range 2 {
			if changed, obstacle := b.retry(id); !changed || obstacle != "" {
				t.Errorf("%s: %v, %q", state, changed, obstacle)
			}
		}
		ends(b.accept())
		if changed, obstacle := b.retry(id); !changed || obstacle != "" {
			t.Errorf("%s, repeated: %v, %q", state, changed, obstacle)
		}
		b.wantState(id, state)
		if ids, _ := b.tryAccept(); len(ids) > 0 {
			t.Errorf("%s: the repeated order had the job run again", state)
		}
		b.now = b.now.Add(time.Second)
		b.retry(id)
	}
}

// TestOrdersRepeated: an order whose commit had an unknown outcome is repeated, and undoes nothing that another user,
// or the job's run, has done since.
func TestOrdersRepeated(t *testing.T) {
	type act = func(*bench, Work)
	pause := func(b *bench, w Work) { b.pause(w.JobID) }
	resume := func(b *bench, w Work) {
		if _, obstacle := b.give(func(o Operator) (bool, error) { return o.Resume(w.JobID, "") }); obstacle != "" {
			t.Error(obstacle)
		}
	}
	reset := func(b *bench, w Work) {
		if _, obstacle := b.reset(w.JobID); obstacle != "" {
			t.Error(obstacle)
		}
	}
	fails := func(b *bench, w Work) {
		b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	}
	completes := func(b *bench, w Work) {
		b.end(w, func(h Owned) error { return h.Complete(crash, Turn{Place: w.Place}) })
	}
	startsOver := func(b *bench, w Work) {
		order := b.record(w.JobID).Reset
		b.end(w, func(h Owned) error { h.Reset = order; return h.Progress(Stats{DocsRead: 7}) })
	}
	for name, c := range map[string]struct{ before, order, since act }{
		"pause":                        {resume, pause, resume},
		"resume":                       {pause, resume, pause},
		"resume of one that completes": {pause, resume, completes},
		"reset":                        {pause, reset, startsOver},
		"reset of one that fails":      {pause, reset, fails},
	} {
		b := newBench(t)
		b.put("r", simple, admin)
		w := b.accept()
		c.before(b, w)
		b.now = b.now.Add(time.Second)
		first := b.now
		c.order(b, w)
		b.now = b.now.Add(time.Second)
		c.since(b, w)
		was := b.record(w.JobID)
		b.now = first
		if c.order(b, w); !reflect.DeepEqual(b.record(w.JobID), was) {
			t.Errorf("%s: the repetition made %+v of %+v", name, b.record(w.JobID), was)
		}
	}
}

// TestPauseOfOneThatIsOver: to pause a job is an error once the job is over, also if it was paused shortly before its
// end.
func TestPauseOfOneThatIsOver(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.pause(w.JobID)
	b.complete(w)
	b.now = b.now.Add(time.Second)
	changed, obstacle := b.give(func(o Operator) (bool, error) { return o.Pause(w.JobID, "") })
	if changed || !strings.HasPrefix(obstacle, "the job is over") {
		t.Errorf("%v, %q", changed, obstacle)
	}
}

// TestRetryOfWhatIsBarred: a pause or a hold that keeps the job from running is told.
func TestRetryOfWhatIsBarred(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	b.crash(b.accept())
	b.pause(id)
	if _, obstacle := b.retry(id); obstacle != "the job is paused; resume it" {
		t.Errorf("paused: %q", obstacle)
	}
	b.resume(id)
	hold := Hold{Database: "_replicator"}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	if _, obstacle := b.retry(id); obstacle != "hold database:_replicator keeps the job from running" {
		t.Errorf("held: %q", obstacle)
	}
	b.now = b.now.Add(time.Hour)
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 10); return err })
	if _, parked := b.tryAccept(); parked != 1 {
		t.Fatal("the hold parks nothing")
	}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
	if changed, obstacle := b.retry(id); !changed || obstacle != "" {
		t.Errorf("a job of a lifted hold does not come back at once: %q", obstacle)
	}
	if ids, _ := b.tryAccept(); len(ids) != 1 {
		t.Error("it is not accepted")
	}
}

// TestRetryOfFailed: a job that failed for good runs again, in its document and in its request.
func TestRetryOfFailed(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	w := b.accept()
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	if changed, obstacle := b.retry(id); !changed || obstacle != "" {
		t.Fatal("not run again: ", obstacle)
	}
	b.wantState(id, Pending)
	if doc := b.doc("r"); strings.Contains(doc, "_replication_state") {
		t.Errorf("the document still says how it ended: %s", doc)
	}
	b.accept()

	request := b.replicate("joe")
	w = b.accept()
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	if changed, _ := b.retry(request); !changed {
		t.Error("the request does not run again")
	}
	if w := b.accept(); w.JobID != request || w.Record.User != "joe" || w.Record.Expires != 0 {
		t.Errorf("accepted %s of %q", w.JobID, w.Record.User)
	}
	if rows := get(b, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(b.s.Keys.Expire.Range(), kv.RangeOptions{})
	}); len(rows) > 0 {
		t.Error("it is still to be forgotten")
	}
}

// TestRetryOfFailedDuplicate: a request that failed stays as it is while a document has its replication.
func TestRetryOfFailedDuplicate(t *testing.T) {
	b := newBench(t)
	request := b.replicate("joe")
	w := b.accept()
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	b.put("r", strings.Replace(simple, "/b", "/joe", 1), admin)
	b.accept()
	if changed, obstacle := b.retry(request); changed || !strings.Contains(obstacle, "another job has replication") {
		t.Errorf("changed %v, %q", changed, obstacle)
	}
	b.wantState(request, Failed)
}

// TestRetryOfRefusedDocument: a document that other rules refuse now stays as it is.
func TestRetryOfRefusedDocument(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":5,"target":"http://h/b","_replication_state":"failed"}`, admin)
	if changed, obstacle := b.retry(jobID("r")); changed || !strings.Contains(obstacle, "source") {
		t.Errorf("changed %v, %q", changed, obstacle)
	}
	b.put("c", `{"source":"http://h/a","target":"http://h/b","_replication_state":"completed"}`, admin)
	if _, obstacle := b.retry(jobID("c")); obstacle != "the job is over: it is completed" {
		t.Errorf("completed: %q", obstacle)
	}
}

// TestReset: the mark stays until a run has carried the order out, over crashes, edits and later orders.
func TestReset(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	w := b.accept()
	b.end(w, func(h Owned) error { return h.Progress(Stats{DocsRead: 7}) })
	if changed, _ := b.reset(id); !changed {
		t.Fatal("nothing changed")
	}
	held := get(b, func(tx kv.Tx) ([]jobs.Held, error) { return b.s.Jobs.Owned(tx, "w") })
	if len(held) != 1 || !held[0].Stop {
		t.Errorf("the run is not stopped: %+v", held)
	}
	stats := Stats{DocsRead: 8}
	b.end(w, func(h Owned) error { return h.Requeue(&stats, Turn{Place: w.Place}) })
	if changed, _ := b.reset(id); changed {
		t.Error("a second order before the next run changes something")
	}
	b.put("r", `{"source":"http://h/a","target":"http://h/b","worker_batch_size":5}`, admin)
	w = b.accept()
	order := w.Record.Reset
	if order == 0 || w.Record.Stats.DocsRead != 0 {
		t.Fatalf("accepted with the order of %d and %d documents read", order, w.Record.Stats.DocsRead)
	}
	b.crash(w)
	b.retry(id)
	w = b.accept()
	b.now = b.now.Add(time.Second)
	if changed, _ := b.reset(id); !changed {
		t.Error("a run is under way, and another order is none")
	}
	b.end(w, func(h Owned) error { h.Reset = order; return h.Requeue(nil, Turn{Place: w.Place}) })
	if w = b.accept(); w.Record.Reset != b.now {
		t.Errorf("the second order is gone with the first: %d", w.Record.Reset)
	}
	b.end(w, func(h Owned) error { h.Reset = w.Record.Reset; return h.Progress(Stats{DocsRead: 1}) })
	if rec := b.record(id); rec.Reset != 0 || rec.Stats.DocsRead != 1 {
		t.Errorf("after it is carried out: %d, %d documents read", rec.Reset, rec.Stats.DocsRead)
	}
}

// TestResetForgetsStats: what a run told after it was asked to start over does not count for the next one, on whichever
// node that runs.
func TestResetForgetsStats(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.reset(jobID("r"))
	b.end(w, func(h Owned) error { return h.Progress(Stats{DocsRead: 8}) })
	b.end(w, func(h Owned) error { return h.Requeue(nil, Turn{Place: w.Place}) })
	if w = b.accept(); w.Record.Stats.DocsRead != 0 {
		t.Errorf("begins with %d documents read", w.Record.Stats.DocsRead)
	}
}

// TestResetOfOneShot: one that is over before it hears of the order runs again.
func TestResetOfOneShot(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.reset(w.JobID)
	b.end(w, func(h Owned) error { return h.Complete(crash, Turn{Place: w.Place}) })
	b.wantState(w.JobID, Pending)
	if w = b.accept(); w.Record.Reset == 0 {
		t.Fatal("the order is gone")
	}
	b.end(w, func(h Owned) error { h.Reset = w.Record.Reset; return h.Complete(crash, Turn{Place: w.Place}) })
	b.wantState(w.JobID, Completed)
	b.now = b.now.Add(time.Second)
	if _, obstacle := b.reset(w.JobID); obstacle != "the job is over: it is completed" {
		t.Errorf("of one that is over: %q", obstacle)
	}
}

// TestResetOfFailedJob: a job that fails for good is not shown to start over, whether its run has done so or not: it
// does not run any more, and one that is made of its document knows nothing of the order.
func TestResetOfFailedJob(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.reset(w.JobID)
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	if v := b.shown(w.JobID); v.State != Failed || v.Reset != 0 {
		t.Errorf("it is %s, to start over: %v", v.State, v.Reset != 0)
	}
	if changed, why := b.retry(w.JobID); !changed {
		t.Fatalf("not retried: %q", why)
	}
	if v := b.shown(w.JobID); v.State != Pending || v.Reset != 0 {
		t.Errorf("once more it is %s, to start over: %v", v.State, v.Reset != 0)
	}
}

// TestOrdersOutliveRequests: a request that is made anew with other options is still paused, and still starts over.
func TestOrdersOutliveRequests(t *testing.T) {
	b := newBench(t)
	id := b.replicate("joe")
	b.reset(id)
	b.pause(id)
	rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
	rep.WorkerBatchSize++
	b.do(func(tx kv.Tx) error { _, err := b.s.Replicate(tx, rep, "joe", b.now); return err })
	if v := b.shown(id); v.State != Paused || v.Reset == 0 {
		t.Errorf("it is %s, to start over: %v", v.State, v.Reset != 0)
	}
}

// TestRetryOfFailedRequest: the job made anew keeps its weight and tells the fields that mean nothing, and is not made
// while a document has the replication.
func TestRetryOfFailedRequest(t *testing.T) {
	b := newBench(t)
	body := strings.Replace(simple, "}", `,"weight":7,"prioritty":5}`, 1)
	rep, err := spec.ParseRequest([]byte(body), b.s.Config.Parse)
	if err != nil {
		t.Fatal(err)
	}
	id := get(b, func(tx kv.Tx) (string, error) { return b.s.Replicate(tx, rep, "ann", b.now) })
	b.crash(b.accept())
	b.put("r", simple, admin)
	w := b.accept()
	if err := b.claim(w, repid.New(b.s.Config.Server, rep, "").String()); err != nil {
		t.Fatal(err)
	}
	if changed, why := b.retry(id); changed || !strings.Contains(why, "another job has replication") {
		t.Errorf("retried while a document has the replication: %v %q", changed, why)
	}
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	if changed, why := b.retry(id); !changed || why != "" {
		t.Errorf("not retried: %q", why)
	}
	rec := b.record(id)
	if rec.State != Pending || rec.Weight != 7 || !slices.Equal(rec.Unknown, []string{"prioritty"}) {
		t.Errorf("made anew as %+v", rec)
	}
}

// TestOrdersAreNoted: each order is in the history of its job, with who gave it and when, and the job was changed then.
func TestOrdersAreNoted(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	b.crash(b.accept())
	for _, c := range []struct {
		event string
		give  func(Operator) (bool, error)
	}{
		{"retried", func(o Operator) (bool, error) { return o.Retry(jobID("r"), "why") }},
		{"paused", func(o Operator) (bool, error) { return o.Pause(jobID("r"), "why") }},
		{"resumed", func(o Operator) (bool, error) { return o.Resume(jobID("r"), "why") }},
		{"reset", func(o Operator) (bool, error) { return o.Reset(jobID("r"), "why") }},
	} {
		b.now = b.now.Add(time.Minute)
		b.give(c.give)
		rec := b.record(jobID("r"))
		want := Event{Type: c.event, At: b.now, Reason: "why", By: "ann"}
		if rec.History[0] != want || rec.LastUpdated != b.now {
			t.Errorf("%s: %+v at %s", c.event, rec.History[0], rec.LastUpdated)
		}
	}
}

// TestRetryOfUnreadableDemand: a job that is over, and whose last demand to try its refused documents cannot be read,
// does not run again without trying them.
func TestRetryOfUnreadableDemand(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.list(w, 1, refusalOf("a", false))
	b.end(w, func(h Owned) error { return h.Complete(crash, Turn{Place: w.Place}) })
	b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Retry.Pack(w.JobID), []byte("x")); return nil })
	err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error { _, err := b.by(tx).Retry(w.JobID, ""); return err })
	if !errors.Is(err, jobs.ErrCorrupt) {
		t.Errorf("the order ends with %v", err)
	}
	b.wantState(w.JobID, Completed)
}

// TestRetryBeforeSweep: a job that failed, and whose database is gone, does not run again until it is swept.
func TestRetryBeforeSweep(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	b.end(b.accept(), func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) })
	b.do1(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	b.do1(func(tx kv.Tx) error {
		changed, err := b.by(tx).Retry(jobID("r"), "")
		if changed {
			t.Error("the order seems to be carried out")
		}
		return err
	})
}
