package replication

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// isKilled has a job begin, and kills it once its logs are written on so many sides.
func (s *shared) isKilled(job string, logs int) {
	s.as(job)
	s.begin()
	was := [2]string{s.logOn(peer.Source).SessionID, s.logOn(peer.Target).SessionID}
	for written := 0; written < logs; {
		s.proceed(first)
		written = 0
		for side, session := range was {
			if s.logOn(peer.Side(side)).SessionID != session {
				written++
			}
		}
	}
}

// backupBeforeHealing has job a list two documents, and then the target take one of them. It returns a backup of the
// target from in between.
func (s *shared) backupBeforeHealing() *database {
	s.bad["doc7"], s.bad["doc9"] = true, true
	s.runs("a")
	backup := s.dbs[peer.Target].backup()
	delete(s.bad, "doc7")
	return backup
}

// TestPutBackBehindOther: a target is put back to a backup that lacks what has left a job's list since. The newest
// checkpoint of the source is of another job, which had not come that far.
func TestPutBackBehindOther(t *testing.T) {
	s := newShared(t)
	backup := s.backupBeforeHealing()
	s.runs("a")
	s.plan.BatchSize, s.plan.CheckpointInterval = 4, time.Nanosecond
	s.isKilled("b", 2)
	if at := s.logOn(peer.Source).SourceLastSeq; !at.Before(seqOf(40)) {
		t.Fatalf("job b has come to %s", at)
	}
	s.dbs[peer.Target] = backup
	from := s.runs("a")
	if !backup.has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
}

// TestMadeAnewBehindOther: a job with a list is made anew. Another one, which had not come that far, has written its
// checkpoint to the target alone. The new list of the first job is not the one that its old checkpoint relies on.
func TestMadeAnewBehindOther(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	s.plan.BatchSize, s.plan.CheckpointInterval = 4, time.Nanosecond
	s.isKilled("b", 1)
	s.as("a")
	clear(s.list)
	s.changes++
	s.bad["doc3"], s.plan.CheckpointInterval = true, time.Hour
	s.begin()
	for len(s.list) == 0 {
		s.proceed(first)
	}
	delete(s.bad, "doc7")
	from := s.runs("a")
	if !s.dbs[peer.Target].has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
}

// TestPutBackAfterKill: something has left a job's list, which only the target's log says, as the run was killed before
// it wrote the source's. The next one says so there, too: else nothing tells that the target was put back to a backup.
func TestPutBackAfterKill(t *testing.T) {
	s := newShared(t)
	backup := s.backupBeforeHealing()
	s.isKilled("a", 1)
	s.plan.Continuous, s.plan.CheckpointInterval = true, time.Second
	s.begin()
	s.until(firstRefusedPause / 2)
	s.dbs[peer.Target] = backup
	s.runs("a")
	if !backup.has("doc7", "1-a") {
		t.Error("doc7 is neither on the target nor in the list")
	}
}

// TestPutBackAfterKillNothingIsTried: as before, but what is left in the list is not tried again, so the target's
// newest checkpoint relies on no list.
func TestPutBackAfterKillNothingIsTried(t *testing.T) {
	s := newShared(t)
	s.plan.OnRefusal, s.plan.Crashes = spec.SkipRefused, lenientAfter
	s.bad["doc9"] = true
	down := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500}
	s.world.bad(down, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &down} })
	s.runs("a")
	if !s.lists("doc3", "1-a") || !s.lists("doc9", "1-a") {
		t.Fatalf("listed %v", s.list)
	}
	backup := s.dbs[peer.Target].backup()
	s.reply = nil
	s.isKilled("a", 1)
	if s.logOn(peer.Target).Newest().List != (checkpoint.List{}) {
		t.Fatal("the target's newest checkpoint relies on a list")
	}
	s.plan.Continuous, s.plan.CheckpointInterval = true, time.Second
	s.begin()
	s.until(firstRefusedPause / 2)
	s.dbs[peer.Target] = backup
	s.runs("a")
	if !backup.has("doc3", "1-a") {
		t.Error("doc3 is neither on the target nor in the list")
	}
}

// TestPutBackAfterKillUntold: a run is killed after it has written both logs, and before the job's record has of which
// state of the list they are. The source's log tells that the target was put back.
func TestPutBackAfterKillUntold(t *testing.T) {
	s := newShared(t)
	backup := s.backupBeforeHealing()
	saved := s.saved
	s.isKilled("a", 2)
	s.saved, s.dbs[peer.Target] = saved, backup
	for _, want := range []string{"0", `"40-opaque"`} {
		if from := s.runs("a"); from != want || !backup.has("doc7", "1-a") {
			t.Errorf("a run begins at %s, want %s; the target has what came: %t", from, want, backup.has("doc7", "1-a"))
		}
	}
}

// TestPutBackOfReadOnlySource: the target of a source that stores no logs is put back.
func TestPutBackOfReadOnlySource(t *testing.T) {
	s := newShared(t)
	s.refuseLogs(403)
	backup := s.backupBeforeHealing()
	s.runs("a")
	s.dbs[peer.Target] = backup
	if from := s.runs("a"); !backup.has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
	if from := s.runs("a"); from != `"40-opaque"` {
		t.Errorf("the run after that begins at %s", from)
	}
}

// TestBothPutBack: both databases are put back to backups of one moment, which lack what has left the list since. All
// is copied anew, once.
func TestBothPutBack(t *testing.T) {
	s := newShared(t)
	backup := s.backupBeforeHealing()
	source := s.dbs[peer.Source].backup()
	s.runs("a")
	s.dbs = [2]*database{source, backup}
	for _, want := range []string{"0", `"40-opaque"`} {
		if from := s.runs("a"); from != want {
			t.Errorf("a run begins at %s, want %s", from, want)
		}
	}
	if !backup.has("doc7", "1-a") {
		t.Error("doc7 is neither on the target nor in the list")
	}
}

// TestSourcePutBack: a source is put back to before a listed document was edited. The list has the revision that came
// since, and lacks the one that the source has again.
func TestSourcePutBack(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	backup := s.dbs[peer.Source].backup()
	s.dbs[peer.Source].write("doc7", "2-b", "1-a")
	if s.runs("a"); s.list[peerRev{"doc7", "2-b"}] == nil || len(s.list) > 1 {
		t.Fatalf("the list has %v", s.list)
	}
	s.dbs[peer.Source] = backup
	delete(s.bad, "doc7")
	if from := s.runs("a"); !s.dbs[peer.Target].has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
	if from := s.runs("a"); from != `"40-opaque"` {
		t.Errorf("the run after that begins at %s", from)
	}
}

// TestPutBackToLeftOut: under skip, a document was left out for good, and has come by order since. Then the target is
// put back. No checkpoint says that the document was in a list.
func TestPutBackToLeftOut(t *testing.T) {
	s := newShared(t)
	s.plan.OnRefusal = spec.SkipRefused
	s.bad["doc7"] = true
	s.runs("a")
	backup := s.dbs[peer.Target].backup()
	delete(s.bad, "doc7")
	s.as("a")
	s.demand = 5
	if s.runs("a"); !s.dbs[peer.Target].has("doc7", "1-a") {
		t.Fatal("doc7 does not come by order")
	}
	s.dbs[peer.Target] = backup
	if from := s.runs("a"); !backup.has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
	if from := s.runs("a"); from != `"40-opaque"` {
		t.Errorf("the run after that begins at %s", from)
	}
}

// TestSourcePutBackStoresNoLogs: a source is put back, and stores no logs from then on. It keeps that of the backup,
// and all is copied anew once.
func TestSourcePutBackStoresNoLogs(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	backup := s.dbs[peer.Source].backup()
	s.dbs[peer.Source].write("doc7", "2-b", "1-a")
	s.runs("a")
	s.dbs[peer.Source] = backup
	s.refuseLogs(403)
	for n, want := range []string{"0", `"40-opaque"`, `"40-opaque"`} {
		if from := s.runs("a"); from != want {
			t.Errorf("run %d begins at %s, want %s", n, from, want)
		}
	}
}

// leaves has a continuous run of job a take doc7 off its list. The next checkpoint is an hour away, unless it is
// written for that.
func (s *shared) leaves() {
	s.plan.Continuous, s.plan.CheckpointInterval = true, time.Hour
	for s.begin(); s.list[peerRev{"doc7", "1-a"}] != nil; {
		s.proceed(first)
	}
}

// TestKilledBeforeTold: a document leaves the list of a run that is killed before its next checkpoint, and its target
// is put back to a backup from before it came. The log of that is the newest that the run wrote.
func TestKilledBeforeTold(t *testing.T) {
	s := newShared(t)
	backup := s.backupBeforeHealing()
	s.leaves()
	s.plan.Continuous, s.dbs[peer.Target] = false, backup
	if from := s.runs("a"); !backup.has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
}

// TestToldAtOnce: a checkpoint tells soon what has left the list, since a run that is killed before copies all anew.
func TestToldAtOnce(t *testing.T) {
	s := newShared(t)
	s.backupBeforeHealing()
	s.leaves()
	s.until(10 * time.Second)
	if state := s.logOn(peer.Target).State(s.plan.List.Job); state.Changes != s.changes {
		t.Errorf("the list is at %d, and the log tells %d", s.changes, state.Changes)
	}
}

// replaces has a newer revision of doc7 replace one in the list of a run that goes on, until both databases have a
// checkpoint of that. No request to the feed is answered.
func (s *shared) replaces() {
	s.dbs[peer.Source].write("doc7", "2-b", "1-a")
	s.now, s.plan.Continuous = s.now.Add(time.Hour), true
	s.begin()
	for s.left == 0 || s.logOn(peer.Source).State(s.plan.List.Job).Changes < s.left {
		at := slices.IndexFunc(s.flying, func(c Call) bool { _, reads := c.Op.(peer.ReadChanges); return !reads })
		switch {
		case len(s.asks) > 0:
			s.answerAsk()
		case at >= 0:
			c := s.flying[at]
			s.flying = slices.Delete(s.flying, at, at+1)
			s.step(Reply{ID: c.ID, Reply: s.perform(c)})
		default:
			s.now = s.run.Deadline()
			s.step(Wake{})
		}
	}
}

// TestSourcePutBackAfterKill: a newer revision replaces one in the list. The run is killed before the job's record
// tells of the checkpoint after that, and the source is put back to a backup that has the older revision again.
func TestSourcePutBackAfterKill(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	backup, saved := s.dbs[peer.Source].backup(), s.saved
	s.replaces()
	s.saved, s.dbs[peer.Source] = saved, backup
	clear(s.bad)
	if from := s.runs("a"); !s.dbs[peer.Target].has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in the list", from)
	}
}

// TestSourcePutBackToOther: as before, and the backup has a checkpoint of another job alone, at the same place. Nothing
// tells there which state of the list the source had.
func TestSourcePutBackToOther(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("b")
	backup := s.dbs[peer.Source].backup()
	s.runs("a")
	s.replaces()
	s.step(Stop{})
	s.wantEnd(Stopped, "")
	s.dbs[peer.Source] = backup
	clear(s.bad)
	if from := s.runs("a"); !s.dbs[peer.Target].has("doc7", "1-a") {
		t.Errorf("job a begins at %s, and doc7 is neither on the target nor in its list", from)
	}
}
