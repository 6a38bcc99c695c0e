package replication

import (
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// resetting runs a replication once, and then again with the order to start over.
func resetting(t *testing.T, between func(w *world)) (*world, End) {
	w := newWorld(t)
	w.fill(20)
	w.begin()
	w.runToEnd(first)
	w.plan.Reset, w.calls = true, nil
	between(w)
	w.begin()
	return w, w.runToEnd(first)
}

// TestResetStartsOver discards the logs of both sides before anything is copied, and says so.
func TestResetStartsOver(t *testing.T) {
	for name, since := range map[string]peer.Seq{"0": "", `"7-opaque"`: seqOf(7)} {
		w, end := resetting(t, func(w *world) { w.plan.SinceSeq = since })
		if end.Cause != Completed || !end.Info.Reset || w.feedStart() != name {
			t.Errorf("%v from %s, reset %v", end, w.feedStart(), end.Info.Reset)
		}
		for i, c := range w.calls {
			if strings.HasPrefix(c, "read changes") {
				break
			}
			if i == len(w.calls)-1 {
				t.Error("nothing is read")
			}
		}
		source, target := w.logOn(peer.Source), w.logOn(peer.Target)
		if len(source.History) != 1 || len(target.History) != 1 || source.SessionID != target.SessionID {
			t.Errorf("logs with %d and %d entries", len(source.History), len(target.History))
		}
	}
}

// TestResetCutOff: whatever the moment at which a reset ends, nothing begins at a checkpoint from before.
func TestResetCutOff(t *testing.T) {
	for calls := 0; ; calls++ {
		w := newWorld(t)
		w.fill(20)
		w.begin()
		w.runToEnd(first)
		old := w.logOn(peer.Source).SessionID
		w.plan.Reset, w.calls = true, nil
		w.begin()
		for range calls {
			if w.end == nil {
				w.proceed(first)
			}
		}
		over, done := w.end != nil, w.run.Info().Reset
		w.plan.Reset, w.calls = !done, nil // the mark stays until the run has told
		w.begin()
		w.runToEnd(first)
		if done != (w.logOn(peer.Source).SessionID == "" || w.logOn(peer.Source).SessionID != old) && done {
			t.Errorf("after %d calls the old log is there", calls)
		}
		for _, side := range []peer.Side{peer.Source, peer.Target} {
			for _, e := range w.logOn(side).History {
				if e.SessionID == old {
					t.Errorf("after %d calls, the log on %s has a checkpoint from before", calls, side)
				}
			}
		}
		if over {
			return
		}
	}
}

// TestResetWithoutCheckpoints: logs that others left are discarded though the run itself writes none.
func TestResetWithoutCheckpoints(t *testing.T) {
	w, end := resetting(t, func(w *world) { w.plan.UseCheckpoints = false })
	left := !w.logOn(peer.Source).Empty() || !w.logOn(peer.Target).Empty()
	if end.Cause != Completed || w.feedStart() != "0" || left {
		t.Errorf("%v from %s", end, w.feedStart())
	}
	w.calls = nil
	w.begin()
	w.runToEnd(first)
	for _, c := range w.calls {
		if strings.HasPrefix(c, "put") {
			t.Errorf("there was nothing to discard: %s", c)
		}
	}
}

// TestResetOfReadOnlySource: the source keeps its log, and the target's counts no more.
func TestResetOfReadOnlySource(t *testing.T) {
	w, end := resetting(t, func(w *world) { w.refuseLogs(403) })
	if end.Cause != Completed || w.feedStart() != "0" {
		t.Fatalf("%v from %s", end, w.feedStart())
	}
	w.plan.Reset, w.calls = false, nil
	w.fill(1)
	w.begin()
	w.runToEnd(first)
	if w.feedStart() == "0" {
		t.Error("the run after the reset copies everything again")
	}
}

// ageLogs puts the logs of both databases under the id of the version before.
func (w *world) ageLogs() {
	for _, d := range w.dbs {
		d.local["three"] = d.local["four"]
		delete(d.local, "four")
	}
}

// TestResetOfOlderLogs: a log under the id of an older version is not found any more.
func TestResetOfOlderLogs(t *testing.T) {
	w, end := resetting(t, (*world).ageLogs)
	if end.Cause != Completed || w.feedStart() != "0" {
		t.Fatalf("%v from %s", end, w.feedStart())
	}
	w.plan.Reset, w.calls = false, nil
	w.begin()
	if w.runToEnd(first); w.feedStart() == "0" {
		t.Error("the reset left no new log")
	}
}

// TestResetOfNumberedReadOnlySource: a source may only be read by now, and numbers its changes, so a reset cannot leave
// a mark there. Its changes tell it from another one, whichever id its old log has.
func TestResetOfNumberedReadOnlySource(t *testing.T) {
	for _, age := range []func(*world){(*world).ageLogs, func(*world) {}} {
		w, end := resetting(t, func(w *world) {
			w.numbers()
			age(w)
			w.refuseLogs(403)
		})
		if end.Cause != Completed || !end.Info.SourceReadOnly || !end.Info.Reset || w.feedStart() != "0" {
			t.Fatalf("%v from %s; %+v", end, w.feedStart(), end.Info)
		}
		w.plan.Reset, w.calls = false, nil
		w.begin()
		if w.wantEnd(Completed, ""); w.feedStart() == "0" {
			t.Error("the reset left no checkpoint")
		}
	}
}

// TestOlderLogsWithoutCheckpoints: a run that is to write no checkpoints copies no log to the id of this version
// either.
func TestOlderLogsWithoutCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.begin()
	w.wantEnd(Completed, "")
	w.ageLogs()
	w.plan.UseCheckpoints = false
	w.begin()
	w.wantEnd(Completed, "")
	for _, d := range w.dbs {
		if d.local["four"].body != nil {
			t.Error("a log was written")
		}
	}
}

// TestResetMeetsLateWriter: a log that an earlier run wrote late is discarded too; a server that answers 409 for
// ever ends the run.
func TestResetMeetsLateWriter(t *testing.T) {
	late := 0
	w, end := resetting(t, func(w *world) {
		w.answer = func(c Call) *peer.Failure {
			put, is := c.Op.(peer.PutLocal)
			if !is || put.Side != peer.Target || late > 0 {
				return nil
			}
			late++
			d := w.dbs[peer.Target]
			log := checkpoint.Log{SessionID: "late"}
			d.local["four"] = localDoc{rev: d.local["four"].rev + 1, body: log.Encode(false)}
			return nil
		}
	})
	if end.Cause != Completed || w.feedStart() != "0" || w.logOn(peer.Target).SessionID == "late" {
		t.Errorf("%v from %s", end, w.feedStart())
	}
	deleted := 0
	w, end = resetting(t, func(w *world) {
		w.answer = func(c Call) *peer.Failure {
			if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Target && put.Rev != "" && deleted == 0 {
				deleted++
				delete(w.dbs[peer.Target].local, "four")
			}
			return nil
		}
	})
	if end.Cause != Completed || w.feedStart() != "0" || deleted == 0 {
		t.Errorf("a log that somebody deleted meanwhile: %v from %s", end, w.feedStart())
	}
	_, end = resetting(t, func(w *world) {
		w.failOn("put", 0, peer.Failure{Kind: peer.Status, Status: 409})
	})
	if end.Cause != Crashed {
		t.Errorf("a server that refuses for ever: %v", end)
	}
}

// TestResetMeetsRunBefore: a run from before the reset, which still stops on another node, writes its last checkpoint
// over the empty logs, as CouchDB 3 lets it. When the run that starts over is killed before it has a checkpoint of its
// own, the next one starts over, too.
func TestResetMeetsRunBefore(t *testing.T) {
	w := newWorld(t)
	w.fill(20)
	w.begin()
	w.wantEnd(Completed, "")
	logs := [2]localDoc{w.dbs[peer.Source].local["four"], w.dbs[peer.Target].local["four"]}
	w.plan.Reset, w.calls = true, nil
	w.begin()
	w.asksFor("diff", first)
	for side, d := range w.dbs {
		d.local["four"] = localDoc{d.local["four"].rev, logs[side].body}
	}
	w.plan.Reset, w.calls = !w.run.Info().Reset, nil
	w.begin()
	if end := w.wantEnd(Completed, ""); w.feedStart() != "0" || !end.Info.Reset {
		t.Errorf("it begins at %s: %v", w.feedStart(), end)
	}
}

// TestResetOfNothing: a run that starts over and has nothing to copy says that it has started over, too.
func TestResetOfNothing(t *testing.T) {
	w := newWorld(t)
	w.plan.Reset, w.plan.Continuous = true, true
	w.begin()
	for end := w.now.Add(time.Minute); w.now < end; {
		w.proceed(first)
	}
	if len(w.told) == 0 || !w.told[0].info.Reset {
		t.Errorf("told %+v", w.told)
	}
}

// TestResetStopped: a run that starts over and is stopped before it has a checkpoint has not carried the order out,
// though it has read all changes.
func TestResetStopped(t *testing.T) {
	w, stops := newWorld(t), false
	w.fill(20)
	w.begin()
	w.wantEnd(Completed, "")
	w.plan.Reset, w.plan.Continuous = true, true
	w.fault = func(c Call) fault {
		_, is := c.Op.(peer.DiffRevs)
		if stops = stops || is && w.run.feed.caught; is {
			return fails
		}
		return works
	}
	w.begin()
	for !stops {
		w.proceed(first)
	}
	w.step(Stop{})
	if w.end.Cause != Stopped || w.end.Info.Reset {
		t.Errorf("%v, reset %v, calls %v", w.end, w.end.Info.Reset, w.calls)
	}
}

// TestResetOfBackup: a database is put back to a backup from before the reset, before the run has a checkpoint of its
// own. The run does not write its own over the log of the backup, as if that were of a run before.
func TestResetOfBackup(t *testing.T) {
	for _, compares := range []bool{true, false} {
		for side := range peer.Side(2) {
			w := newWorld(t)
			if !compares {
				w.comparesNothing()
			}
			w.fill(3)
			w.begin()
			w.wantEnd(Completed, "")
			backup := w.dbs[side].backup()
			w.dbs[peer.Source].write("lost", "1-a")
			w.plan.Reset = true
			w.begin()
			for w.run.info.DocsWritten == 0 {
				w.proceed(first)
			}
			w.dbs[side] = backup
			w.dbs[peer.Source].write("new", "1-a")
			w.wantEnd(Crashed, "checkpoint_commit_failure: ")
			if w.run.Info().Reset {
				t.Error("the reset is told to be over")
			}
			w.begin()
			if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
				t.Errorf("the %s is put back, and %s does not come", side, w.uncovered(w.dbs[peer.Source].seq))
			}
		}
	}
}

// TestResetKeepsState: a source that keeps its log as a run starts over is known to have the state of the list that it
// tells.
func TestResetKeepsState(t *testing.T) {
	r := New(Plan{List: checkpoint.List{Job: "j"}})
	of := checkpoint.Entry{SessionID: "a", RecordedSeq: "5", State: checkpoint.List{Job: "j", Changes: 7}}
	r.sides[peer.Source].log = checkpoint.Log{SessionID: "a", SourceLastSeq: "5", History: []checkpoint.Entry{of}}
	r.opener.declined[peer.Source] = &peer.Failure{}
	if r.opener.restart(); r.info.ListSaved != [2]int64{peer.Source: 7} {
		t.Errorf("states %v of the list are saved", r.info.ListSaved)
	}
}

// TestResetAfterLeft: a job whose list something has left is reset. The next run goes on from the new checkpoints: that
// they tell no state of the list, which is empty, does not mean that a database was put back.
func TestResetAfterLeft(t *testing.T) {
	s := newShared(t)
	s.plan.OnRefusal = spec.RetryRefused
	s.bad["doc7"] = true
	s.runs("a")
	delete(s.bad, "doc7")
	s.runs("a")
	if s.left == 0 || len(s.list) > 0 {
		t.Fatalf("%v is listed", s.list)
	}
	s.plan.Reset, s.saved = true, [2]int64{}
	if from := s.runs("a"); from != "0" {
		t.Errorf("a run that is to start over begins at %s", from)
	}
	s.plan.Reset = false
	if from := s.runs("a"); from != `"40-opaque"` {
		t.Errorf("the run after that begins at %s", from)
	}
}
