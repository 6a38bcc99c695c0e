package replication

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// yielding is a continuous run whose one document takes a while, in the way that kind tells.
func yielding(t *testing.T, kind peer.Op) *world {
	return stalling(t, func(w *world) {
		w.plan.Continuous, w.plan.UseBulkGet, w.plan.Workers = true, !isCopy(kind), 3
		w.dbs[peer.Source] = newDatabase()
		w.fill(1)
	}, kind)
}

func isCopy(op peer.Op) bool {
	_, is := op.(peer.CopyDoc)
	return is
}

// TestLongDocumentOutlivesItsTurn: a run that gives way finishes the document that took most of its turn, with the
// write after a read, and then ends with a checkpoint that covers it.
func TestLongDocumentOutlivesItsTurn(t *testing.T) {
	for _, kind := range []peer.Op{peer.CopyDoc{}, peer.FetchDocs{}, peer.WriteDocs{}} {
		w := yielding(t, kind)
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		if w.end != nil || w.hangs([]peer.Op{kind}) < 0 {
			t.Fatalf("%T: the document is given up; end %v", kind, w.end)
		}
		w.wait(time.Hour, kind, peer.ReadChanges{})
		if w.end != nil {
			t.Fatalf("%T: ended while the document was under way: %v", kind, w.end)
		}
		for w.end == nil {
			w.proceed(first)
		}
		saved := w.end.Info.CheckpointedSeq
		if w.end.Cause != Stopped || w.end.Info.Written != 1 || saved != seqOf(w.dbs[peer.Source].seq) {
			t.Errorf("%T: ended with %+v", kind, w.end)
		}
	}
}

// TestLateDocumentGivesWay: a document that was begun in the second half of the turn is left for the next.
func TestLateDocumentGivesWay(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.UseBulkGet = true, false
	w.fill(1)
	w.begin()
	for w.hangs([]peer.Op{peer.ReadChanges{}}) < 0 {
		w.proceed(first)
	}
	w.readOnce()
	w.wait(time.Minute, peer.ReadChanges{})
	w.dbs[peer.Source].write("late", "1-a")
	w.readOnce()
	for w.end == nil && w.hangs([]peer.Op{peer.CopyDoc{}}) < 0 {
		w.proceed(first)
	}
	w.now = w.now.Add(50 * time.Second)
	w.step(GiveWay{})
	w.wait(time.Minute, peer.CopyDoc{}, peer.ReadChanges{})
	if w.end == nil || w.end.Cause != Stopped || w.end.Info.Written != 1 {
		t.Errorf("ended with %+v", w.end)
	}
}

// TestFirstDocumentOutlivesItsTurn: what comes before the first document does not count, as it comes anew in each turn.
func TestFirstDocumentOutlivesItsTurn(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.UseBulkGet = true, false
	w.fill(1)
	w.begin()
	for w.hangs([]peer.Op{peer.CopyDoc{}}) < 0 {
		w.now = w.now.Add(10 * time.Second)
		w.proceed(first)
	}
	w.now = w.now.Add(time.Second)
	w.step(GiveWay{})
	if w.end != nil || w.hangs([]peer.Op{peer.CopyDoc{}}) < 0 {
		t.Errorf("the document is given up; end %v", w.end)
	}
}

// TestNextDocumentsDoNotKeepTheSlot: while one document keeps the slot others are begun, and these do not keep it,
// however long they take.
func TestNextDocumentsDoNotKeepTheSlot(t *testing.T) {
	w := yielding(t, peer.CopyDoc{})
	w.now = w.now.Add(time.Minute)
	w.step(GiveWay{})
	long := w.flying[w.hangs([]peer.Op{peer.CopyDoc{}})]
	w.dbs[peer.Source].write("next", "1-a")
	w.readOnce()
	w.wait(time.Second, peer.CopyDoc{}, peer.ReadChanges{})
	if w.run.work.copies != 2 {
		t.Fatalf("%d copies under way", w.run.work.copies)
	}
	w.now = w.now.Add(time.Hour)
	w.flying = slices.DeleteFunc(w.flying, func(c Call) bool { return c.ID == long.ID })
	w.step(Reply{ID: long.ID, Reply: w.perform(long)})
	w.wait(time.Minute, peer.CopyDoc{}, peer.ReadChanges{})
	if w.end == nil || w.end.Cause != Stopped || w.end.Info.Written != 1 {
		t.Errorf("ended with %+v", w.end)
	}
}

// TestStopEndsYielding: an order to stop does not wait for documents.
func TestStopEndsYielding(t *testing.T) {
	w := yielding(t, peer.CopyDoc{})
	w.now = w.now.Add(time.Minute)
	w.step(GiveWay{})
	w.step(Stop{})
	w.wait(time.Minute, peer.CopyDoc{}, peer.ReadChanges{})
	if w.end == nil || w.end.Cause != Stopped || w.end.Info.Written != 0 {
		t.Errorf("ended with %+v", w.end)
	}
}

// TestFailedDocumentGivesWay: a document whose attempt fails does not keep the slot until the next one.
func TestFailedDocumentGivesWay(t *testing.T) {
	w := yielding(t, peer.CopyDoc{})
	w.now = w.now.Add(time.Minute)
	w.step(GiveWay{})
	w.answer = func(c Call) *peer.Failure {
		if isCopy(c.Op) {
			return &peer.Failure{Kind: peer.Status, Status: 503, Method: "PUT", URL: "http://x/"}
		}
		return nil
	}
	asked := w.now
	for w.end == nil {
		w.proceed(first)
	}
	if w.end.Cause != Stopped || w.now.Sub(asked) > time.Second {
		t.Errorf("ended %s later with %+v", w.now.Sub(asked), w.end)
	}
}

// TestDocumentBesideBulkOutlivesItsTurn: a document that is copied by itself, as a bulk read or write of it failed, was
// begun with that read.
func TestDocumentBesideBulkOutlivesItsTurn(t *testing.T) {
	for _, kind := range []peer.Op{peer.FetchDocs{}, peer.WriteDocs{}} {
		w := yielding(t, kind)
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		w.answer = func(c Call) *peer.Failure {
			if isOf([]peer.Op{kind}, c.Op) {
				return &peer.Failure{Kind: peer.Status, Status: 400, Method: "POST", URL: "http://x/"}
			}
			return nil
		}
		w.wait(time.Hour, peer.CopyDoc{}, peer.ReadChanges{})
		if w.end != nil || w.hangs([]peer.Op{peer.CopyDoc{}}) < 0 {
			t.Errorf("%T: the document is given up; end %v", kind, w.end)
		}
	}
}
