package node

import (
	"fmt"
	"testing"
	"time"

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
