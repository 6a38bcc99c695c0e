package checkpoint

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestCompareLists: a job goes on from checkpoints that rely on its own list, or on none, and keeps those of others in
// front of them in the log.
func TestCompareLists(t *testing.T) {
	log := logOf("d@9", "c@7", "b@5", "a@3")
	for i, job := range []string{"k", "j", "k"} {
		log.History[i].List.Job = job
	}
	for job, want := range map[string]peer.Seq{"k": "9", "j": "7", "other": "3"} {
		start, history := Compare(log, log, func(l List) bool { return l.Job == job || l == (List{}) })
		if start.RecordedSeq != want || !reflect.DeepEqual(history, log.History) {
			t.Errorf("%s begins at %s, with %v", job, start.RecordedSeq, history)
		}
	}
	none := func(List) bool { return false }
	if start, history := Compare(log, log, none); start.RecordedSeq != "0" || len(history) != 4 {
		t.Errorf("without any it begins at %s, with %v", start.RecordedSeq, history)
	}
	covers := logOf("x@9", "d@9", "c@7", "b@5", "a@3")
	copy(covers.History[1:], log.History[:3])
	unlisted := func(l List) bool { return l == List{} }
	start, history := Compare(log, covers, unlisted)
	if start.RecordedSeq != "9" || start.List != (List{}) || len(history) != 4 {
		t.Errorf("behind one that relies on nothing it begins at %+v, with %v", start, history)
	}
	covers.SourceLastSeq, covers.History[0].RecordedSeq = "6", "6"
	if start, _ = Compare(log, covers, unlisted); start.RecordedSeq != "5" {
		t.Errorf("behind one that covers less it begins at %+v", start)
	}
	covers = logOf("x@9", "d@9", "c@7", "b@5", "a@3")
	covers.History[0].List.Job = "other"
	if start, _ = Compare(log, covers, func(l List) bool { return l.Job == "other" }); start.RecordedSeq != "0" {
		t.Errorf("behind one of its own list it begins at %+v", start)
	}
	other := logOf("x@8", "c@7", "d@9")
	other.History[1].List.Job, other.History[2].List.Job = "j", "k"
	if start, _ = Compare(log, other, func(l List) bool { return l.Job == "j" }); start.RecordedSeq != "7" {
		t.Errorf("of logs in different orders it begins at %s", start.RecordedSeq)
	}
}

// TestCompareListsOfRuns: a later checkpoint with a higher number may cover less, unless it is of the same run, or of
// one that began there: in a cluster, and as what was edited or purged is there again if the source is put back.
func TestCompareListsOfRuns(t *testing.T) {
	compareListsOfRuns(t, "-x", "-y")
	compareListsOfRuns(t, "", "")
}

func compareListsOfRuns(t *testing.T, x, y string) {
	mine := func(l List) bool { return l.Job != "other" }
	source, target := logOf("b@5"+x, "a@3"+x), logOf("c@9"+y, "b@5"+x, "a@3"+x)
	for i := range source.History {
		source.History[i].StartSeq, source.History[i].List.Job = peer.Seq("1"+x), "other"
	}
	copy(target.History[1:], source.History)
	for began, want := range map[string]string{"2" + y: "0", "1" + x: "5" + x, "5" + x: "5" + x} {
		target.History[0].StartSeq = peer.Seq(began)
		if start, _ := Compare(source, target, mine); string(start.RecordedSeq) != want {
			t.Errorf("behind a run that began at %s it begins at %s", began, start.RecordedSeq)
		}
	}
	at := peer.Seq("5" + x)
	target.History[0].StartSeq, target.SourceLastSeq, target.History[0].RecordedSeq = peer.Seq("2"+y), at, at
	if start, _ := Compare(source, target, mine); start.RecordedSeq != at {
		t.Errorf("behind another run that came to the same place it begins at %s", start.RecordedSeq)
	}
}

// TestCompareListsOfOlder: a checkpoint that counts stands for no later one of its run, though a cluster may have given
// it the higher number.
func TestCompareListsOfOlder(t *testing.T) {
	log := logOf("c@9-y", "b@12-x", "a@3-x")
	log.History[0].List.Job = "other"
	if start, _ := Compare(log, log, func(l List) bool { return l == (List{}) }); start.RecordedSeq != "12-x" {
		t.Errorf("behind a checkpoint that does not count it begins at %s", start.RecordedSeq)
	}
}

// TestTrailKeepsOthers: however many checkpoints a job writes, the log keeps the newest of each other job that relies
// on a list, and the newest that relies on none.
func TestTrailKeepsOthers(t *testing.T) {
	history := logOf("d@4", "c@3", "b@2", "a@1").History
	for i, job := range []string{"k", "j", "k"} {
		history[i].List.Job = job
	}
	for n := range 500 {
		history = NewTrail(history).Add(Entry{SessionID: fmt.Sprint("own", n), List: List{"own", int64(n)}}, "")
	}
	var kept string
	for _, e := range history {
		if !strings.HasPrefix(e.SessionID, "own") {
			kept += e.SessionID
		}
	}
	if kept != "dca" || len(history) != MaxHistory {
		t.Errorf("of %d checkpoints it keeps %q", len(history), kept)
	}
	if got := NewTrail(history).Add(Entry{SessionID: "none"}, ""); got[MaxHistory-1].SessionID != "c" {
		t.Errorf("all can go on from the newest, and it keeps %v and drops an older one", got[MaxHistory-1])
	}
}

// TestThinned: a checkpoint from which each job can go on stays, and not an older one for the sake of its list.
func TestThinned(t *testing.T) {
	history := logOf("d@4", "c@3", "b@2", "a@1").History
	history[0].List.Job, history[1].List.Job, history[3].List.Job = "j", "j", "k"
	if kept := Thinned(history, ""); len(kept) != 3 || kept[2].SessionID != "b" {
		t.Errorf("of a list before one without it keeps %v", kept)
	}
	if kept := Thinned(history, "a"); kept[2].SessionID != "a" || history[2].SessionID != "b" {
		t.Errorf("it keeps %v, and leaves of the log, which may be written already, %v", kept, history)
	}
}

// TestSays: of a job's list a log says what its newest checkpoint does that relies on that, or on none.
func TestSays(t *testing.T) {
	log := logOf("d@9", "c@7", "b@5", "a@3")
	log.History[0].List, log.History[1].List, log.History[3].List = List{"k", 4}, List{"j", 3}, List{"l", 2}
	for job, want := range map[string]List{"k": {"k", 4}, "j": {"j", 3}, "l": {}, "other": {}} {
		if got := log.Says(job); got != want {
			t.Errorf("of %s it says %v", job, got)
		}
	}
	if got := (Log{}).Says("k"); got != (List{}) {
		t.Errorf("without checkpoints it says %v", got)
	}
}

// TestState: of a job's list a log tells the state at the job's newest checkpoint that tells one, whatever others have
// come since.
func TestState(t *testing.T) {
	log := logOf("d@9", "c@7", "b@5", "a@3")
	log.History[0].State, log.History[1].State, log.History[3].State = List{"k", 4}, List{"j", 3}, List{"l", 2}
	for job, want := range map[string]List{"k": {"k", 4}, "j": {"j", 3}, "l": {"l", 2}, "other": {}} {
		if got := log.State(job); got != want {
			t.Errorf("of %s it is %v", job, got)
		}
	}
	if got := (Log{}).State("k"); got != (List{}) {
		t.Errorf("without checkpoints it is %v", got)
	}
}

func TestLacks(t *testing.T) {
	log := Log{History: []Entry{{}, {State: List{"a", 5}}, {State: List{"a", 7}}, {State: List{"b", 9}}}}
	for list, want := range map[List]bool{{}: false, {"a", 5}: false, {"a", 6}: true, {"b", 9}: false, {"c", 1}: true} {
		if log.Lacks(list) != want {
			t.Errorf("%+v: %t", list, !want)
		}
	}
}
