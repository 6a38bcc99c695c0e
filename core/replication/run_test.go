package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.calls, want) {
		w.t.Errorf("calls were\n  %s\nwant\n  %s", strings.Join(w.calls, "\n  "), strings.Join(want, "\n  "))
	}
	w.calls = nil
}

func (w *world) wantEnd(cause Cause, trouble string) End {
	w.t.Helper()
	end := w.runToEnd(first)
	if end.Cause != cause || cause == Crashed && !strings.HasPrefix(end.Trouble.String(), trouble) {
		w.t.Errorf("ended %s, want %s %s", end, cause, trouble)
	}
	return end
}

// failOn makes the nth call that starts with prefix (all of them when n is 0) fail.
func (w *world) failOn(prefix string, n int, f peer.Failure) {
	count := 0
	w.answer = func(c Call) *peer.Failure {
		if strings.HasPrefix(c.Op.String(), prefix) {
			if count++; n == 0 || count == n {
				return &f
			}
		}
		return nil
	}
}

func status(code int) peer.Failure {
	return peer.Failure{Kind: peer.Status, Status: code, Method: "GET", URL: "http://h/db/"}
}

func TestFirstRunThenNothingToDo(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.begin()
	end := w.wantEnd(Completed, "")
	w.wantCalls("open source", "get source _local/four", "get source _local/three",
		"open target", "get target _local/four", "get target _local/three",
		"read changes since 0 limit 12 normal", "diff revs of 2 docs", "fetch 2 docs", "write 2 docs",
		"commit source", "commit target", `put target _local/four rev ""`, `put source _local/four rev ""`)
	if log, err := checkpoint.Parse(end.Result); err != nil || log.SourceLastSeq != `"2-opaque"` ||
		len(log.History) != 1 {
		t.Errorf("result %s, %v", end.Result, err)
	}
	if end.Info.DocsWritten != 2 || end.Info.MissingChecked != 2 || end.Info.CheckpointedSeq != `"2-opaque"` ||
		end.Info.ChangesPending != 0 {
		t.Errorf("info %+v", end.Info)
	}

	w.plan.Resumed = end.Info.Counters
	w.begin()
	end = w.wantEnd(Completed, "")
	w.wantCalls("open source", "get source _local/four", "open target", "get target _local/four",
		`read changes since "2-opaque" limit 12 normal`)
	if !strings.HasPrefix(string(end.Result), `{"no_changes":true,"session_id":"`) {
		t.Errorf("result %s", end.Result)
	}
	if end.Info.DocsWritten != 2 {
		t.Errorf("totals are not resumed from the checkpoint: %+v", end.Info)
	}
}

func TestNothingAtAll(t *testing.T) {
	w := newWorld(t)
	w.begin()
	if end := w.wantEnd(Completed, ""); string(end.Result) != `{"no_changes":true}` {
		t.Errorf("result %s", end.Result)
	}
}

// TestBothLogsAgree: after a run both databases hold the same checkpoint.
func TestBothLogsAgree(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.begin()
	w.wantEnd(Completed, "")
	s, t2 := w.dbs[peer.Source].local["four"], w.dbs[peer.Target].local["four"]
	if len(s.body) == 0 || string(s.body) != string(t2.body) {
		t.Errorf("source has %s, target %s", s.body, t2.body)
	}
}

func TestOldCheckpointIsMigrated(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	body := checkpoint.Log{SessionID: "s", SourceLastSeq: `"2-opaque"`}.Encode(false)
	w.dbs[peer.Target].write("doc0", "1-a")
	w.dbs[peer.Target].write("doc1", "1-a")
	w.dbs[peer.Source].local["three"], w.dbs[peer.Target].local["three"] = localDoc{1, body}, localDoc{1, body}
	w.begin()
	w.wantEnd(Completed, "")
	w.wantCalls("open source", "get source _local/four", "get source _local/three",
		"open target", "get target _local/four", "get target _local/three",
		"get source _local/four", "get target _local/four", "get source _local/three", "get target _local/three",
		`put source _local/four rev ""`, `put target _local/four rev ""`,
		`read changes since "2-opaque" limit 12 normal`)
}

func TestUnreadableCheckpointIsNotOverwritten(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Target].local["four"] = localDoc{1, []byte(`[]`)}
	w.begin()
	w.wantEnd(Crashed, "checkpoint_unreadable: target _local/four")
}

func TestSinceSeq(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.since, w.plan.SinceSeq = 2, `"2-opaque"`
	w.begin()
	end := w.wantEnd(Completed, "")
	if log, err := checkpoint.Parse(end.Result); err != nil || log.History[0].StartSeq != w.plan.SinceSeq {
		t.Errorf("the log %s does not say that it started at since_seq: %v", end.Result, err)
	}
	if w.dbs[peer.Target].has("doc0", "1-a") || !w.dbs[peer.Target].has("doc2", "1-a") {
		t.Error("did not start at since_seq")
	}
	w.dbs[peer.Source].write("doc9", "1-a")
	w.plan.SinceSeq = `"1-opaque"`
	w.calls = nil
	w.begin()
	w.wantEnd(Completed, "")
	if !slices.Contains(w.calls, `read changes since "3-opaque" limit 12 normal`) {
		t.Errorf("the checkpoint did not win: %v", w.calls)
	}
}

// The job was another replication before, as its filter function has changed since.
func TestAnotherReplicationCountsAnew(t *testing.T) {
	for id, want := range map[string]int64{"": 9, "four": 9, "other": 2} {
		w := newWorld(t)
		w.fill(2)
		w.plan.Resumed, w.plan.ResumedID = checkpoint.Counters{DocsWritten: 7}, id
		w.begin()
		if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != want {
			t.Errorf("numbers of %q: ended with %d documents written, want %d", id, end.Info.DocsWritten, want)
		}
	}
}

// TestTotalsDoNotGoBack: totals of the job that are ahead of those in the log stay.
func TestTotalsDoNotGoBack(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.begin()
	w.wantEnd(Completed, "")
	for resumed, want := range map[int64]int64{1: 2, 100: 100} {
		w.plan.Resumed.DocsWritten = resumed
		w.begin()
		if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != want {
			t.Errorf("of %d before: %d documents written, want %d", resumed, end.Info.DocsWritten, want)
		}
	}
}

func TestCreateTarget(t *testing.T) {
	w := newWorld(t)
	w.plan.CreateTarget = true
	w.begin()
	w.wantEnd(Completed, "")
	w.wantCalls("open source", "get source _local/four", "get source _local/three",
		"create target", "open target", "get target _local/four", "get target _local/three",
		"read changes since 0 limit 12 normal")
	w = newWorld(t)
	w.plan.CreateTarget = true
	w.failOn("create", 1, status(403))
	w.begin()
	w.wantEnd(Crashed, "forbidden: GET http://h/db/: 403")
}

// TestTargetIsNotMadeForNothing: a source that cannot be read leaves no empty target behind.
func TestTargetIsNotMadeForNothing(t *testing.T) {
	for code, want := range map[int]string{401: "unauthorized", 403: "forbidden", 404: "db_not_found",
		500: "http_request_failed"} {
		w := newWorld(t)
		w.plan.CreateTarget, w.plan.Retries = true, 1
		w.failOn("open source", 0, status(code))
		w.begin()
		end := w.wantEnd(Crashed, want)
		if slices.Contains(w.calls, "create target") || strings.Contains(end.Trouble.Reason, "created") {
			t.Errorf("%d: calls %v, and ends with %s", code, w.calls, end.Trouble)
		}
	}
}

// TestTargetNotMade: what a server says when it makes no database matters only where there is none.
func TestTargetNotMade(t *testing.T) {
	for _, code := range []int{400, 404, 405, 409, 418} {
		for _, there := range []bool{true, false} {
			w := newWorld(t)
			w.plan.CreateTarget = true
			w.failOn("create", 1, status(code))
			if there {
				w.begin()
				w.wantEnd(Completed, "")
				continue
			}
			refuse, missing := w.answer, status(404)
			w.answer = func(c Call) *peer.Failure {
				if c.Op.String() == "open target" {
					return &missing
				}
				return refuse(c)
			}
			w.begin()
			w.wantEnd(Crashed, fmt.Sprint("db_not_found: could not open http://h/db/, which could not be created: ",
				"GET http://h/db/: ", code))
		}
	}
	for code, want := range map[int]string{401: "unauthorized", 403: "forbidden", 500: "http_request_failed"} {
		w := newWorld(t)
		w.plan.CreateTarget, w.plan.Retries = true, 1
		w.failOn("create", 0, status(code))
		w.begin()
		w.wantEnd(Crashed, want)
	}
}

func TestWithoutCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.plan.UseCheckpoints = false
	w.begin()
	if end := w.wantEnd(Completed, ""); string(end.Result) != `{"use_checkpoints":false}` {
		t.Errorf("result %s", end.Result)
	}
	if len(w.dbs[peer.Source].local)+len(w.dbs[peer.Target].local) > 0 {
		t.Error("wrote a checkpoint")
	}
	w.begin()
	w.rows = func(op peer.ReadChanges) peer.Changes { return peer.Changes{End: true, LastSeq: op.Since} }
	if end := w.wantEnd(Completed, ""); string(end.Result) != `{"no_changes":true}` {
		t.Errorf("without changes the result is %s", end.Result)
	}
}

func TestWithoutBulkGet(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"switched off": func(w *world) { w.plan.UseBulkGet = false },
		"unknown":      func(w *world) { w.failOn("fetch", 0, status(404)) },
		"broken":       func(w *world) { w.failOn("fetch", 0, status(500)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(2)
			w.dbs[peer.Source].write("_design/d", "1-a")
			prepare(w)
			w.begin()
			w.wantEnd(Completed, "")
			for _, want := range []string{`copy "doc0" revs 1-a`, `copy "doc1" revs 1-a`, `copy "_design/d" revs 1-a`} {
				if !slices.Contains(w.calls, want) {
					t.Errorf("no %s in %v", want, w.calls)
				}
			}
		})
	}
}

// TestStopBetweenPolls: a run that is stopped while it pauses between long polls waits for its last
// checkpoint, not for the end of that pause over and over.
func TestStopBetweenPolls(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.CheckpointInterval = true, time.Hour
	w.fill(1)
	w.begin()
	for w.run.feed.resume == 0 || len(w.run.work.batches) > 0 {
		poll := func(c Call) bool { r, is := c.Op.(peer.ReadChanges); return is && r.Wait }
		if i := slices.IndexFunc(w.flying, poll); i >= 0 {
			call := w.flying[i]
			w.flying = slices.Delete(w.flying, i, i+1)
			w.step(Reply{ID: call.ID,
				Reply: peer.Reply{Result: peer.Changes{End: true, LastSeq: call.Op.(peer.ReadChanges).Since}}})
			continue
		}
		w.proceed(first)
	}
	w.step(Stop{})
	if w.end != nil {
		t.Fatal("nothing to checkpoint")
	}
	w.now = w.run.feed.resume
	w.step(Wake{})
	if at := w.run.Deadline(); at <= w.now {
		t.Errorf("wants to be woken at %s, and it is %s", at, w.now)
	}
}

// TestNothingWaitsForTheClock: as long as all goes well, each answer brings the next request.
func TestNothingWaitsForTheClock(t *testing.T) {
	for _, workers := range []int{1, 3} {
		w := newWorld(t)
		w.plan.Workers = workers
		w.fill(60)
		w.attachments["doc7"] = true
		w.begin()
		began := w.now
		w.wantEnd(Completed, "")
		if took := w.now.Sub(began); took != time.Duration(len(w.calls))*10*time.Millisecond {
			t.Errorf("%d workers: %d calls of 10 ms took %s", workers, len(w.calls), took)
		}
	}
}

func TestDelay(t *testing.T) {
	w := newWorld(t)
	w.plan.Delay = 3 * time.Second
	w.begin()
	if len(w.calls) > 0 || w.run.Deadline() != w.now.Add(3*time.Second) {
		t.Errorf("calls %v, deadline %s", w.calls, w.run.Deadline())
	}
	w.wantEnd(Completed, "")
}

// TestIdleCheckpoints: a feed that only words its position anew is not checkpointed, one that moves
// without rows for us is, seldom.
func TestIdleCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	n := int64(0)
	w.rows = func(op peer.ReadChanges) peer.Changes {
		w.now = w.now.Add(time.Second)
		n++
		return peer.Changes{End: true, LastSeq: peer.Seq(fmt.Sprintf(`"7-%d"`, n))}
	}
	w.dbs[peer.Source].seq = 7
	w.begin()
	puts := func() int { return w.dbs[peer.Target].local["four"].rev }
	for end := w.now.Add(10 * time.Minute); w.now < end; {
		w.proceed(first)
	}
	if puts() > 1 {
		t.Errorf("%d checkpoints while nothing moved", puts())
	}
	w.dbs[peer.Source].seq = 1 << 40
	w.rows = func(op peer.ReadChanges) peer.Changes {
		w.now = w.now.Add(time.Second)
		n++
		return peer.Changes{End: true, LastSeq: peer.Seq(fmt.Sprintf(`"%d-x"`, n))}
	}
	for end := w.now.Add(10 * time.Minute); w.now < end; {
		w.proceed(first)
	}
	if got := puts(); got < 8 || got > 14 { // one in ten intervals of five seconds
		t.Errorf("%d checkpoints in ten minutes of moving", got)
	}
}

// TestChangesDuringACheckpoint: what comes over while a checkpoint is written is covered by the next one, in one
// interval and not in ten, as the position alone would be.
func TestChangesDuringACheckpoint(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(1)
	w.begin()
	for w.run.commits.step != writingTarget {
		w.proceed(first)
	}
	w.dbs[peer.Source].write("new", "1-a")
	isPut := func(c Call) bool { _, is := c.Op.(peer.PutLocal); return is }
	for w.run.commits.through != `"2-opaque"` {
		w.proceed(w.but(isPut))
	}
	for w.run.commits.busy() {
		w.proceed(first)
	}
	written := w.now
	for w.run.info.CheckpointedSeq != `"2-opaque"` {
		w.proceed(first)
	}
	if took := w.now.Sub(written); took > 2*w.plan.CheckpointInterval {
		t.Errorf("it took %s", took)
	}
}

func TestEventsPrint(t *testing.T) {
	for _, e := range []fmt.Stringer{
		Begin{}, Identified{}, Wake{}, Stop{}, Reply{ID: 3}, Identify{ID: "x"}, Call{ID: 1, Op: peer.Open{}},
		Cancel{ID: 1}, Release{ID: 1}, Progress{}, End{Cause: Crashed, Trouble: Trouble{Error: "a", Reason: "b"}},
	} {
		if e.String() == "" {
			t.Errorf("%T prints nothing", e)
		}
	}
	if d := New(Plan{}).Deadline(); d != instant.Never {
		t.Error(d)
	}
}
