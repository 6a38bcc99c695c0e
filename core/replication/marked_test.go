package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// numbers has the servers number their changes, and tell when they were started in the place of instance_start_time, as
// PouchDB's do: a database that is made again has the same one.
func (w *world) numbers() {
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.Open)
		if !is {
			return nil
		}
		d := w.dbs[op.Side]
		seq := peer.Seq(seqOf(d.seq).Ordinal())
		return &peer.Reply{Result: peer.Opened{UpdateSeq: seq, InstanceStartTime: d.start}}
	}
}

// TestMadeAgainBeforeFirstCheckpoint: a database of a server that numbers its changes is made again before it gets its
// first checkpoint. The checkpoint is about the database before, and the new one does not take it.
func TestMadeAgainBeforeFirstCheckpoint(t *testing.T) {
	for side := range peer.Side(2) {
		w := newWorld(t)
		w.numbers()
		w.fill(3)
		w.begin()
		for w.run.info.DocsWritten < 3 {
			w.proceed(first)
		}
		w.remake(side, w.dbs[side].start)
		w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: the checkpoint document on the %s database", side))
		w.dbs[peer.Source].write("new", "1-a")
		w.begin()
		if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
			t.Errorf("the %s is made again, and not all comes", side)
		}
	}
}

// TestMadeAgainAndMarked: a database of a server that numbers its changes is made again under a run, and another job
// with the same checkpoints writes as many logs to it as this run had written to the one before. So their revisions are
// equal, and the new one would take the next checkpoint of this run.
func TestMadeAgainAndMarked(t *testing.T) {
	others := []checkpoint.Log{{Mark: "other"}, {Mark: "other", SessionID: "another", SourceLastSeq: `"1-opaque"`}}
	for side := range peer.Side(2) {
		for checkpoints, log := range others {
			w := newWorld(t)
			w.plan.Continuous = true
			w.numbers()
			w.fill(3)
			w.begin()
			for w.run.info.DocsWritten < 3 || w.dbs[peer.Source].local["four"].rev <= checkpoints {
				w.proceed(first)
			}
			if one, two := w.logOn(peer.Source).Mark, w.logOn(peer.Target).Mark; one == "" || one == two {
				t.Errorf("after %d checkpoints the logs have the marks %q and %q", checkpoints, one, two)
			}
			w.remake(side, w.dbs[side].start)
			w.dbs[side].local["four"] = localDoc{1 + checkpoints, log.Encode(false)}
			w.dbs[peer.Source].write("new", "1-a")
			w.dbs[peer.Source].write("newer", "1-a")
			w.dbs[peer.Source].write("newest", "1-a")
			w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: the checkpoint document on the %s", side))
			w.begin()
			w.until(time.Minute)
			if lacks := w.uncovered(w.dbs[peer.Source].seq); lacks != "" {
				t.Errorf("the %s is made again after %d checkpoints, and %s does not come", side, checkpoints, lacks)
			}
		}
	}
}

// TestMarksStay: all checkpoints of a database have the mark of its first log, by which a run knows it that found no
// other log there.
func TestMarksStay(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.numbers()
	w.begin()
	marks := func() [2]string { return [2]string{w.logOn(peer.Source).Mark, w.logOn(peer.Target).Mark} }
	w.asksFor("read changes", first)
	was := marks()
	for n := range 3 {
		w.dbs[peer.Source].write(fmt.Sprint("new", n), "1-a")
		for w.dbs[peer.Source].local["four"].rev <= n+1 {
			w.proceed(first)
		}
		if got := marks(); got != was {
			t.Errorf("checkpoint %d has the marks %q, the first logs had %q", n+1, got, was)
		}
	}
}

// TestMadeAgainAfterRefusal: a database refuses the empty log for a moment, and is made again before the first
// checkpoint.
func TestMadeAgainAfterRefusal(t *testing.T) {
	for side, code := range []int{peer.Source: 404, peer.Target: 403} { // a source that answers 403 counts as read-only
		w := newWorld(t)
		w.numbers()
		w.fill(3)
		refused := status(code)
		w.answer = func(c Call) *peer.Failure {
			if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Side(side) {
				return &refused
			}
			return nil
		}
		w.begin()
		for w.run.info.DocsWritten < 3 {
			w.proceed(first)
		}
		w.answer = nil
		w.remake(peer.Side(side), w.dbs[side].start)
		end := w.runToEnd(first)
		refusal := fmt.Sprintf("checkpoint_commit_failure: the %s database refused a log", peer.Side(side))
		got := end.Trouble.String()
		if end.Cause != Crashed || !strings.HasPrefix(got, refusal) || !strings.Contains(got, fmt.Sprint(code)) {
			t.Errorf("%s: the answer was %d", got, code)
		}
		w.dbs[peer.Source].write("new", "1-a")
		w.begin()
		if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
			t.Errorf("the %s is made again, and not all comes: %v", peer.Side(side), w.calls)
		}
	}
}

// TestReadOnlyRefusesOtherwise: a source that stores no logs refuses the empty one with a status that does not say so,
// as a proxy does for a moment. The run goes on from the target's log, and writes its checkpoints there.
func TestReadOnlyRefusesOtherwise(t *testing.T) {
	w := newWorld(t)
	w.numbers()
	w.refuseLogs(403)
	w.fill(3)
	w.begin()
	w.wantEnd(Completed, "")
	for n, code := range []int{418, 404, 403} {
		w.refuseLogs(code)
		w.dbs[peer.Source].write(fmt.Sprint("new", n), "1-a")
		w.calls = nil
		w.begin()
		end := w.wantEnd(Completed, "")
		if from := w.feedStart(); from != string(seqOf(int64(3+n))) || !end.Info.SourceReadOnly {
			t.Errorf("after %d the run begins at %s; %+v", code, from, end.Info)
		}
	}
}

// TestMadeAgainWhileLogIsCopied: a database of a server that numbers its changes is made again at any moment at which a
// run copies a log of an older server's id to the present id. The new one has no part in that log.
func TestMadeAgainWhileLogIsCopied(t *testing.T) {
	for side := range peer.Side(2) {
		for after := range 12 {
			w := newWorld(t)
			w.numbers()
			w.fill(3)
			w.begin()
			w.wantEnd(Completed, "")
			w.ageLogs()
			w.begin()
			for range after {
				w.proceed(first)
			}
			w.remake(side, w.dbs[side].start)
			w.runToEnd(first)
			w.dbs[peer.Source].write("new", "1-a")
			w.begin()
			if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
				t.Errorf("the %s is made again after %d answers, and not all comes: %v", side, after, w.calls)
			}
		}
	}
}

// TestOlderLogCannotBeReadAgain: a run whose log is to be copied from an older id, and cannot be read there once more,
// ends and says so. It copies nothing.
func TestOlderLogCannotBeReadAgain(t *testing.T) {
	for _, side := range []string{"source", "target"} {
		w := newWorld(t)
		w.numbers()
		w.fill(3)
		w.begin()
		w.wantEnd(Completed, "")
		w.ageLogs()
		w.failOn("get "+side+" _local/three", 3, status(400)) // after it was found, and found of this database
		w.begin()
		w.wantEnd(Crashed, "checkpoint_commit_failure: GET http://h/db/: 400")
	}
}

// comparesNothing has the servers take a log whatever it replaces, as CouchDB's clusters do.
func (w *world) comparesNothing() {
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.PutLocal)
		if !is {
			return nil
		}
		if op.Rev = ""; w.dbs[op.Side].local["four"].body != nil {
			op.Rev = fmt.Sprint("0-", w.dbs[op.Side].local["four"].rev)
		}
		reply := w.apply(Call{ID: c.ID, Op: op}, false)
		return &reply
	}
}

// TestPutBackUnderBusyRun: a database of a cluster is put back to a backup with an older log while a run is at work.
// The run does not write its next log over that, so that the changes since the backup come again.
func TestPutBackUnderBusyRun(t *testing.T) {
	for side := range peer.Side(2) {
		w := newWorld(t)
		w.plan.Continuous = true
		w.comparesNothing()
		w.fill(2)
		w.begin()
		copied := func(n int64) {
			for w.run.info.CheckpointedSeq != seqOf(n) {
				w.proceed(first)
			}
		}
		copied(2)
		backup := w.dbs[side].backup()
		w.dbs[peer.Source].write("lost", "1-a")
		copied(3)
		w.dbs[side] = backup
		w.dbs[peer.Source].write("new", "1-a")
		w.dbs[peer.Source].write("newer", "1-a") // a source has as many changes again, and one more
		w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: the checkpoint document on the %s", side))
		w.plan.Continuous = false
		w.begin()
		if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
			t.Errorf("the %s is put back, and %s does not come", side, w.uncovered(w.dbs[peer.Source].seq))
		}
	}
}

// TestMadeAgainInOldCluster: a cluster that gives all of its databases the instance_start_time 0, and takes logs
// whatever they replace, makes a database again under a run, before its first checkpoint or behind it.
func TestMadeAgainInOldCluster(t *testing.T) {
	for _, through := range []peer.Seq{"0", seqOf(3)} {
		for side := range peer.Side(2) {
			w := newWorld(t)
			w.plan.Continuous = true
			w.fill(3)
			for _, d := range w.dbs {
				d.start = "0"
			}
			w.comparesNothing()
			w.begin()
			for w.run.info.DocsWritten < 3 || w.run.info.CheckpointedSeq != through {
				w.proceed(first)
			}
			if through != "0" {
				w.dbs[peer.Source].write("more", "1-a")
				w.proceed(first)
			}
			w.remake(side, "0")
			w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: the checkpoint document on the %s", side))
			w.dbs[peer.Source].write("new", "1-a")
			w.plan.Continuous = false
			w.begin()
			if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
				t.Errorf("the %s is made again, and not all comes", side)
			}
		}
	}
}

// TestEmptyLogs: where instance_start_time does not tell databases of one name apart, each side has a log before
// anything is read. A request whose answer is lost is repeated, and the next run finds the log.
func TestEmptyLogs(t *testing.T) {
	w := newWorld(t)
	w.numbers()
	lost := 0
	w.fault = func(c Call) fault {
		if _, is := c.Op.(peer.PutLocal); is && lost < 2 {
			lost++
			return loses
		}
		return works
	}
	w.begin()
	w.asksFor("read changes", first)
	if w.count("put source") != 2 || w.count("put target") != 2 {
		t.Errorf("it writes %v", w.calls)
	}
	for side := range peer.Side(2) {
		if log, rev := w.logOn(side), w.dbs[side].local["four"].rev; !log.Empty() || rev != 1 {
			t.Errorf("the %s has %+v in revision %d", side, log, rev)
		}
	}
	w.dbs[peer.Source].write("new", "1-a") // so that a checkpoint replaces them
	w.wantEnd(Completed, "")
	w.calls = nil
	w.begin()
	if w.wantEnd(Completed, ""); w.count("put") > 0 {
		t.Errorf("the run after writes %v", w.calls)
	}
}

// TestNoEmptyLogs: none is written to servers that tell databases apart, nor without checkpoints.
func TestNoEmptyLogs(t *testing.T) {
	for _, use := range []bool{true, false} {
		w := newWorld(t)
		if w.plan.UseCheckpoints = use; !use {
			w.numbers()
		}
		w.begin()
		if w.wantEnd(Completed, ""); w.count("put") > 0 {
			t.Errorf("checkpoints %v: it writes %v", use, w.calls)
		}
	}
}

// TestEmptyLogRefused: a side that refuses to store the empty log gets the documents none the less, as one that refuses
// its checkpoints.
func TestEmptyLogRefused(t *testing.T) {
	for _, code := range []int{403, 404, 409} {
		for side := range peer.Side(2) {
			w := newWorld(t)
			w.numbers()
			w.fill(2)
			w.answer = func(c Call) *peer.Failure {
				refused := status(code)
				if put, is := c.Op.(peer.PutLocal); is && put.Side == side {
					return &refused
				}
				return nil
			}
			w.begin()
			end := w.runToEnd(first)
			if want := code == 403 && side == peer.Source; (end.Cause == Completed) != want || w.uncovered(2) != "" {
				t.Errorf("the %s answers %d: %v, and lacks %q", side, code, end, w.uncovered(2))
			}
		}
	}
}

// TestMadeAgainWithoutCheckpoints: an idle run without checkpoints notices that a database was made again whose server
// gives it the same instance_start_time: it has fewer changes.
func TestMadeAgainWithoutCheckpoints(t *testing.T) {
	for side := range peer.Side(2) {
		w := newWorld(t)
		w.numbers()
		w.plan.UseCheckpoints, w.plan.Continuous = false, true
		w.fill(3)
		w.begin()
		for end := w.now.Add(leastLook + time.Second); w.now < end; {
			w.proceed(first)
		}
		w.remake(side, w.dbs[side].start)
		w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: the %s database has fewer changes", side))
	}
}

// TestClusterLagsBehindItself: the number of changes of a cluster may go back, as another copy answers.
func TestClusterLagsBehindItself(t *testing.T) {
	w := newWorld(t)
	w.plan.UseCheckpoints, w.plan.Continuous = false, true
	w.fill(9)
	w.begin()
	w.until(leastLook / 2)
	opened := w.count("open")
	w.reply = func(c Call) *peer.Reply {
		if op, is := c.Op.(peer.Open); is {
			return &peer.Reply{Result: peer.Opened{UpdateSeq: seqOf(1), InstanceStartTime: w.dbs[op.Side].start}}
		}
		return nil
	}
	if w.until(leastLook); w.end != nil || w.count("open") == opened {
		t.Errorf("looked %d times, ended with %v", w.count("open")-opened, w.end)
	}
}

// TestMadeAgainWithMore: an idle run without checkpoints compares with its last look, and with what its feed has told
// since: a database made again has fewer changes than then, and more than when the run began.
func TestMadeAgainWithMore(t *testing.T) {
	for _, c := range []struct {
		side  peer.Side
		after time.Duration
	}{{peer.Source, 2 * leastLook}, {peer.Target, 2 * leastLook}, {peer.Source, leastLook / 2}} {
		w := newWorld(t)
		w.numbers()
		w.plan.UseCheckpoints, w.plan.Continuous = false, true
		w.fill(3)
		w.begin()
		w.until(time.Second)
		w.fill(9)
		w.until(c.after)
		w.remake(c.side, w.dbs[c.side].start)
		for i := range 5 {
			w.dbs[c.side].write(fmt.Sprint("doc", i), "1-a")
		}
		w.wantEnd(Crashed, fmt.Sprintf("checkpoint_commit_failure: the %s database has fewer changes", c.side))
	}
}

// TestBeginsAhead: where the run begins is what a log says, and no word of the source: one whose numbers are behind it
// has no fewer changes than before.
func TestBeginsAhead(t *testing.T) {
	w := newWorld(t)
	w.numbers()
	w.fill(3)
	w.begin()
	w.wantEnd(Completed, "")
	w.plan.Continuous = true
	w.reply = func(c Call) *peer.Reply {
		switch op := c.Op.(type) {
		case peer.ReadChanges:
			return &peer.Reply{Result: peer.Changes{End: true, LastSeq: "1"}}
		case peer.Open:
			if op.Side == peer.Source {
				return &peer.Reply{Result: peer.Opened{UpdateSeq: "1", InstanceStartTime: w.dbs[op.Side].start}}
			}
		}
		return nil
	}
	opened := w.count("open")
	w.begin()
	if w.until(2 * leastLook); w.end != nil || w.count("open") < opened+4 {
		t.Errorf("opened %d times, ended with %v", w.count("open")-opened, w.end)
	}
}

// TestMadeAgainWritable: a source refuses the empty log, and is made again before the first checkpoint as one that
// stores logs, and has the first document again. The checkpoint is of the database before, so the new one gets none of
// it.
func TestMadeAgainWritable(t *testing.T) {
	w := newWorld(t)
	w.numbers()
	w.plan.BatchSize = 1
	w.fill(3)
	readOnly := status(403)
	w.answer = func(c Call) *peer.Failure {
		if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Source {
			return &readOnly
		}
		return nil
	}
	w.begin()
	for w.run.info.DocsWritten < 3 {
		w.proceed(first)
	}
	w.remake(peer.Source, w.dbs[peer.Source].start)
	w.dbs[peer.Source].write("doc0", "1-a")
	w.answer = nil
	w.wantEnd(Completed, "")
	w.dbs[peer.Source].write("new", "1-a")
	w.begin()
	if w.wantEnd(Completed, ""); w.uncovered(w.dbs[peer.Source].seq) != "" {
		t.Error("the source is made again, and not all comes")
	}
}
