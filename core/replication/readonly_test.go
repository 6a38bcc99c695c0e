package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// refuseLogs has the source refuse to store logs from now on; 0 has it store them.
func (w *world) refuseLogs(code int) {
	refused := status(code)
	w.answer = func(c Call) *peer.Failure {
		if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Source && code > 0 {
			return &refused
		}
		return nil
	}
}

// feedStart is where a run began to read.
func (w *world) feedStart() string {
	for _, c := range w.calls {
		if rest, is := strings.CutPrefix(c, "read changes since "); is {
			return strings.Fields(rest)[0]
		}
	}
	return "nowhere"
}

func (w *world) logOn(side peer.Side) checkpoint.Log {
	w.t.Helper()
	body := w.dbs[side].local["four"].body
	if body == nil {
		return checkpoint.Log{}
	}
	log, err := checkpoint.Parse(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return log
}

// readOnlyWorld has a run behind it whose source refused to store logs.
func readOnlyWorld(t *testing.T, status int) *world {
	w := newWorld(t)
	w.refuseLogs(status)
	w.fill(3)
	w.begin()
	if end := w.wantEnd(Completed, ""); !end.Info.SourceReadOnly {
		t.Errorf("info %+v", end.Info)
	}
	w.calls = nil
	return w
}

// TestLastChangeCannotBeAskedFor: a source that does not answer whether it has the last change says nothing against the
// target's log.
func TestLastChangeCannotBeAskedFor(t *testing.T) {
	w := readOnlyWorld(t, 403)
	w.failOn("find", 0, status(500))
	w.begin()
	w.wantEnd(Crashed, "http_request_failed: GET http://h/db/: 500")
	if from := w.feedStart(); from != "nowhere" {
		t.Errorf("the run began at %s", from)
	}
}

func TestReadOnlySource(t *testing.T) {
	for _, status := range []int{401, 403, 405} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := readOnlyWorld(t, status)
			log := w.logOn(peer.Target)
			last := checkpoint.Change{Mark: peer.Mark{ID: "doc2", Rev: "1-a"}, Seq: `"3-opaque"`}
			want := checkpoint.ReadOnly{InstanceStart: "1", Last: last}
			if *log.ReadOnly != want || log.SourceLastSeq != `"3-opaque"` || w.logOn(peer.Source).SessionID != "" {
				t.Errorf("the target's log is %+v, %+v", log, *log.ReadOnly)
			}
			w.dbs[peer.Source].write("new", "1-a")
			w.begin()
			end := w.wantEnd(Completed, "")
			if from := w.feedStart(); from != `"3-opaque"` || end.Info.DocsWritten != 4 {
				t.Errorf("the next run began at %s, and wrote %d documents in all", from, end.Info.DocsWritten)
			}
			if source, target := w.count("put source"), w.count("put target"); source != 1 || target != 1 {
				t.Errorf("a run writes its log once to each side, not %d times and %d times", source, target)
			}
		})
	}
}

func TestReadOnlySourceAnswersWithTargetsLog(t *testing.T) {
	w := newWorld(t)
	w.refuseLogs(403)
	w.fill(1)
	w.begin()
	end := w.wantEnd(Completed, "")
	if log, err := checkpoint.Parse(end.Result); err != nil || log.SourceLastSeq != `"1-opaque"` {
		t.Errorf("result %s, %v", end.Result, err)
	}
}

// TestReadOnlySourceThatTakesNoCommit is about a proxy that lets GET through only. It is not asked again, and a source
// that was put back behind it is noticed.
func TestReadOnlySourceThatTakesNoCommit(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	refused := status(405)
	w.answer = func(c Call) *peer.Failure {
		switch op := c.Op.(type) {
		case peer.PutLocal:
			if op.Side == peer.Source {
				return &refused
			}
		case peer.Commit:
			if op.Side == peer.Source {
				return &refused
			}
		}
		return nil
	}
	w.fill(2)
	w.begin()
	for i := range 4 {
		seq := seqOf(int64(i + 2))
		for w.run.info.CheckpointedSeq != seq {
			w.proceed(first)
		}
		if log := w.logOn(peer.Target); log.ReadOnly == nil || log.SourceLastSeq != seq {
			t.Errorf("the target's log is %+v", log)
		}
		w.dbs[peer.Source].write(fmt.Sprint("new", i), "1-a")
	}
	if n := w.count("commit source"); n != 1 {
		t.Errorf("the source was asked %d times to make its writes durable", n)
	}
	w.dbs[peer.Source].forget("new2")
	w.wantEnd(Crashed, "checkpoint_commit_failure: the source database lacks")
}

// TestReadOnlySourceIsAnotherOne has no run go on from a log whose source is not the one that it was.
func TestReadOnlySourceIsAnotherOne(t *testing.T) {
	source := func(w *world) *database { return w.dbs[peer.Source] }
	other := localDoc{1, []byte(`{"session_id":"x"}`)}
	const member, known = `"source_read_only":{`, `"session_id":"","instance_start_time":"1"`
	for name, change := range map[string]func(*world){
		"made again":                    func(w *world) { source(w).start = "2" },
		"put back to an earlier state":  func(w *world) { source(w).forget("doc2") },
		"its log is another one":        func(w *world) { source(w).local["four"] = other },
		"the target was made again":     func(w *world) { w.dbs[peer.Target].start = "2" },
		"it tells no last change":       func(w *world) { w.damage(`"last_rev"`, `"last"`) },
		"the member is something else":  func(w *world) { w.damage(member, `"source_read_only":7,"x":{`) },
		"it has no instance_start_time": func(w *world) { w.damage(member+known, member+`"a":""`) },
		"the log is without the member": func(w *world) { w.damage(member, `"other":{`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := readOnlyWorld(t, 403)
			change(w)
			w.begin()
			w.wantEnd(Completed, "")
			if from := w.feedStart(); from != "0" {
				t.Errorf("the run began at %s", from)
			}
		})
	}
}

// TestReadOnlySourceFilledFromACopy: a server with numbers gives a database that is made again within its life the
// instance_start_time of before. The last change is there, at another number.
func TestReadOnlySourceFilledFromACopy(t *testing.T) {
	for at, begin := range map[peer.Seq]string{"2": "0", "3": "3"} {
		w := readOnlyWorld(t, 403)
		w.damage(`"last_seq":"3-opaque"`, `"last_seq":3`)
		w.reply = func(c Call) *peer.Reply {
			switch op := c.Op.(type) {
			case peer.Open:
				if op.Side == peer.Source {
					return &peer.Reply{Result: peer.Opened{UpdateSeq: "9", InstanceStartTime: "1"}}
				}
			case peer.FindRev:
				return &peer.Reply{Result: peer.RevFound{Found: op.At == at}}
			}
			return nil
		}
		w.begin()
		for w.feedStart() == "nowhere" {
			w.proceed(first)
		}
		if from := w.feedStart(); from != begin {
			t.Errorf("the run began at %s for a change at %s", from, at)
		}
	}
}

// damage replaces a text in the target's log.
func (w *world) damage(old, with string) {
	doc := w.dbs[peer.Target].local["four"]
	if !strings.Contains(string(doc.body), old) {
		w.t.Fatalf("no %s in %s", old, doc.body)
	}
	doc.body = []byte(strings.Replace(string(doc.body), old, with, 1))
	w.dbs[peer.Target].local["four"] = doc
}

// TestSourceBecomesReadOnly keeps the log that the source stored before.
func TestSourceBecomesReadOnly(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.begin()
	w.wantEnd(Completed, "")
	w.refuseLogs(401)
	w.dbs[peer.Source].write("new1", "1-a")
	w.dbs[peer.Source].write("new2", "1-a")
	w.begin()
	w.wantEnd(Completed, "")
	log := w.logOn(peer.Target)
	if log.ReadOnly == nil || log.ReadOnly.SessionID != w.logOn(peer.Source).SessionID || log.ReadOnly.SessionID == "" {
		t.Fatalf("the target's log is %+v", log)
	}
	w.calls = nil
	w.begin()
	w.wantEnd(Completed, "")
	if from := w.feedStart(); from != `"4-opaque"` {
		t.Errorf("the run began at %s", from)
	}
}

// TestAgreedCheckpointStays: the checkpoint that the source stored last stays in the target's log, however many
// more the run writes there. Once the source stores logs again, it is the only one that both have.
func TestAgreedCheckpointStays(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.begin()
	for i := range int64(10) {
		w.dbs[peer.Source].write(fmt.Sprint("doc", i), "1-a")
		for w.run.info.CheckpointedSeq != seqOf(i+1) {
			w.proceed(first)
		}
		if agreed := w.logOn(peer.Source).SessionID; agreed == "" || !w.logOn(peer.Target).Has(agreed) {
			t.Fatalf("after %d checkpoints the target's log lacks %q", i+1, agreed)
		}
		w.refuseLogs(401)
	}
}

// runBeforeWrites writes the logs of a run before this one, or on the source alone if this one has found none: it
// writes over the first log of a target that is not in a cluster.
func (w *world) runBeforeWrites(found bool) {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		log := w.logOn(side)
		before := checkpoint.Entry{RecordedSeq: `"2-opaque"`}
		if found {
			before = log.History[0]
		} else if side == peer.Target {
			return
		}
		before.SessionID, log.SessionID, log.SourceLastSeq = "before", "before", before.RecordedSeq
		log.History = append([]checkpoint.Entry{before}, log.History...)
		doc := w.dbs[side].local["four"]
		w.dbs[side].local["four"] = localDoc{rev: doc.rev + 1, body: log.Encode(false)}
	}
}

// TestRunBeforeWritesLogs: the run before writes its last checkpoint on both sides when this one has begun, which then
// is not allowed to ask the source for a commit. The log that it writes alone counts for the next run even so, also if
// it was the first checkpoint.
func TestRunBeforeWritesLogs(t *testing.T) {
	for _, found := range []bool{true, false} {
		w := newWorld(t)
		w.fill(2)
		if found {
			w.begin()
			w.wantEnd(Completed, "")
		}
		w.plan.Continuous, w.calls = true, nil
		w.begin()
		for w.feedStart() == "nowhere" {
			w.proceed(first)
		}
		w.runBeforeWrites(found)
		w.answer = func(c Call) *peer.Failure {
			refused := status(403)
			if c.Op == (peer.Commit{Side: peer.Source}) {
				return &refused
			}
			return nil
		}
		w.dbs[peer.Source].write("new", "1-a")
		for end := w.now.Add(time.Hour); w.now < end; {
			w.proceed(first)
		}
		if w.end != nil {
			t.Fatalf("ended with %+v", w.end)
		}
		w.calls = nil
		w.plan.Continuous = false
		w.begin()
		w.wantEnd(Completed, "")
		if from := w.feedStart(); from != `"3-opaque"` {
			t.Errorf("a checkpoint was found: %v, the next run began at %s", found, from)
		}
	}
}

// TestSourceStoresLogsAgain leaves nothing behind of the time in which the source did not.
func TestSourceStoresLogsAgain(t *testing.T) {
	w := readOnlyWorld(t, 403)
	w.refuseLogs(0)
	for i := range 2 {
		w.dbs[peer.Source].write(fmt.Sprint("new", i), "1-a")
		w.begin()
		if end := w.wantEnd(Completed, ""); end.Info.SourceReadOnly {
			t.Error("the source stored its log, and counts as read-only")
		}
	}
	source, target := w.logOn(peer.Source), w.logOn(peer.Target)
	if source.SessionID != target.SessionID || target.ReadOnly != nil || len(source.History) != 3 {
		t.Errorf("logs are %+v and %+v", source, target)
	}
}

// TestReadOnlyClusterLags asks a source twice for a change that one of its nodes may not have yet, and gives it time in
// between.
func TestReadOnlyClusterLags(t *testing.T) {
	w := readOnlyWorld(t, 403)
	var asked []instant.Time
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.FindRev); is {
			if asked = append(asked, w.now); len(asked) == 1 {
				return &peer.Reply{Result: peer.RevFound{}}
			}
		}
		return nil
	}
	w.begin()
	w.wantEnd(Completed, "")
	if from := w.feedStart(); from != `"3-opaque"` || len(asked) != 2 {
		t.Fatalf("the run began at %s after questions at %v", from, asked)
	}
	if pause := asked[1].Sub(asked[0]); pause < defaultMissingPause {
		t.Errorf("the source had %s", pause)
	}
}

// TestReadOnlySourcePutBackUnderItsRun ends the run before another checkpoint, or at its next look.
func TestReadOnlySourcePutBackUnderItsRun(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.refuseLogs(403)
	w.fill(3)
	w.begin()
	for w.run.info.CheckpointedSeq != `"3-opaque"` {
		w.proceed(first)
	}
	w.dbs[peer.Source].forget("doc2")
	w.wantEnd(Crashed, "checkpoint_commit_failure: the source database lacks")
}

// TestReadOnlySourcePutBackBeforeACheckpoint: the source is put back before the run's first checkpoint, and has what
// was written since. A source whose server does not tell databases apart has refused the empty log by then, and any
// other refuses the first checkpoint.
func TestReadOnlySourcePutBackBeforeACheckpoint(t *testing.T) {
	for _, refused := range []bool{true, false} {
		w := newWorld(t)
		if w.plan.Continuous = true; refused {
			w.numbers()
		}
		w.refuseLogs(403)
		w.fill(3)
		w.begin()
		for !w.dbs[peer.Target].has("doc2", "1-a") {
			w.proceed(first)
		}
		if w.run.readOnly != refused {
			t.Fatalf("the source has refused a log: %v, want %v", w.run.readOnly, refused)
		}
		for _, doc := range []string{"doc0", "doc1", "doc2"} {
			w.dbs[peer.Source].forget(doc)
		}
		w.dbs[peer.Source].write("new", "1-a")
		w.wantEnd(Crashed, "checkpoint_commit_failure: the source database lacks")
	}
}

// TestLockedOutSource crashes when the source neither takes a log nor shows the one that it has.
func TestLockedOutSource(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	refused := status(401)
	w.answer = func(c Call) *peer.Failure {
		if len(w.dbs[peer.Target].local) > 0 && strings.Contains(c.Op.String(), "source _local") {
			return &refused
		}
		return nil
	}
	w.begin()
	w.wantEnd(Crashed, "checkpoint_commit_failure: Error updating the source checkpoint document: ")
}

// TestLogOfLostAnswerBeforeRefusal counts a log that an attempt wrote whose answer was lost.
func TestLogOfLostAnswerBeforeRefusal(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	puts := 0
	w.reply = func(c Call) *peer.Reply {
		if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Source {
			if puts++; puts == 1 {
				w.putLocal(put)
				return &peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}}
			}
			refused := status(401)
			return &peer.Reply{Failure: &refused}
		}
		return nil
	}
	w.begin()
	end := w.wantEnd(Completed, "")
	if end.Info.SourceReadOnly || w.logOn(peer.Target).ReadOnly != nil || puts != 2 {
		t.Errorf("%d attempts, info %+v", puts, end.Info)
	}
}

// TestTargetMadeAgainBeforeRefusal writes no second log to a target that was made again before the first: it
// would count, though the target has none of the documents.
func TestTargetMadeAgainBeforeRefusal(t *testing.T) {
	w := newWorld(t)
	w.refuseLogs(403)
	w.fill(1)
	w.reply = func(c Call) *peer.Reply {
		if put, is := c.Op.(peer.PutLocal); is && put.Side == peer.Target {
			w.dbs[peer.Target].start = "2"
		}
		return nil
	}
	w.begin()
	w.wantEnd(Crashed, "checkpoint_commit_failure: instance_start_time on target database has changed")
	if log := w.logOn(peer.Target); log.ReadOnly != nil {
		t.Errorf("the target's log is %+v", log)
	}
}

// TestRefusedLogBehindTooManyRequests: a source that does not store a log, and asks the run to slow down when that
// looks for it, has not locked the run out.
func TestRefusedLogBehindTooManyRequests(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	refused := false
	w.answer = func(c Call) *peer.Failure {
		no, slow := status(405), status(429)
		switch op := c.Op.(type) {
		case peer.PutLocal:
			if op.Side == peer.Source {
				refused = true
				return &no
			}
		case peer.GetLocal:
			if refused {
				return &slow
			}
		}
		return nil
	}
	w.begin()
	w.wantEnd(Crashed, "max_backoff")
	if !w.end.Trouble.Throttled {
		t.Errorf("it does not say that it was asked to slow down: %+v", w.end)
	}
}

// TestOldLogOfReadOnlySource: a source has a log under the id of an older server, and does not let it be moved. What
// was copied since is not copied again: the target's log knows the source by that log.
func TestOldLogOfReadOnlySource(t *testing.T) {
	for _, server := range []func(*world){func(*world) {}, (*world).numbers} {
		w := newWorld(t)
		server(w)
		w.fill(3)
		w.begin()
		w.wantEnd(Completed, "")
		w.ageLogs()
		w.refuseLogs(403)
		for i, since := range []string{`"3-opaque"`, `"4-opaque"`, `"5-opaque"`} {
			w.dbs[peer.Source].write(fmt.Sprint("new", i), "1-a")
			w.calls = nil
			w.begin()
			w.wantEnd(Completed, "")
			if from := w.feedStart(); from != since {
				t.Errorf("run %d begins at %s, want %s", i+1, from, since)
			}
		}
	}
}
