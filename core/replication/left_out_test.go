package replication

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// wantComes has the target be put back to a backup, which lacks a document that was left out for good and has come
// since, after the source has got another one. All is copied anew, once.
func (s *shared) wantComes(backup *database, id string) {
	s.t.Helper()
	s.dbs[peer.Source].write("new", "1-a")
	s.runs("a")
	s.dbs[peer.Target] = backup
	for _, want := range []string{"0", `"41-opaque"`} {
		if from := s.runs("a"); from != want {
			s.t.Errorf("a run begins at %s, want %s", from, want)
		}
	}
	if !backup.has(id, "1-a") {
		s.t.Errorf("%s is neither on the target nor in the list", id)
	}
}

// leftOut has job a leave out documents for good. It returns a backup of the target.
func (s *shared) leftOut(ids ...string) *database {
	s.plan.OnRefusal = spec.SkipRefused
	for _, id := range ids {
		s.bad[id] = true
	}
	s.runs("a")
	return s.dbs[peer.Target].backup()
}

// TestKilledAfterLeftOutCame: the document comes by order, and the run is killed before it has written a checkpoint.
// The next one cannot know that the target was not put back since: it copies all anew, and writes an empty log and a
// checkpoint. Those after it write none.
func TestKilledAfterLeftOutCame(t *testing.T) {
	s := newShared(t)
	backup := s.leftOut("doc7", "doc9")
	delete(s.bad, "doc7")
	s.as("a")
	s.demand = 5
	s.begin()
	for s.lists("doc7", "1-a") {
		s.proceed(first)
	}
	s.demand = 0
	for _, want := range []int{2, 0, 0} {
		if s.runs("a"); s.count("put target") != want {
			t.Errorf("a run writes %d logs, want %d", s.count("put target"), want)
		}
	}
	s.wantComes(backup, "doc7")
}

// TestLeftOutIsTriedAgain: the document is listed under skip, and comes under retry, at once or after a checkpoint that
// relies on the list.
func TestLeftOutIsTriedAgain(t *testing.T) {
	for _, later := range []bool{false, true} {
		s := newShared(t)
		backup := s.leftOut("doc7")
		s.plan.OnRefusal = spec.RetryRefused
		if later {
			s.runs("a")
		}
		delete(s.bad, "doc7")
		s.runs("a")
		s.wantComes(backup, "doc7")
	}
}

// TestPutBackWithoutCheckpoints: a run that writes no checkpoints may not begin at one either that covers what has left
// the list since.
func TestPutBackWithoutCheckpoints(t *testing.T) {
	s := newShared(t)
	backup := s.leftOut("doc7")
	s.plan.OnRefusal = spec.RetryRefused
	delete(s.bad, "doc7")
	s.runs("a")
	s.dbs[peer.Source].write("new", "1-a")
	s.runs("a")
	s.dbs[peer.Target], s.plan.UseCheckpoints = backup, false
	if from := s.runs("a"); from != "0" || !backup.has("doc7", "1-a") {
		t.Errorf("a run begins at %s, want 0; the target has what was left out: %v", from, backup.has("doc7", "1-a"))
	}
}

// TestPutBackBehindOtherWithoutList: the newest checkpoint of the backup is another job's, which has never listed
// anything, so it tells of no list. The one before it tells of the first job's.
func TestPutBackBehindOtherWithoutList(t *testing.T) {
	s := newShared(t)
	s.leftOut("doc7")
	s.dbs[peer.Source].write("new", "1-a")
	s.since = 40 // what job a has left out is not in the list of job b
	s.runs("b")
	backup := s.dbs[peer.Target].backup()
	delete(s.bad, "doc7")
	s.as("a")
	s.demand = 5
	s.runs("a")
	s.dbs[peer.Target] = backup
	if from := s.runs("a"); !backup.has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
}

// TestKilledBeforeAndAfterLeftOutCame: the run that left the document out is killed before the job's record tells of
// its checkpoint, and the one that brings it before it writes its own. The next one tells the state of the list, though
// that is empty, and the record knows of no checkpoint.
func TestKilledBeforeAndAfterLeftOutCame(t *testing.T) {
	s := newShared(t)
	s.plan.OnRefusal, s.bad["doc7"] = spec.SkipRefused, true
	s.isKilled("a", 2)
	s.saved = [2]int64{}
	backup := s.dbs[peer.Target].backup()
	delete(s.bad, "doc7")
	s.demand = 5
	s.begin()
	for s.lists("doc7", "1-a") {
		s.proceed(first)
	}
	s.wantComes(backup, "doc7")
}

// TestCameWithoutCheckpoints: a listed document comes while the job writes no checkpoints, and then the target is put
// back to a backup. Whether the job writes checkpoints from then on or not, the document comes again.
func TestCameWithoutCheckpoints(t *testing.T) {
	for _, writes := range []bool{false, true} {
		s := newShared(t)
		backup := s.backupBeforeHealing()
		s.plan.UseCheckpoints = false
		s.runs("a")
		s.plan.UseCheckpoints, s.dbs[peer.Target] = writes, backup
		s.runs("a")
		if !backup.has("doc7", "1-a") {
			t.Errorf("with checkpoints %v, doc7 is neither on the target nor in the list", writes)
		}
	}
}

// TestChangedReplicationSavesAnew: a job becomes another replication, and knows nothing of that one's checkpoints.
func TestChangedReplicationSavesAnew(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.changes, w.saved, w.plan.ResumedID = 9, [2]int64{9, 9}, "former"
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.ListSaved != [2]int64{} {
		t.Errorf("it tells %v", end.Info.ListSaved)
	}
}

// TestLateLogOfOldRun: a run of before the present one writes its last checkpoint late, which relies on the list as it
// was. The present run writes its own over it, or the next one would take the databases for put back, and copy all
// anew.
func TestLateLogOfOldRun(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	s.plan.Continuous = true
	s.begin()
	s.until(20 * time.Hour)
	for side, d := range s.dbs {
		log := s.logOn(peer.Side(side))
		late := log.Newest()
		late.SessionID, late.List.Changes = "late", late.List.Changes-1
		log.SessionID, log.History = "late", append([]checkpoint.Entry{late}, log.History...)
		for id, doc := range d.local {
			d.local[id] = localDoc{rev: doc.rev + 1, body: log.Encode(false)}
		}
	}
	s.until(time.Hour / 2)
	if from := s.runs("a"); from != `"40-opaque"` {
		t.Errorf("the next run begins at %s", from)
	}
}

// TestOlderStateIsFound: a run that finds another one's log writes its own checkpoint if that log knows an earlier
// state of the list than the last one that was saved.
func TestOlderStateIsFound(t *testing.T) {
	for state, moved := range map[int64]bool{1: true, 2: false, 3: false} {
		r := New(Plan{List: checkpoint.List{Job: "j"}})
		r.info.ListSaved[peer.Target], r.commits.committed = 2, "5"
		before := checkpoint.Entry{SessionID: "a", RecordedSeq: "5"}
		older := checkpoint.Log{SessionID: "a", SourceLastSeq: "5", History: []checkpoint.Entry{before}}
		r.sides[peer.Target].log = older
		of := checkpoint.Entry{SessionID: "b", RecordedSeq: "5", State: checkpoint.List{Job: "j", Changes: state}}
		log := checkpoint.Log{SessionID: "b", SourceLastSeq: "5", History: []checkpoint.Entry{of, before}}
		found := peer.Local{Found: true, Rev: "0-2", Body: log.Encode(false)}
		r.watch.sawLog(peer.GetLocal{Side: peer.Target}, peer.Reply{Result: found}, func() {})
		if r.commits.moved != moved || r.sides[peer.Target].logRev != "0-2" {
			t.Errorf("state %d: something is to be written: %t; %+v", state, r.commits.moved, r.sides[peer.Target])
		}
	}
}

// TestListBeginsWithoutCheckpoints: a job is made anew, and lists something while it uses no checkpoints. The list is
// not the one that the checkpoints in the databases rely on, so the job does not begin at them as it uses them again.
func TestListBeginsWithoutCheckpoints(t *testing.T) {
	s := newShared(t)
	s.bad["doc37"] = true
	s.runs("a")
	clear(s.list)
	s.changes, s.left, s.saved, s.begins = s.changes+10, 0, [2]int64{}, true
	s.bad["doc3"] = true
	s.plan.UseCheckpoints, s.plan.BatchSize = false, 4
	for s.begin(); len(s.list) == 0; {
		s.proceed(first)
	}
	clear(s.bad)
	s.plan.UseCheckpoints = true
	if from := s.runs("a"); !s.dbs[peer.Target].has("doc37", "1-a") {
		t.Errorf("a run begins at %s, and doc37 is neither on the target nor in the list", from)
	}
}

// TestListBeginsWithFailure: so does one whose on_refusal was fail, as a job ends with a row of what was refused.
func TestListBeginsWithFailure(t *testing.T) {
	s := newShared(t)
	s.bad["doc3"], s.bad["doc37"] = true, true
	s.runs("a")
	clear(s.list)
	s.changes, s.left, s.saved, s.begins = s.changes+10, 0, [2]int64{}, true
	s.plan.UseCheckpoints, s.plan.OnRefusal, s.plan.BatchSize = false, spec.FailRefused, 4
	s.begin()
	if s.wantEnd(Failed, "refused"); !s.lists("doc3", "1-a") || s.lists("doc37", "1-a") {
		t.Fatalf("listed %v", s.list)
	}
	clear(s.bad)
	s.plan.UseCheckpoints, s.plan.OnRefusal = true, spec.RetryRefused
	if from := s.runs("a"); !s.dbs[peer.Target].has("doc37", "1-a") {
		t.Errorf("a run begins at %s, and doc37 is neither on the target nor in the list", from)
	}
}

// TestStoppedAsLeftOutComes: a run is stopped while the store is told that something has left the list. It waits for
// that, and its last checkpoint tells it. The next run need not copy all anew.
func TestStoppedAsLeftOutComes(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"], s.bad["doc9"] = true, true
	s.runs("a")
	delete(s.bad, "doc7")
	s.plan.Continuous = true
	for s.begin(); !s.run.refused.holds(filed.leaves); {
		s.proceed(first)
	}
	s.step(Stop{})
	for len(s.flying) > 0 {
		s.deaf = true
		s.proceed(first)
	}
	s.deaf = false
	for s.end == nil {
		s.proceed(first)
	}
	for _, told := range s.asks { // the store does it all the same
		s.stores(told.(Refused))
	}
	if from := s.runs("a"); from != `"40-opaque"` || s.lists("doc7", "1-a") {
		t.Errorf("the next run begins at %s, and lists %v", from, s.list)
	}
}

// TestKilledInLongPass: a pass takes long. What has left the list is told an interval later: so a run that is killed
// after that goes on from there.
func TestKilledInLongPass(t *testing.T) {
	s := newShared(t)
	for n := range 9 {
		s.bad[fmt.Sprint("doc", n)] = true
	}
	s.runs("a")
	delete(s.bad, "doc0")
	s.plan.Continuous, s.plan.BatchSize, s.demand = true, 1, 5
	s.begin()
	for s.lists("doc0", "1-a") {
		s.proceed(first)
	}
	for began := s.now; s.now.Sub(began) < 4*s.plan.CheckpointInterval; s.now = s.now.Add(time.Second) {
		s.proceed(first)
	}
	if !s.run.refused.passing {
		t.Fatal("the pass is over")
	}
	s.demand = 0
	if from := s.runs("a"); from != `"40-opaque"` {
		t.Errorf("the next run begins at %s", from)
	}
}
