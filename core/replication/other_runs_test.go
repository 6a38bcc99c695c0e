package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// TestRunBeforeStillStops: the job's run before writes its last checkpoint when this one has begun. This one
// meets it as a conflict, which costs nothing, and keeps it in the log.
func TestRunBeforeStillStops(t *testing.T) {
	for _, had := range []bool{true, false} {
		w := newWorld(t)
		w.fill(2)
		if had {
			w.begin()
			w.wantEnd(Completed, "")
			w.dbs[peer.Source].write("new", "1-a")
		}
		w.begin()
		for w.run.phase != copying {
			w.proceed(first)
		}
		for side := range w.dbs {
			log := w.logOn(peer.Side(side))
			log.SessionID, log.SourceLastSeq = "before", `"1-opaque"`
			log.History = append([]checkpoint.Entry{{SessionID: "before", RecordedSeq: `"1-opaque"`}}, log.History...)
			rev := w.dbs[side].local["four"].rev + 1
			w.dbs[side].local["four"] = localDoc{rev, log.Encode(false)}
		}
		w.wantEnd(Completed, "")
		source, target := w.logOn(peer.Source), w.logOn(peer.Target)
		if source.SessionID != target.SessionID || source.SessionID == "before" || !source.Has("before") {
			t.Errorf("had a log %v: logs %+v and %+v", had, source, target)
		}
	}
}

// TestRunBeforeWritesOverIdleRun: the run before writes its last checkpoint over one of this run, which is idle. The
// next run would begin there, so this one writes its own again, once, if that was newer.
func TestRunBeforeWritesOverIdleRun(t *testing.T) {
	for seq, writes := range map[peer.Seq]int{`"1-opaque"`: 2, `"2-opaque"`: 0} {
		runBeforeWrites(t, seq, writes)
	}
}

func runBeforeWrites(t *testing.T, seq peer.Seq, writes int) {
	t.Helper()
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(2)
	w.begin()
	for w.run.info.CheckpointedSeq != `"2-opaque"` {
		w.proceed(first)
	}
	for side := range w.dbs {
		log := w.logOn(peer.Side(side))
		log.SessionID, log.SourceLastSeq = "before", seq
		before := checkpoint.Entry{SessionID: "before", RecordedSeq: seq}
		log.History = slices.Insert(log.History, 0, before)
		w.dbs[side].local["four"] = localDoc{w.dbs[side].local["four"].rev + 1, log.Encode(false)}
	}
	w.calls = nil
	for end := w.now.Add(24 * time.Hour); w.now < end; {
		w.proceed(first)
	}
	for side := range w.dbs {
		if log := w.logOn(peer.Side(side)); log.SourceLastSeq != `"2-opaque"` || !log.Has("before") {
			t.Errorf("the %s has %+v", peer.Side(side), log)
		}
	}
	w.calls = slices.DeleteFunc(w.calls, func(c string) bool { return !strings.HasPrefix(c, "put") })
	if len(w.calls) != writes {
		t.Errorf("over a checkpoint at %s the run writes %q", seq, w.calls)
	}
}

// TestLateLogOfRunBefore: the database was made again after its commit, and then got the first log of the run before,
// late. This run does not write its own over that: a log that is not the first one of its database would be trusted.
func TestLateLogOfRunBefore(t *testing.T) {
	for side := range peer.Side(2) {
		w := newWorld(t)
		w.fill(2)
		w.begin()
		for w.run.commits.step != writingTarget+commitStep(peer.Target-side) {
			w.proceed(first)
		}
		late := checkpoint.Log{
			SessionID: "before", SourceLastSeq: `"1-opaque"`, InstanceStart: w.dbs[side].start,
			History: []checkpoint.Entry{{SessionID: "before", RecordedSeq: `"1-opaque"`}},
		}
		w.dbs[side].start = "2"
		w.dbs[side].local["four"] = localDoc{1, late.Encode(false)}
		w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: instance_start_time on %s database has", side))
		if log := w.logOn(side); log.SessionID != "before" {
			t.Errorf("the %s has %+v", side, log)
		}
	}
}

// TestRunAfterHasGoneOn: the answer to a write of the log is lost, and by the time that the run asks for it, its job's
// next run has put a newer checkpoint before that. The older one does not come before it.
func TestRunAfterHasGoneOn(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.begin()
	for w.run.commits.step != writingSource {
		w.proceed(first)
	}
	log := w.logOn(peer.Target)
	log.SessionID, log.SourceLastSeq = "after", `"2-opaque"`
	log.History = append([]checkpoint.Entry{{SessionID: "after", RecordedSeq: `"2-opaque"`}}, log.History...)
	w.dbs[peer.Source].local["four"] = localDoc{7, log.Encode(false)}
	w.wantEnd(Completed, "")
	if source := w.logOn(peer.Source); source.SessionID != "after" || len(source.History) != 2 {
		t.Errorf("the source has %+v", source)
	}
}

// TestRunsAfterGoOn: a run that finds at each checkpoint that another one has gone on from it does not go on for ever.
func TestRunsAfterGoOn(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.reply = func(c Call) *peer.Reply {
		if put, is := c.Op.(peer.PutLocal); !is || put.Side == peer.Target || w.apply(c, false).Failure != nil {
			return nil
		}
		log, rev := w.logOn(peer.Source), w.dbs[peer.Source].local["four"].rev
		log.SessionID = fmt.Sprint("after", rev)
		after := checkpoint.Entry{SessionID: log.SessionID, RecordedSeq: log.SourceLastSeq}
		log.History = slices.Insert(log.History, 0, after)
		w.dbs[peer.Source].local["four"] = localDoc{rev + 1, log.Encode(false)}
		conflict := status(409)
		return &peer.Reply{Failure: &conflict}
	}
	w.begin()
	for i := range int64(maxOthers) {
		w.dbs[peer.Source].write(fmt.Sprint("new", i), "1-a")
		for w.end == nil && w.run.info.CheckpointedSeq != seqOf(i+1) {
			w.proceed(first)
		}
	}
	w.dbs[peer.Source].write("last", "1-a")
	w.wantEnd(Crashed, "checkpoint_commit_failure: Error updating the source checkpoint document: conflict")
	if got := w.run.info.CheckpointedSeq; got != seqOf(maxOthers) {
		t.Errorf("it ended after %s", got)
	}
}

// TestOwnLogsGoOn: the answers to all writes of logs are lost. A run that finds its own ones goes on for ever.
func TestOwnLogsGoOn(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.PutLocal); !is || w.apply(c, false).Failure != nil {
			return nil
		}
		conflict := status(409)
		return &peer.Reply{Failure: &conflict}
	}
	w.begin()
	for i := range int64(3 * maxOthers) {
		w.dbs[peer.Source].write(fmt.Sprint("new", i), "1-a")
		for w.end == nil && w.run.info.CheckpointedSeq != seqOf(i+1) {
			w.proceed(first)
		}
	}
	if w.end != nil {
		t.Errorf("it ended with %s", *w.end)
	}
}

// TestRunsBeforeGoOn: nor does a run that finds a newer log of another one whenever it writes its own over that.
func TestRunsBeforeGoOn(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.reply = func(c Call) *peer.Reply {
		rev := w.dbs[peer.Target].local["four"].rev
		if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Target && rev <= maxOthers {
			log := w.logOn(peer.Target)
			log.SessionID = fmt.Sprint("before", rev)
			before := checkpoint.Entry{SessionID: log.SessionID, RecordedSeq: peer.Zero}
			log.History = slices.Insert(log.History, 0, before)
			w.dbs[peer.Target].local["four"] = localDoc{rev + 1, log.Encode(false)}
		}
		return nil
	}
	w.begin()
	w.wantEnd(Crashed, "checkpoint_commit_failure: Error updating the target checkpoint document: conflict")
}

// TestLogDuringReset: a run that starts over does not write its log over one that turns up meanwhile: a run from before
// the reset may have written that.
func TestLogDuringReset(t *testing.T) {
	for _, reset := range []bool{false, true} {
		w := newWorld(t)
		w.plan.Reset = reset
		w.fill(2)
		w.begin()
		for w.run.commits.step != writingTarget {
			w.proceed(first)
		}
		before := checkpoint.Log{
			SessionID: "before", SourceLastSeq: `"1-opaque"`, InstanceStart: w.dbs[peer.Target].start,
			History: []checkpoint.Entry{{SessionID: "before", RecordedSeq: `"1-opaque"`}},
		}
		w.dbs[peer.Target].local["four"] = localDoc{1, before.Encode(false)}
		if reset {
			w.wantEnd(Crashed, "checkpoint_commit_failure: Error updating the target checkpoint document: conflict")
			continue
		}
		w.wantEnd(Completed, "")
	}
}

// TestRunBeforeWritesOneLog: the run before wrote its last checkpoint to one side, late. A read-only source that has
// got a log by that is named by it in the target's; that the target has one does no harm.
func TestRunBeforeWritesOneLog(t *testing.T) {
	for side, writes := range []int{peer.Source: 1, peer.Target: 0} {
		w := readOnlyWorld(t, 403)
		w.plan.Continuous = true
		w.begin()
		for w.run.phase != copying || !w.run.feed.caught {
			w.proceed(first)
		}
		log := w.logOn(peer.Target)
		log.SessionID = "before"
		before := checkpoint.Entry{SessionID: "before", RecordedSeq: log.SourceLastSeq}
		log.History = slices.Insert(log.History, 0, before)
		w.dbs[side].local["four"] = localDoc{w.dbs[side].local["four"].rev + 1, log.Encode(false)}
		w.calls = nil
		for end := w.now.Add(time.Hour); w.now < end; {
			w.proceed(first)
		}
		if n := w.count("put target"); w.end != nil || n != writes {
			t.Errorf("%s: %d checkpoints, ended with %v", peer.Side(side), n, w.end)
		}
	}
}
