package replication

import (
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestQuestionTooLong: a proxy before the target takes no question about more than a few documents, as large batches
// and long ids make it. It is asked in parts, of new batches and of the list of refused documents.
func TestQuestionTooLong(t *testing.T) {
	for _, most := range []int{3, 0} {
		w := refusing(t, spec.RetryRefused)
		w.dbs[peer.Target].write("doc1", "1-a")
		w.plan.BatchSize = 40
		for i := range 6 {
			w.keep(Finding{Refusal: peer.Refusal{ID: fmt.Sprint("doc", 3*i), Rev: "1-a", Status: 403}})
		}
		w.reply = func(c Call) *peer.Reply {
			if op, is := c.Op.(peer.DiffRevs); is && len(op.Docs) > most {
				return &peer.Reply{Failure: &peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 413}}
			}
			return nil
		}
		w.begin()
		w.wantEnd(Completed, "")
		written := int64(13) // what the target has, and was not asked about, is written once more
		if most == 0 {
			written++
		}
		if i := w.end.Info; i.DocsWritten != written || len(w.list) != 6 || i.MissingChecked != 20 {
			t.Errorf("with %d at most: %s, checked %d, listed %v", most, i, i.MissingChecked, w.list)
		}
	}
}

// TestLogTooLong: a proxy takes no log with many checkpoints, as sequences of many shards make it. Older ones are left
// out, and runs go on from the newest.
func TestLogTooLong(t *testing.T) {
	for _, before := range [][]peer.Side{{peer.Source}, {peer.Target}, {peer.Source, peer.Target}} {
		w := newWorld(t)
		for range 20 {
			w.fill(len(w.dbs[peer.Source].at) + 1)
			w.begin()
			w.wantEnd(Completed, "")
		}
		most := len(w.dbs[peer.Source].local["four"].body) / 3
		w.answer = func(c Call) *peer.Failure {
			op, is := c.Op.(peer.PutLocal)
			if is && slices.Contains(before, op.Side) && len(op.Body) > most {
				return &peer.Failure{Side: op.Side, Kind: peer.Status, Status: 413}
			}
			return nil
		}
		for range 3 {
			w.fill(len(w.dbs[peer.Source].at) + 1)
			w.begin()
			w.wantEnd(Completed, "")
		}
		w.calls = nil
		w.begin()
		w.wantEnd(Completed, "")
		for _, side := range before {
			if size := len(w.dbs[side].local["four"].body); size > most || size < most/4 {
				t.Errorf("log on %s of %d bytes, %d are allowed", side, size, most)
			}
		}
		if want := string(seqOf(w.dbs[peer.Source].seq)); w.feedStart() != want {
			t.Errorf("%v: went on from %s, want %s", before, w.feedStart(), want)
		}
	}
}

// TestShortestLog: of a log of two checkpoints none is left out: it would be written again and again.
func TestShortestLog(t *testing.T) {
	for entries, want := range map[int]bool{1: false, 2: false, 3: true} {
		r := New(Plan{})
		r.commits.trail = checkpoint.NewTrail(nil)
		if r.commits.log.History = make([]checkpoint.Entry, entries); r.commits.shorten() != want {
			t.Errorf("a log of %d checkpoints is shortened: %v", entries, !want)
		}
	}
}

// TestListCannotBeCompared: a target that does not let the run ask what it lacks of the list is no target that cannot
// read the question.
func TestListCannotBeCompared(t *testing.T) {
	w := refusing(t, spec.SkipRefused)
	w.begin()
	w.wantEnd(Completed, "")
	w.failOn("diff", 0, status(401))
	w.begin()
	if w.wantEnd(Crashed, "unauthorized"); w.count("diff") != 6 { // of 5 batches before, and of a page
		t.Errorf("the target is asked %d times what it lacks", w.count("diff"))
	}
}

// TestOlderLogTooLong: a log of an older server, of which a proxy takes no copy under the present id, does not keep the
// run from going on where that server was.
func TestOlderLogTooLong(t *testing.T) {
	for _, start := range []string{"1", "0"} {
		w := newWorld(t)
		w.dbs[peer.Source].start, w.dbs[peer.Target].start = start, start
		for range 20 {
			w.fill(len(w.dbs[peer.Source].at) + 1)
			w.begin()
			w.wantEnd(Completed, "")
		}
		most := len(w.dbs[peer.Source].local["four"].body) / 3
		for _, db := range w.dbs {
			db.local["three"] = db.local["four"]
			delete(db.local, "four")
		}
		w.answer = func(c Call) *peer.Failure {
			if op, is := c.Op.(peer.PutLocal); is && len(op.Body) > most {
				return &peer.Failure{Side: op.Side, Kind: peer.Status, Status: 413}
			}
			return nil
		}
		for range 2 {
			want := string(seqOf(w.dbs[peer.Source].seq))
			w.fill(len(w.dbs[peer.Source].at) + 1)
			w.calls = nil
			w.begin()
			if w.wantEnd(Completed, ""); w.feedStart() != want {
				t.Errorf("start %s: went on from %s, want %s", start, w.feedStart(), want)
			}
		}
	}
}
