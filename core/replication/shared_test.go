package replication

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// shared is a world with several jobs that copy the same, so that they share their checkpoints. Each has a list of its
// own, and one of them runs at a time.
type shared struct {
	*world
	jobs map[string]listing
	bad  map[string]bool // documents that the target does not take for now
}

func newShared(t *testing.T) *shared {
	s := &shared{newWorld(t), map[string]listing{}, map[string]bool{}}
	s.plan.OnRefusal, s.plan.BatchSize = spec.RetryRefused, 40
	s.refuses = s.bad
	s.fill(40)
	return s
}

// as has the world be about another job.
func (s *shared) as(job string) {
	s.jobs[s.plan.List.Job] = s.listing
	l, known := s.jobs[job]
	if !known {
		l = listing{refuses: s.bad, list: map[peerRev]*entry{}, begins: true}
	}
	s.listing, s.plan.List.Job, s.plan.Continuous = l, job, false
}

// runs has a job run to its end, and returns where its feed began.
func (s *shared) runs(job string) string {
	s.t.Helper()
	s.as(job)
	s.calls = nil
	s.begin()
	s.wantEnd(Completed, "")
	return s.feedStart()
}

// TestListOfAnotherJob: two jobs have lists. The second job reads, and lists, what only the first one's list has. So
// these documents come also if the first job is deleted, and its list with it.
func TestListOfAnotherJob(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	s.runs("b")
	s.dbs[peer.Source].write("later", "1-a")
	s.bad["later"] = true
	s.runs("a")
	s.runs("b")
	clear(s.bad)
	delete(s.jobs, "a")
	s.runs("b")
	for _, id := range []string{"doc7", "later"} {
		if !s.dbs[peer.Target].has(id, "1-a") {
			t.Errorf("%s does not come", id)
		}
	}
}

// TestJobsWithListsTakeTurns: each goes on from its own last checkpoint, however many the other has written since.
// A job that has no list goes on from the last that needs none.
func TestJobsWithListsTakeTurns(t *testing.T) {
	s := newShared(t)
	s.runs("a")
	s.dbs[peer.Source].write("doc7", "2-b", "1-a")
	s.bad["doc7"] = true
	for _, job := range []string{"a", "b"} {
		if from := s.runs(job); from != `"40-opaque"` {
			t.Fatalf("job %s begins at %s", job, from)
		}
	}
	last := map[string]string{"a": `"41-opaque"`, "b": `"41-opaque"`, "c": `"40-opaque"`}
	for _, turn := range []struct {
		job  string
		runs int
	}{{"a", 1}, {"b", checkpoint.MaxHistory + 1}, {"a", 2}, {"b", 1}, {"a", 1}, {"c", 2}, {"b", 1}} {
		for range turn.runs {
			s.dbs[peer.Source].write(fmt.Sprint("new", s.dbs[peer.Source].seq), "1-a")
			if from := s.runs(turn.job); from != last[turn.job] {
				t.Fatalf("job %s begins at %s, not at %s", turn.job, from, last[turn.job])
			}
			last[turn.job] = string(seqOf(s.dbs[peer.Source].seq))
		}
	}
}

// TestOthersMayGoOn: as soon as nothing of a list is tried again, the next checkpoint serves all jobs.
func TestOthersMayGoOn(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	clear(s.bad)
	if from := s.runs("b"); from != "0" {
		t.Errorf("job b has no list, and begins at %s", from)
	}
	for _, job := range []string{"c", "a", "b"} {
		if from := s.runs(job); from != `"40-opaque"` {
			t.Errorf("job %s begins at %s", job, from)
		}
	}
}

// TestKilledOverAnotherList: a job without a list is killed between its two logs. So both logs have only a checkpoint
// of another job, which relies on that job's list. The target's newer checkpoint covers that one, and relies on no
// list.
func TestKilledOverAnotherList(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("a")
	clear(s.bad)
	s.dbs[peer.Source].write("new", "1-a")
	s.as("b")
	s.begin()
	for put := false; !put; {
		s.proceed(first)
		for _, c := range s.flying {
			op, is := c.Op.(peer.PutLocal)
			put = put || is && op.Side == peer.Source
		}
	}
	if from := s.runs("b"); from != `"40-opaque"` {
		t.Errorf("it begins at %s", from)
	}
}

// TestJobsWithListsAtOnce: a one-shot runs beside a continuous job, and both have a list. The latter finds the other's
// checkpoints, and goes on; it is killed, and begins at its own.
func TestJobsWithListsAtOnce(t *testing.T) {
	s := newShared(t)
	s.bad["doc7"] = true
	s.runs("b")
	s.as("a")
	s.plan.Continuous = true
	s.begin()
	s.until(time.Minute)
	s.jobs["a"] = s.listing
	s.dbs[peer.Source].write("later", "1-a")
	s.bad["later"] = true
	beside := *s.world
	s.runs("b")
	s.as("a")
	beside.now, beside.plan.Seed = s.now, s.plan.Seed
	*s.world = beside
	s.until(time.Hour)
	if s.end != nil || !s.lists("later", "1-a") {
		t.Fatalf("job a ends with %v, and lists %v", s.end, s.list)
	}
	s.dbs[peer.Source].write("last", "1-a")
	if from := s.runs("b"); from != `"41-opaque"` {
		t.Errorf("job b begins at %s", from)
	}
	if from := s.runs("a"); from != `"41-opaque"` {
		t.Errorf("job a begins at %s", from)
	}
}

// TestJobsWithListsOfReadOnlySource: a source that stores no logs is known by the newest checkpoint alone. A job goes
// on from that if it is its own, and compares all if it relies on the list of another job.
func TestJobsWithListsOfReadOnlySource(t *testing.T) {
	s := newShared(t)
	s.refuseLogs(403)
	s.bad["doc7"] = true
	for n, from := range []string{"0", `"40-opaque"`, "0", `"40-opaque"`, "0"} {
		job := string("aabba"[n])
		if got := s.runs(job); got != from {
			t.Errorf("run %d, of job %s, begins at %s, want %s", n, job, got, from)
		}
	}
	clear(s.bad)
	s.runs("b")
	if from := s.runs("a"); from != `"40-opaque"` || !s.dbs[peer.Target].has("doc7", "1-a") {
		t.Errorf("after all has come job a begins at %s", from)
	}
}
