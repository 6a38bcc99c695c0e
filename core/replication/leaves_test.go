package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestReadOnlySourcePutBackWithoutALeaf: the last change gave a document a leaf that loses. The source is put back to a
// backup that lacks nothing else, and its next change has the number of the one that is gone.
func TestReadOnlySourcePutBackWithoutALeaf(t *testing.T) {
	for _, runs := range []bool{false, true} {
		w := newWorld(t)
		w.refuseLogs(403)
		w.fill(3)
		backup := w.dbs[peer.Source].backup()
		w.dbs[peer.Source].write("doc0", "1-loses")
		w.plan.Continuous = runs
		w.begin()
		for runs && w.run.info.CheckpointedSeq != `"4-opaque"` {
			w.proceed(first)
		}
		if !runs {
			w.wantEnd(Completed, "")
		}
		w.dbs[peer.Source] = backup
		backup.write("new", "1-a")
		if runs {
			w.wantEnd(Crashed, "checkpoint_commit_failure: the source database lacks")
		}
		w.plan.Continuous, w.calls = false, nil
		w.begin()
		w.wantEnd(Completed, "")
		if from := w.feedStart(); from != "0" {
			t.Errorf("put back under its run: %v, the next one began at %s", runs, from)
		}
	}
}

// TestReadOnlySourceOfManyLeaves asks for no more revisions at once than a URL may name.
func TestReadOnlySourceOfManyLeaves(t *testing.T) {
	w := newWorld(t)
	w.refuseLogs(403)
	for i := range 60 {
		w.dbs[peer.Source].write("d", fmt.Sprintf("1-%d", i))
	}
	w.begin()
	w.wantEnd(Completed, "")
	w.begin()
	w.wantEnd(Completed, "")
	asked := w.calls[slices.IndexFunc(w.calls, func(c string) bool { return strings.HasPrefix(c, "find ") })]
	if strings.Count(asked, ",") != 50 {
		t.Errorf("the run asks for %s", asked)
	}
}

// TestReadOnlySourceThatGoesOn: leaves of the last change that have grown since are known as they were before.
func TestReadOnlySourceThatGoesOn(t *testing.T) {
	w := newWorld(t)
	w.refuseLogs(403)
	w.dbs[peer.Source].write("d", "1-a")
	w.dbs[peer.Source].write("d", "1-b")
	w.begin()
	w.wantEnd(Completed, "")
	for i, path := range [][]string{{"2-b", "1-b"}, {"2-a", "1-a"}, {"3-b", "2-b", "1-b"}} {
		w.dbs[peer.Source].write("d", path...)
		w.calls = nil
		w.begin()
		w.wantEnd(Completed, "")
		if from := w.feedStart(); from != string(seqOf(int64(2+i))) {
			t.Errorf("after %s the run begins at %s", path[0], from)
		}
	}
}
