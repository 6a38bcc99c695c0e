package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// TestNotesOfEnds: the log has one line for each end of a run, with the class of an error.
func TestNotesOfEnds(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	n := w.start("n", nil)
	w.pass(time.Minute)
	n.notes, n.texts = nil, nil
	n.endRun(n.runOf("r000"), replication.Completed)
	n.endRun(n.runOf("r001"), replication.Crashed)
	n.endRun(n.runOf("r002"), replication.Stopped)
	w.pass(10 * time.Second)
	got := fmt.Sprint(n.notes[:3], n.texts[:3])
	const want = "[completed crashed stopped] " +
		"[0 documents written, 0 refused boom: it broke the run gave its slot back]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var told Note
	tell := &Node{}
	noteEnd(tell, Fail{Held: Held{JobID: "j"}, Trouble: replication.Trouble{Error: "unauthorized", Reason: "no"}})
	for _, e := range tell.out {
		told = e.(Note)
	}
	if want := (Note{What: "failed", Job: "j", Text: "unauthorized: no", Class: "unauthorized"}); told != want {
		t.Errorf("%+v, want %+v", told, want)
	}
}

// TestNoteOfMoves: the log says how many of the jobs that run here go to other nodes.
func TestNoteOfMoves(t *testing.T) {
	n := &Node{cfg: Config{Settings: DefaultSettings()}}
	n.worker, n.published = "me", Info{MaxJobs: 500}
	n.others = []other{{worker: "other", info: Info{Roles: AllRoles, Status: Up, MaxJobs: 500}}}
	n.clock.Steady = instant.Time(0).Add(time.Hour)
	for i := range 100 {
		n.runs = append(n.runs, &run{held: Held{JobID: fmt.Sprint("job", i)}, continuous: true})
	}
	n.rotate(Surveyed{})
	const want = "5 of 100 jobs go to nodes that run fewer"
	if told, is := n.out[len(n.out)-1].(Note); !is || told != (Note{What: "rebalanced", Text: want}) {
		t.Errorf("told is %+v", n.out)
	}
}

// TestNotesOfRefusals: a refusal of a bulk write has no status to tell, and what was refused at several attempts is
// not told as that many documents.
func TestNotesOfRefusals(t *testing.T) {
	tell := &Node{}
	bulk := replication.Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Error: "forbidden", Reason: "no"}}
	single := bulk
	single.Status = 403
	listing{tell}.note(&run{}, bulk)
	listing{tell}.note(&run{}, single)
	noteEnd(tell, Complete{End: replication.End{Info: replication.Info{
		Counters: checkpoint.Counters{DocsWritten: 54, DocWriteFailures: 12},
	}}})
	var got []string
	for _, e := range tell.out {
		got = append(got, e.(Note).Text)
	}
	if want := []string{
		`document "d", revision 1-a: forbidden: no`, `document "d", revision 1-a: 403 forbidden: no`,
		"54 documents written, 12 of all attempts refused",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReadOnlySourceIsTold tells the log once of each run, be it by its end, and users in the job's view.
func TestReadOnlySourceIsTold(t *testing.T) {
	info := replication.Info{SourceReadOnly: true}
	for tells := range 3 {
		w := newWorld(t)
		w.putMany(1, true)
		n := w.start("n1", nil)
		run := n.runOf("r000")
		for range tells {
			n.step(RunProgress{Run: run, Info: info})
			w.pass(time.Second)
		}
		n.step(RunEnded{Run: run, End: replication.End{Cause: replication.Completed, Info: info}})
		told := 0
		for _, what := range n.notes {
			if what == "source_read_only" {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times: notes %v", tells, n.notes)
		}
	}
}
