package replication

import (
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestSinceSeqBehindBareLogs: since_seq is for replications without a checkpoint. Logs of some programs have one, and
// no history.
func TestSinceSeqBehindBareLogs(t *testing.T) {
	w := newWorld(t)
	w.fill(5)
	w.since, w.plan.SinceSeq = 3, `"1-opaque"`
	for side := range w.dbs {
		body := checkpoint.Log{SessionID: "s", SourceLastSeq: `"3-opaque"`}.Encode(false)
		w.dbs[side].local["four"] = localDoc{1, body}
	}
	w.begin()
	if w.wantEnd(Completed, ""); w.feedStart() != `"3-opaque"` {
		t.Errorf("the run began at %s", w.feedStart())
	}
}

// TestEmptyLogBehindTooManyRequests: a database whose server asks to slow down has not refused its first log. The run
// ends, and the next one goes slower.
func TestEmptyLogBehindTooManyRequests(t *testing.T) {
	for side := range peer.Side(2) {
		w := newWorld(t)
		w.numbers()
		w.fill(2)
		w.failOn("put "+side.String(), 0, status(429))
		w.begin()
		if end := w.wantEnd(Crashed, "max_backoff"); !end.Trouble.Throttled || w.feedStart() != "nowhere" {
			t.Errorf("%s: %s, read from %s", side, end, w.feedStart())
		}
	}
}

// TestReadOnlySourceWithoutStart: a read-only source that numbers its changes, and does not tell which database it is,
// may have been made again with the same document at the same number. The target's log alone proves nothing.
func TestReadOnlySourceWithoutStart(t *testing.T) {
	for start, want := range map[string]string{"0": "0", "": "0", "1": `"3-opaque"`} {
		w := newWorld(t)
		w.numbers()
		w.dbs[peer.Source].start = start
		w.refuseLogs(403)
		w.fill(3)
		w.begin()
		w.wantEnd(Completed, "")
		w.calls = nil
		w.begin()
		if w.wantEnd(Completed, ""); w.feedStart() != want {
			t.Errorf("instance_start_time %q: the run began at %s, want %s", start, w.feedStart(), want)
		}
	}
}

// TestReadOnlySourceWithoutRows: a run reads nothing of a read-only source but where it is, behind a filter. Its
// checkpoint knows the source by the change of the one before, so the next run does not begin anew.
func TestReadOnlySourceWithoutRows(t *testing.T) {
	w := readOnlyWorld(t, 403)
	for range 3 {
		w.dbs[peer.Source].seq += 5
		w.calls = nil
		w.begin()
		w.wantEnd(Completed, "")
		if from := w.feedStart(); from != `"3-opaque"` {
			t.Fatalf("the run began at %s", from)
		}
	}
}

// TestReadOnlySourcePutBackBehindCheckpoint: a read-only source is put back once its run has begun, and gets another
// change. The run's first checkpoint notices that the last change of the run before is gone.
func TestReadOnlySourcePutBackBehindCheckpoint(t *testing.T) {
	w := readOnlyWorld(t, 403)
	w.dbs[peer.Source].write("new", "1-a")
	w.begin()
	for w.run.phase != copying {
		w.proceed(first)
	}
	w.dbs[peer.Source].forget("doc2")
	w.wantEnd(Crashed, "checkpoint_commit_failure: the source database lacks a revision of document \"doc2\"")
}

// TestReadOnlySourcePutBackBehindIdleRun: a read-only source is put back before the run behind the target's log has
// anything to checkpoint. Nothing in the feed need tell, so the run's look does.
func TestReadOnlySourcePutBackBehindIdleRun(t *testing.T) {
	w := readOnlyWorld(t, 403)
	w.plan.Continuous = true
	w.begin()
	for w.run.phase != copying {
		w.proceed(first)
	}
	w.dbs[peer.Source].forget("doc2")
	w.wantEnd(Crashed, "checkpoint_commit_failure: the source database lacks a revision of document \"doc2\"")
}

// TestGoneOnStaysInLog: another run has gone on from a checkpoint of this one. The next checkpoint of this one keeps
// that of the other run, as older logs of the databases may have it.
func TestGoneOnStaysInLog(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(2)
	w.begin()
	for w.run.commits.step != writingSource {
		w.proceed(first)
	}
	log := w.logOn(peer.Target)
	log.SessionID, log.SourceLastSeq = "after", `"2-opaque"`
	log.History = append([]checkpoint.Entry{{SessionID: "after", RecordedSeq: `"2-opaque"`}}, log.History...)
	w.dbs[peer.Source].local["four"] = localDoc{7, log.Encode(false)}
	for w.run.commits.busy() {
		w.proceed(first)
	}
	w.dbs[peer.Source].write("new", "1-a")
	for w.run.info.CheckpointedSeq != `"3-opaque"` {
		w.proceed(first)
	}
	if log := w.logOn(peer.Source); !log.Has("after") {
		t.Errorf("the source has %+v", log)
	}
}

// TestMovesDuringCheckpoint: the feed moves on without rows while a checkpoint is written. The next one covers that.
func TestMovesDuringCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(2)
	w.begin()
	for !w.run.commits.busy() {
		w.proceed(first)
	}
	w.dbs[peer.Source].seq += 3
	read := func(c Call) bool { _, is := c.Op.(peer.ReadChanges); return !is }
	for w.run.info.ThroughSeq != `"5-opaque"` {
		w.proceed(w.but(read))
	}
	if !w.run.commits.busy() {
		t.Fatal("the checkpoint was written meanwhile")
	}
	w.until(2 * idleFactor * w.plan.CheckpointInterval)
	if at := w.run.info.CheckpointedSeq; at != `"5-opaque"` {
		t.Errorf("the last checkpoint is at %s", at)
	}
}

// TestListOfGoneIsTriedAgain: under on_refusal fail the source does not have a listed revision for a while. A run that
// goes on brings it over soon once the source has it again. It asks a few times, however long that takes.
func TestListOfGoneIsTriedAgain(t *testing.T) {
	for away, most := range map[time.Duration]int{5 * time.Minute: 10, time.Hour: 18, 20 * time.Hour: 26} {
		w := leftOut(t)
		w.plan.OnRefusal, w.plan.Continuous, w.vanished = spec.FailRefused, true, true
		w.begin()
		asked := len(copiesOf(w, "doc3", away))
		if w.vanished = false; !w.lists("doc3", "1-a") || w.end != nil || asked < 2 || asked > most {
			t.Fatalf("after %s and %d questions: listed %v, end %v", away, asked, w.list, w.end)
		}
		if w.until(min(away, maxRefusedPause) * 5 / 4); len(w.list) > 0 || !w.dbs[peer.Target].has("doc3", "1-a") {
			t.Errorf("%s after it came back, listed %v", away, w.list)
		}
	}
}

// TestPendingSinceCount: rows that were read while the source counted what is to come are among those that it counted.
func TestPendingSinceCount(t *testing.T) {
	w := newWorld(t)
	w.begin()
	f := &w.run.feed
	f.counted, f.rows = 10, 30
	if f.onPending(peer.Reply{Result: peer.Pending{Count: 100}}); f.pending != 80 {
		t.Errorf("%d are pending", f.pending)
	}
}

// TestLenientWithoutRetries: without retries, too, a lenient run waits whether others get over before it leaves a
// document out.
func TestLenientWithoutRetries(t *testing.T) {
	w := newWorld(t)
	w.plan.Crashes, w.plan.BatchSize, w.plan.Retries = lenientAfter, 40, 0
	w.fill(40)
	down := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500}
	w.bad(down, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &down} })
	w.begin()
	if w.wantEnd(Completed, ""); !w.lists("doc3", "1-a") || len(w.list) != 1 {
		t.Errorf("listed %v", w.list)
	}
}

// TestRefusedComesWithoutAttachments: each attempt to bring a refused revision over leaves out the attachments that the
// target has.
func TestRefusedComesWithoutAttachments(t *testing.T) {
	w := newWorld(t)
	w.plan.OnRefusal, w.plan.Continuous = spec.RetryRefused, true
	w.dbs[peer.Source].write("doc", "2-b", "1-a")
	w.dbs[peer.Target].write("doc", "1-a")
	w.refuses["doc"] = true
	attempts := 0
	w.reply = func(c Call) *peer.Reply {
		if op, is := c.Op.(peer.CopyDoc); is {
			if attempts++; !slices.Equal(op.Since, []string{"1-a"}) {
				t.Errorf("attempt %d is since %q", attempts, op.Since)
			}
		}
		return nil
	}
	w.begin()
	if w.until(time.Hour); attempts < 3 {
		t.Errorf("%d attempts", attempts)
	}
}

// TestReplacedLeavesTheList: of a document that was refused, and refused again in a newer revision, the newer one alone
// is listed.
func TestReplacedLeavesTheList(t *testing.T) {
	w := newWorld(t)
	w.plan.OnRefusal = spec.RetryRefused
	w.fill(1)
	w.refuses["doc0"] = true
	path := []string{}
	for _, rev := range []string{"1-a", "2-b", "3-c"} {
		path = append([]string{rev}, path...)
		w.dbs[peer.Source].write("doc0", path...)
		w.begin()
		if w.wantEnd(Completed, ""); len(w.list) != 1 || w.list[peerRev{"doc0", rev}] == nil {
			t.Errorf("after %s the list has %v", rev, w.list)
		}
	}
}

// TestPartsTellNothing: of a write that was too large, and is made in parts, no part says how fast its bytes arrive.
func TestPartsTellNothing(t *testing.T) {
	w := newWorld(t)
	w.docSize, w.maxWrite = 2*leastCompressed, 1
	w.fill(12)
	w.begin()
	w.wantEnd(Completed, "")
	if p := w.run.work.packing.paces; p[0].bytes != 0 || p[0].told != 0 {
		t.Errorf("parts have told that %d bytes took %s", p[0].bytes, p[0].took)
	}
}

// TestSourceStoresLogsWithinRun: once the source of a run stores logs again, the target's names nothing in place of
// one.
func TestSourceStoresLogsWithinRun(t *testing.T) {
	w := readOnlyWorld(t, 403)
	w.refuseLogs(0)
	w.plan.Continuous = true
	w.begin()
	for i := range int64(2) {
		w.dbs[peer.Source].write("new"+seqOf(i).Ordinal(), "1-a")
		for w.run.info.CheckpointedSeq != seqOf(4+i) {
			w.proceed(first)
		}
	}
	if log := w.logOn(peer.Target); log.ReadOnly != nil || w.logOn(peer.Source).SessionID != log.SessionID {
		t.Errorf("the target's log is %+v, %+v", log, log.ReadOnly)
	}
}

// TestRefusedAnew: a revision that left the list, and is refused again after the pass, is tried again as soon as any
// other.
func TestRefusedAnew(t *testing.T) {
	w := newWorld(t)
	w.plan.OnRefusal = spec.RetryRefused
	w.begin()
	f := &w.run.refused
	f.begin()
	f.passing, f.found, f.tried = true, map[uint64]bool{}, map[peerRev]int{{"d", "1-a"}: 9}
	f.endPass()
	f.list(&batch{}, Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Status: 403}})
	if wait := f.next.Sub(w.run.now); wait != firstRefusedPause || f.listed != 1 {
		t.Errorf("tried again in %s, with %d listed", wait, f.listed)
	}
}

// TestFailedAsPassBegins: what could not be copied, and is not stored as a pass begins, is on no page of it. Under
// skip, too, it is tried again.
func TestFailedAsPassBegins(t *testing.T) {
	w := newWorld(t)
	w.begin()
	f := &w.run.refused
	f.begin()
	f.list(&batch{}, Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Status: 500}, Failed: true})
	f.passBy(0)
	f.passWhenDue()
	if f.onPage(RefusedPage{}); f.passing || !f.failing {
		t.Errorf("passing %v, something has failed: %v", f.passing, f.failing)
	}
}

// TestListBoundsWhatIsListed: the target refuses a listed revision again. It counts once more if the pass began before
// the store had heard that the revision is over: first it leaves the list then.
func TestListBoundsWhatIsListed(t *testing.T) {
	again := Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Status: 403}}
	over := Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a"}, Over: true}
	for _, queue := range [][]filed{nil, {{Finding: over}}} {
		r := New(Plan{})
		r.plan.OnRefusal, r.plan.BatchSize = spec.RetryRefused, 10
		f := &r.refused
		f.begin()
		f.queue, f.listed, f.next = queue, int64(1-len(queue)), f.now
		f.passWhenDue()
		f.tried = map[peerRev]int{{"d", "1-a"}: 1}
		if f.list(&batch{retries: true}, again); f.listed != 1 {
			t.Errorf("of %d findings one is that it is over: %d are listed", len(f.queue), f.listed)
		}
	}
}

// TestAttemptsTellNothingOfRoom: a revision whose name is too long for the list is refused in a way that may pass. The
// target has taken another document since it refused one that was listed, so the run goes on, also when it has tried
// the listed one again in between.
func TestAttemptsTellNothingOfRoom(t *testing.T) {
	w := newWorld(t)
	w.plan.OnRefusal, w.plan.Continuous = spec.RetryRefused, true
	w.fill(1)
	long := strings.Repeat("x", MaxListedName)
	w.unreadable(peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request"}, "doc0", long)
	w.begin()
	w.until(time.Second)
	w.dbs[peer.Source].write("fine", "1-a")
	w.until(5 * time.Minute)
	attempts := w.list[peerRev{"doc0", "1-a"}].attempts
	w.dbs[peer.Source].write(long, "1-a")
	if w.until(time.Second); w.end != nil || attempts < 2 || w.run.Info().Refused <= int64(attempts) {
		t.Errorf("after %d attempts: end %v, %+v", attempts, w.end, w.run.Info())
	}
}
