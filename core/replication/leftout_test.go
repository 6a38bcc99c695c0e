package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// corrupt is how sources fail on doc3 in these tests, for as long as it is ill.
var corrupt = map[string]peer.Failure{
	"source fails":   {Side: peer.Source, Kind: peer.Status, Status: 500, Error: "unknown_error"},
	"source forbids": {Side: peer.Source, Kind: peer.Status, Status: 403, Error: "forbidden"},
	"source is cut":  {Side: peer.Source, Kind: peer.Broken, Reason: "connection reset"},
}

// TestLeftOutComesLater: a document that could not be copied comes over once it can be, also under on_refusal skip: no
// target has refused it. Until then it ends no run.
func TestLeftOutComesLater(t *testing.T) {
	for name, f := range corrupt {
		for _, policy := range []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused} {
			t.Run(fmt.Sprint(name, " ", policy), func(t *testing.T) {
				w := newWorld(t)
				w.plan.Crashes, w.plan.UseBulkGet, w.plan.OnRefusal = lenientAfter, false, policy
				w.fill(40)
				w.bad(f, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &f} })
				w.begin()
				w.wantEnd(Completed, "")
				w.plan.Crashes = 0
				w.begin()
				if w.wantEnd(Completed, ""); w.list[peerRev{"doc3", "1-a"}] == nil {
					t.Fatalf("listed %v", w.list)
				}
				w.reply = nil
				w.begin()
				if w.wantEnd(Completed, ""); len(w.list) > 0 || !w.dbs[peer.Target].has("doc3", "1-a") {
					t.Errorf("listed %v", w.list)
				}
			})
		}
	}
}

// TestLeftOutHasPlace: what the list has no place for is not left out, since nothing would bring it over.
func TestLeftOutHasPlace(t *testing.T) {
	for _, room := range []int64{0, 1} {
		w := newWorld(t)
		w.plan.Crashes, w.plan.UseBulkGet = lenientAfter, false
		w.fill(40)
		f := corrupt["source fails"]
		w.bad(f, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &f} })
		w.others = MaxListed - room
		w.begin()
		if end := w.runToEnd(first); (end.Cause == Completed) != (room > 0) {
			t.Errorf("room for %d: %s", room, end)
		}
	}
}

// TestLeftOutHasRow: a revision whose name is too long for the list is not left out, since no row would bring it over.
func TestLeftOutHasRow(t *testing.T) {
	for _, size := range []int{MaxListedName, MaxListedName + 1} {
		w := newWorld(t)
		w.plan.Crashes, w.plan.UseBulkGet = lenientAfter, false
		long := strings.Repeat("x", size-len("1-a"))
		w.dbs[peer.Source].write(long, "1-a")
		w.fill(40)
		f := corrupt["source fails"]
		w.reply = func(c Call) *peer.Reply {
			if op, copies := c.Op.(peer.CopyDoc); copies && op.ID == long {
				return &peer.Reply{Failure: &f}
			}
			return nil
		}
		w.begin()
		if end := w.runToEnd(first); (end.Cause == Completed) != (size <= MaxListedName) {
			t.Errorf("a name of %d bytes: %s", size, end)
		}
	}
}

// TestSpoiledInTheMidst: a proxy begins to answer 400 to all documents after many have come over. Those beyond the end
// of the list are not left out.
func TestSpoiledInTheMidst(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		w := newWorld(t)
		w.plan.UseBulkGet = bulk
		w.fill(60)
		var late []string
		for i := 20; i < 60; i++ {
			late = append(late, fmt.Sprint("doc", i))
		}
		w.unreadable(peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request"}, late...)
		w.others = MaxListed - 10
		w.begin()
		if end := w.runToEnd(first); end.Cause != Crashed || len(w.list) != 10 {
			t.Errorf("bulk %v: %s, %d listed, %s", bulk, end, len(w.list), end.Info)
		}
	}
}

// TestLenientNeedsOthers: that the target took one leaf of a document does not tell that it takes other documents while
// the next leaf fails.
func TestLenientNeedsOthers(t *testing.T) {
	w := newWorld(t)
	w.plan.Crashes, w.plan.UseBulkGet = lenientAfter, false
	w.dbs[peer.Source].write("doc3", "1-a")
	w.dbs[peer.Source].write("doc3", "1-b")
	down := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 503}
	w.reply = func(c Call) *peer.Reply {
		if op, copies := c.Op.(peer.CopyDoc); copies && len(op.Revs) == 2 {
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0]}}}, Failure: &down}
		} else if copies {
			return &peer.Reply{Failure: &down}
		}
		return nil
	}
	w.begin()
	if end := w.runToEnd(first); end.Cause != Crashed || len(w.list) > 0 {
		t.Errorf("%s, listed %v", end, w.list)
	}
}

// TestLenientNeedsOthersSince: nor do documents that it took before the failure, after which it may take none.
func TestLenientNeedsOthersSince(t *testing.T) {
	w := newWorld(t)
	w.plan.Crashes, w.plan.UseBulkGet = lenientAfter, false
	w.fill(2)
	w.reply = func(c Call) *peer.Reply {
		if op, copies := c.Op.(peer.CopyDoc); copies && op.ID == "doc1" {
			return &peer.Reply{Failure: &peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 503}}
		}
		return nil
	}
	w.begin()
	end := w.runToEnd(first)
	if end.Cause != Crashed || end.Info.DocsWritten != 1 || len(w.list) > 0 {
		t.Errorf("%s, listed %v", end, w.list)
	}
}

// TestLenientNeedsOthersThanNewer: nor does a newer leaf of the document, which the source sends with a later attempt.
func TestLenientNeedsOthersThanNewer(t *testing.T) {
	w := newWorld(t)
	w.plan.Crashes, w.plan.UseBulkGet = lenientAfter, false
	w.dbs[peer.Source].write("doc3", "1-a")
	down := peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 500}
	w.reply = func(c Call) *peer.Reply {
		if _, copies := c.Op.(peer.CopyDoc); copies && w.count("copy") > 1 {
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "2-b"}}}, Failure: &down}
		} else if copies {
			return &peer.Reply{Failure: &down}
		}
		return nil
	}
	w.begin()
	if end := w.runToEnd(first); end.Cause != Crashed || len(w.list) > 0 {
		t.Errorf("%s, listed %v", end, w.list)
	}
}

// TestUnreadComesLater: a proxy answers 400 to all documents, in CouchDB's words, since its disk is full, say. Once it
// is mended they come over, also under on_refusal skip, and none is only counted.
func TestUnreadComesLater(t *testing.T) {
	for _, room := range []int64{4, 5} {
		w := newWorld(t)
		w.fill(5)
		w.unreadable(peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request"},
			"doc0", "doc1", "doc2", "doc3", "doc4")
		w.others = MaxListed - room
		w.begin()
		end := w.runToEnd(first)
		if full := room < 5; (end.Cause == Crashed) != full || !full && len(w.list) != 5 {
			t.Fatalf("room for %d: %s, listed %v", room, end, w.list)
		}
		w.reply, w.others = nil, 0
		w.begin()
		if w.wantEnd(Completed, ""); len(w.list) > 0 || !w.dbs[peer.Target].has("doc4", "1-a") {
			t.Errorf("room for %d: listed %v", room, w.list)
		}
	}
}

// TestUnreadLeavesHavePlace: of a document with several leaves each takes one place of the list.
func TestUnreadLeavesHavePlace(t *testing.T) {
	for _, room := range []int64{2, 3} {
		w := newWorld(t)
		w.fill(3)
		w.dbs[peer.Source].write("doc2", "1-b")
		w.dbs[peer.Source].write("doc2", "1-c")
		w.unreadable(peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request"}, "doc2")
		w.plan.MaxListed, w.plan.UseBulkGet = room, false
		w.begin()
		end := w.runToEnd(first)
		if fits := room == 3; (end.Cause == Completed) != fits || fits && len(w.list) != 3 {
			t.Errorf("room for %d: %s, listed %v", room, end, w.list)
		}
	}
}

// TestListHasRoomAgain: a list of which documents have come over has room for others in the same run, and attempts of
// those that are in it take no further place.
func TestListHasRoomAgain(t *testing.T) {
	w := refusing(t, spec.RetryRefused)
	w.plan.Continuous = true
	w.others = MaxListed - 6 - 1
	w.begin()
	room := func(n int) {
		t.Helper()
		revs := []string{"1-a", "1-b", "1-c", "1-d", "1-e", "1-f", "1-g", "1-h"}
		if f := w.run.refused; !f.hasRoom("new", revs[:n]...) || f.hasRoom("new", revs[:n+1]...) {
			t.Errorf("of %d documents %d are listed, and there should be room for %d", f.listed, len(w.list), n)
		}
	}
	w.until(time.Second)
	room(1)
	w.until(24 * time.Hour)
	room(1)
	clear(w.refuses)
	w.until(maxRefusedPause * 5 / 4)
	room(7)
}

// TestLastPlace: the list had room for the last time when its last place was taken.
func TestLastPlace(t *testing.T) {
	r := New(Plan{})
	f := &r.refused
	f.begin()
	f.listed = MaxListed - 1
	for _, written := range []int64{5, 6} {
		r.info.Written = written
		if f.list(&batch{}, Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a"}}); f.taken != 5 {
			t.Errorf("of %d listed documents the last found room when the target had taken %d", f.listed, f.taken)
		}
	}
}

// TestTakenWhileAskedAbout: the target takes a revision of a document while it is asked about the page of the list that
// has another one of it, before the run knows what is listed. A pass follows soon, since the answer may be older. Other
// documents are no reason for one.
func TestTakenWhileAskedAbout(t *testing.T) {
	for id, changes := range map[string]bool{"listed": true, "another": false} {
		r := New(Plan{Options: Options{BatchSize: 10}})
		f := &r.refused
		f.begin()
		f.passBy(0)
		f.passWhenDue()
		f.onPage(RefusedPage{Docs: []Listed{{ID: "listed", Rev: "1-a", Attempts: 1}}})
		f.wrote(id)
		if soon := f.next == r.now.Add(passSoon); f.changed != changes || soon != changes {
			t.Errorf("a document that is %s was taken: changed %v, next pass at %s", id, f.changed, f.next)
		}
	}
}
