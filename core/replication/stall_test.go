package replication

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

const stallTimeout = 5 * time.Minute

// stalling is a run that has just sent a request of one of the kinds that hang.
func stalling(t *testing.T, change func(*world), hang ...peer.Op) *world {
	w := newWorld(t)
	w.plan.StallTimeout, w.plan.Workers = stallTimeout, 1
	w.plan.CheckpointInterval = time.Hour
	w.fill(2)
	if change != nil {
		change(w)
	}
	w.begin()
	for w.end == nil && w.hangs(hang) < 0 {
		w.proceed(first)
	}
	return w
}

// readOnce has the run read its feed once more.
func (w *world) readOnce() {
	at := w.hangs([]peer.Op{peer.ReadChanges{}})
	c := w.flying[at]
	w.flying = slices.Delete(w.flying, at, at+1)
	w.step(Reply{ID: c.ID, Reply: w.perform(c)})
}

// hangs finds a request in flight of one of the kinds.
func (w *world) hangs(kinds []peer.Op) int {
	return slices.IndexFunc(w.flying, func(c Call) bool { return isOf(kinds, c.Op) })
}

func isOf(kinds []peer.Op, op peer.Op) bool {
	return slices.ContainsFunc(kinds, func(kind peer.Op) bool { return reflect.TypeOf(op) == reflect.TypeOf(kind) })
}

// wait lets time pass until the run ends, or until a time is over. All requests but those that hang are answered at
// once. The run must not ask to be woken without end.
func (w *world) wait(d time.Duration, hang ...peer.Op) {
	w.t.Helper()
	until, wakes := w.now.Add(d), 0
	for w.end == nil {
		answered := false
		for i, c := range w.flying {
			if isOf(hang, c.Op) {
				continue
			}
			w.flying = append(w.flying[:i:i], w.flying[i+1:]...)
			w.step(Reply{ID: c.ID, Reply: w.perform(c)})
			answered = true
			break
		}
		if answered {
			continue
		}
		at := w.run.Deadline()
		if at > until {
			w.now = until
			return
		}
		if wakes++; wakes > 1000+2*int(d/time.Second) {
			w.t.Fatalf("%d wakes in %s", wakes, d)
		}
		w.now = max(w.now, at)
		w.step(Wake{})
	}
}

// wantStalled expects the end of a stalled run at a time.
func (w *world) wantStalled(at instant.Time, reason string) {
	w.t.Helper()
	switch {
	case w.end == nil || w.end.Cause != Crashed || w.end.Trouble.Error != "stalled":
		w.t.Fatalf("ended with %v", w.end)
	case w.now != at:
		w.t.Errorf("ended %s too late", w.now.Sub(at))
	case !strings.Contains(w.end.Trouble.Reason, reason) || !strings.Contains(w.end.Trouble.Reason, "for 5m0s"):
		w.t.Errorf("reason: %s", w.end.Trouble.Reason)
	}
}

// TestStalledFeed: a feed sends no rows although the source had changes when it was opened. What was done before
// is checkpointed.
func TestStalledFeed(t *testing.T) {
	w := stalling(t, nil, peer.ReadChanges{})
	since := w.run.stalls.since
	w.wait(time.Hour, peer.ReadChanges{})
	w.wantStalled(since.Add(stallTimeout), "waited for the changes of the source")

	w = stalling(t, func(w *world) {
		w.fill(20)
		w.plan.BatchSize = 2
	}, peer.ReadChanges{})
	w.readOnce()
	w.wait(0, peer.ReadChanges{})
	since = w.run.stalls.since
	w.wait(time.Hour, peer.ReadChanges{})
	w.wantStalled(since.Add(stallTimeout), "waited for 18 changes of the source")
	if w.end.Info.CheckpointedSeq != w.end.Info.ThroughSeq || w.end.Info.DocsWritten == 0 {
		t.Errorf("checkpoint at %s of %s", w.end.Info.CheckpointedSeq, w.end.Info.ThroughSeq)
	}
}

// TestStalledAnswer: the target does not say what it lacks, and nothing bounds the request.
func TestStalledAnswer(t *testing.T) {
	w := stalling(t, nil, peer.DiffRevs{})
	since := w.run.stalls.since
	w.wait(time.Hour, peer.DiffRevs{})
	w.wantStalled(since.Add(stallTimeout), "waited for the answer to diff revs of 2 docs")
}

// TestStalledStops: a stalled run does not wait for its last checkpoint for ever, and one that is stopped meanwhile
// ends as stopped.
func TestStalledStops(t *testing.T) {
	for _, stop := range []bool{false, true} {
		w := stalling(t, func(w *world) { w.fill(40) }, peer.ReadChanges{})
		w.readOnce()
		w.wait(0, peer.ReadChanges{}, peer.Commit{})
		since := w.run.stalls.since
		w.wait(stallTimeout, peer.ReadChanges{}, peer.Commit{})
		if !w.run.stopping || w.end != nil {
			t.Fatalf("stopping %v, ended with %v", w.run.stopping, w.end)
		}
		if stop {
			w.step(Stop{})
			w.wantEnd(Stopped, "")
			continue
		}
		w.wait(time.Hour, peer.Commit{})
		w.wantStalled(since.Add(stallTimeout+stalledStop), "")
	}
}

// TestStalledAndStoodStill: a process that stands still while a stalled run stops ends the run when it is back.
func TestStalledAndStoodStill(t *testing.T) {
	w := stalling(t, func(w *world) { w.fill(40) }, peer.ReadChanges{})
	w.readOnce()
	w.wait(stallTimeout, peer.ReadChanges{}, peer.Commit{})
	if !w.run.stopping {
		t.Fatal("it does not stop")
	}
	w.now = w.now.Add(stalledStop + time.Minute)
	if w.step(Wake{}); w.end == nil || w.end.Trouble.Error != "stalled" {
		t.Errorf("ended with %v", w.end)
	}
}

// TestStalledWithoutCheckpoint: a stalled run whose last checkpoint fails has ended as stalled.
func TestStalledWithoutCheckpoint(t *testing.T) {
	w := stalling(t, func(w *world) { w.fill(40) }, peer.ReadChanges{})
	w.readOnce()
	w.wait(0, peer.ReadChanges{})
	since := w.run.stalls.since
	w.failOn("commit", 0, status(400))
	w.wait(time.Hour, peer.ReadChanges{})
	w.wantStalled(since.Add(stallTimeout), "")
}

// TestNotStalled has the reasons for which a run may get nowhere.
func TestNotStalled(t *testing.T) {
	feed := peer.ReadChanges{}
	for name, c := range map[string]struct {
		change func(*world)
		hang   peer.Op
	}{
		"no timeout":     {func(w *world) { w.plan.StallTimeout = 0 }, feed},
		"filtered":       {func(w *world) { w.plan.Filtered = true }, feed},
		"nothing to do":  {func(w *world) { w.dbs[peer.Source] = newDatabase() }, feed},
		"at the end":     {func(w *world) { w.plan.Continuous = true }, peer.Create{}},
		"fetches":        {nil, peer.FetchDocs{}},
		"writes":         {nil, peer.WriteDocs{}},
		"copies":         {func(w *world) { w.plan.UseBulkGet = false }, peer.CopyDoc{}},
		"opens":          {nil, peer.Open{}},
		"looks for logs": {nil, peer.GetLocal{}},
	} {
		t.Run(name, func(t *testing.T) {
			hang := []peer.Op{c.hang}
			w := newWorld(t)
			w.plan.StallTimeout = stallTimeout
			w.fill(2)
			if c.change != nil {
				c.change(w)
			}
			w.begin()
			if name == "at the end" {
				for w.run.phase != copying || !w.run.feed.caught || w.run.Info().CheckpointedSeq != seqOf(2) {
					w.proceed(first)
				}
				hang = []peer.Op{feed}
			} else {
				for w.hangs(hang) < 0 {
					w.proceed(first)
				}
			}
			w.wait(10*time.Hour, hang...)
			if w.end != nil {
				t.Errorf("ended with %v", w.end)
			}
		})
	}
}

// TestNothingAnnouncedIsNoStall: a source that has said that no changes follow keeps the feed open without any.
func TestNothingAnnouncedIsNoStall(t *testing.T) {
	w := stalling(t, nil, peer.ReadChanges{})
	w.run.feed.pending = 0
	w.wait(10*time.Hour, peer.ReadChanges{})
	if w.end != nil || w.run.stopping {
		t.Errorf("ended with %v", w.end)
	}
}

// TestAwayStoreIsNoStall: a run may wait for the store of its node, which lists what was refused, for hours.
func TestAwayStoreIsNoStall(t *testing.T) {
	w := newWorld(t)
	w.plan.StallTimeout, w.deaf, w.refuses["doc0"] = stallTimeout, true, true
	w.fill(2)
	w.begin()
	w.wait(10 * time.Hour)
	if w.end != nil || len(w.asks) != 1 {
		t.Errorf("ended with %v, waits for %v", w.end, w.asks)
	}
}

// TestThrottledIsNotStalled: a server that asks to slow down is told as such, also if its own pause is longer.
func TestThrottledIsNotStalled(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Minute, 300 * time.Second} {
		w := newWorld(t)
		w.plan.StallTimeout = 60 * time.Second
		w.fill(2)
		w.answer = func(c Call) *peer.Failure {
			if _, reads := c.Op.(peer.ReadChanges); reads {
				return &peer.Failure{Kind: peer.Status, Status: 429, RetryAfter: pause}
			}
			return nil
		}
		w.begin()
		w.wait(time.Hour)
		w.wantEnd(Crashed, "max_backoff")
	}
}

// TestSilenceAfter429: a source that asked the run to slow down, and then keeps its feed open without rows, is no
// reason to wait for ever.
func TestSilenceAfter429(t *testing.T) {
	w := stalling(t, func(w *world) {
		first := true
		w.answer = func(c Call) *peer.Failure {
			if _, reads := c.Op.(peer.ReadChanges); reads && first {
				first = false
				return &peer.Failure{Kind: peer.Status, Status: 429}
			}
			return nil
		}
	}, peer.ReadChanges{})
	w.readOnce()
	w.wait(time.Hour, peer.ReadChanges{})
	w.wantEnd(Crashed, "stalled")
}

// TestProgressIsNoStall: every sign of progress gives the run the whole time again.
func TestProgressIsNoStall(t *testing.T) {
	for name, progress := range map[string]func(*Run){
		"a row":           func(r *Run) { r.feed.rows++ },
		"a position":      func(r *Run) { r.feed.since = "7" },
		"a diff":          func(r *Run) { r.info.MissingChecked++ },
		"a document read": func(r *Run) { r.info.DocsRead++ },
		"one written":     func(r *Run) { r.info.Written++ },
		"one refused":     func(r *Run) { r.info.Refused++ },
		"a checkpoint":    func(r *Run) { r.commits.committed = "7" },
	} {
		w := stalling(t, nil, peer.ReadChanges{})
		w.run.feed.pending = 5
		w.wait(stallTimeout-time.Second, peer.ReadChanges{})
		progress(w.run)
		w.step(Wake{})
		at := w.now
		w.wait(stallTimeout-time.Second, peer.ReadChanges{})
		if w.end != nil || w.run.stopping {
			t.Fatalf("%s: ended", name)
		}
		if w.run.commits.committed != "7" { // which no log has
			w.wait(time.Hour, peer.ReadChanges{})
			w.wantStalled(at.Add(stallTimeout), "")
		}
	}
}

// TestStoodStillIsNoStall: the answers of a process that stood still may be waiting for it.
func TestStoodStillIsNoStall(t *testing.T) {
	w := stalling(t, nil, peer.ReadChanges{})
	since := w.run.stalls.since
	w.now = since.Add(stallTimeout + stoodStill + time.Millisecond)
	w.step(Wake{})
	if w.end != nil || w.run.stopping {
		t.Fatal("ended after the process stood still")
	}
	at := w.now
	w.wait(time.Hour, peer.ReadChanges{})
	w.wantStalled(at.Add(stallTimeout), "")
}

// TestRetriesStall: a request that fails again and again, with a pause that the server asks for, is no progress, also
// if the server has asked the run to slow down before.
func TestRetriesStall(t *testing.T) {
	for _, before := range []int{0, 1} {
		w := newWorld(t)
		w.plan.StallTimeout, w.plan.Retries = 60*time.Second, 1000
		w.fill(2)
		asked := 0
		w.answer = func(c Call) *peer.Failure {
			if _, diffs := c.Op.(peer.DiffRevs); !diffs {
				return nil
			}
			if asked++; asked <= before {
				return &peer.Failure{Kind: peer.Status, Status: 429}
			}
			return &peer.Failure{Kind: peer.Status, Status: 503, RetryAfter: 300 * time.Second, URL: "http://t/"}
		}
		w.begin()
		w.wait(time.Hour)
		if w.end == nil || w.end.Trouble.Error != "stalled" || asked != before+1 ||
			!strings.Contains(fmt.Sprint(w.end.Trouble), "the last attempt") {
			t.Errorf("ended with %v after %d requests", w.end, asked)
		}
	}
}
