package node

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// TestPageHasWhatWasTold: a run that begins a pass through its list right after it told of a refused document, while
// its progress is stored, is shown that document. It would take it for one that is not listed, and not try it again.
func TestPageHasWhatWasTold(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n", nil)
	w.pass(time.Second)
	run := n.runOf("r000")
	n.hold = func(q Request) bool { _, is := q.(HeldRequest); return is }
	n.step(RunProgress{Run: run})
	refusal := peer.Refusal{ID: "d", Rev: "1-a", Status: 403}
	n.step(RunRefused{Run: run, Findings: []replication.Finding{{Refusal: refusal}}})
	n.step(RunReadsRefused{Run: run, ReadRefused: replication.ReadRefused{Limit: 10}})
	for i := 0; i < len(n.held); i++ {
		done := n.perform(n.held[i])
		if page, is := done.Result.(RefusedPage); is && len(page.Docs) != 1 {
			t.Errorf("the page has %v", page.Docs)
		}
		n.step(done)
	}
	if len(n.held) != 3 {
		t.Errorf("%d requests: %v", len(n.held), n.held)
	}
}

// TestEachRefusalIsListed: what a run tells of refused documents, one time after the other, is all listed: no change of
// the list is taken for a repetition of the one before.
func TestEachRefusalIsListed(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n", nil)
	w.pass(time.Second)
	run := n.runOf("r000")
	for _, id := range []string{"a", "b", "c"} {
		refusal := peer.Refusal{ID: id, Rev: "1-a", Status: 403}
		n.step(RunRefused{Run: run, Findings: []replication.Finding{{Refusal: refusal}}})
		w.pass(time.Second)
	}
	w.do(func(tx kv.Tx) error {
		list, err := w.s.Keys.Refusals(tx, n.find(run).held.JobID, "", "", 9)
		if len(list) != 3 {
			t.Errorf("listed are %v", list)
		}
		return err
	})
}

// TestManyRefusals: the log names the first refused documents of a run, and at its end tells how many more there were,
// the one among them that has ended the run.
func TestManyRefusals(t *testing.T) {
	for _, c := range []struct {
		refused int
		fails   bool
		rest    string
	}{
		{maxRefusedNotes, false, ""}, {maxRefusedNotes, true, ""},
		{maxRefusedNotes + 1, false, "1 more refusals in this run"},
		{maxRefusedNotes + 1, true, "1 more refusals in this run"},
	} {
		w := newWorld(t)
		w.putMany(1, true)
		n := w.start("n", nil)
		w.pass(time.Second)
		run, end := n.runOf("r000"), replication.End{Cause: replication.Crashed}
		for i := range c.refused {
			f := replication.Finding{Refusal: peer.Refusal{ID: fmt.Sprint(i), Rev: "1-a", Status: 403}}
			if c.fails && i == c.refused-1 {
				end = replication.End{Cause: replication.Failed, Refused: &f}
				break
			}
			n.step(RunRefused{Run: run, Findings: []replication.Finding{f}})
			w.pass(time.Second)
		}
		n.step(RunEnded{Run: run, End: end})
		var told []string
		for i, what := range n.notes {
			if what == "refused" {
				told = append(told, n.texts[i])
			}
		}
		last := told[len(told)-1]
		named := len(told) - len(c.rest)/max(len(c.rest), 1)
		if named != maxRefusedNotes || c.rest != "" && last != c.rest {
			t.Errorf("of %d the log tells %q", c.refused, told)
		}
	}
}
