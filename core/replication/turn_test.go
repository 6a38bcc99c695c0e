package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
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

// TestGivesWayOnce: a run tells once that it gives way, however long it takes until it is stopped.
func TestGivesWayOnce(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.begin()
	for !w.run.feed.caught {
		w.proceed(first)
	}
	told := 0
	for _, ev := range []Event{GiveWay{}, Wake{}, GiveWay{}} {
		for _, e := range w.run.Step(w.now, ev) {
			if _, is := e.(GivesWay); is {
				told++
			}
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
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

// TestFailedDocumentKeepsSlot: the attempts of a document that began early are made in one turn, up to the last, or
// the run would never come to what it does then: it copies by itself what cannot be read in bulk, and ends for the
// rest, so that the job counts as crashed.
func TestFailedDocumentKeepsSlot(t *testing.T) {
	slow := &peer.Failure{Kind: peer.TimedOut, Method: "POST", URL: "http://x/"}
	for _, kind := range []peer.Op{peer.CopyDoc{}, peer.FetchDocs{}} {
		w := yielding(t, kind)
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		w.answer = func(c Call) *peer.Failure {
			if !isOf([]peer.Op{kind}, c.Op) {
				return nil
			}
			w.now = w.now.Add(15 * time.Second)
			return slow
		}
		for w.end == nil {
			w.proceed(first)
		}
		cause, written := Stopped, int64(1)
		if isCopy(kind) {
			cause, written = Crashed, 0
		}
		if w.end.Cause != cause || w.end.Info.Written != written {
			t.Errorf("%T: ended with %+v", kind, w.end)
		}
	}
}

// TestAskedToComeLater: a run does not wait in its slot for a server that asks to come later.
func TestAskedToComeLater(t *testing.T) {
	for _, f := range []peer.Failure{
		{Kind: peer.Status, Status: 503, RetryAfter: time.Second},
		{Kind: peer.Status, Status: 429},
	} {
		w := yielding(t, peer.CopyDoc{})
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		asked := w.now
		w.answer = func(c Call) *peer.Failure {
			if isCopy(c.Op) {
				return &f
			}
			return nil
		}
		for w.end == nil {
			w.proceed(first)
		}
		if w.end.Cause != Stopped || w.now.Sub(asked) > 500*time.Millisecond {
			t.Errorf("%v: ended %s later with %+v", f, w.now.Sub(asked), w.end)
		}
	}
}

// TestAskedToCompareLater: a run does not keep its slot for a read ahead of its first changes, while a target
// asks it to compare them later.
func TestAskedToCompareLater(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(1)
	refused := false
	w.answer = func(c Call) *peer.Failure {
		if _, compares := c.Op.(peer.DiffRevs); compares {
			refused = true
			return &peer.Failure{Kind: peer.Status, Status: 503, RetryAfter: time.Minute}
		}
		return nil
	}
	w.begin()
	for !refused {
		w.proceed(first)
	}
	asked := w.now
	w.step(GiveWay{})
	for w.end == nil {
		w.proceed(first)
	}
	if w.end.Cause != Stopped || w.now.Sub(asked) > time.Second {
		t.Errorf("ended %s later with %+v", w.now.Sub(asked), w.end)
	}
}

// TestAskedToOpenLater: a run gives way when a server asks it to open a database later, though it has logs to read once
// the database is open.
func TestAskedToOpenLater(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.answer = func(c Call) *peer.Failure {
		if _, opens := c.Op.(peer.Open); opens {
			return &peer.Failure{Kind: peer.Status, Status: 429}
		}
		return &peer.Failure{Kind: peer.Unresolvable}
	}
	w.begin()
	for len(w.flying) > 0 {
		w.proceed(first)
	}
	w.step(GiveWay{})
	if w.wait(0); w.end == nil || w.end.Cause != Stopped {
		t.Errorf("ended with %+v", w.end)
	}
}

// TestDoubtedDocumentKeepsSlot: while a target is asked whether it still lets us in, the document that it refused keeps
// the slot, unless the target asks to come later.
func TestDoubtedDocumentKeepsSlot(t *testing.T) {
	for code, stays := range map[int]bool{0: true, 500: true, 429: false} {
		w := yielding(t, peer.CopyDoc{})
		w.refuses["doc0"] = true
		var opens []instant.Time
		w.answer = func(c Call) *peer.Failure {
			if _, is := c.Op.(peer.Open); is && code != 0 {
				opens = append(opens, w.now)
				return &peer.Failure{Kind: peer.Status, Status: code}
			}
			return nil
		}
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		for w.end == nil && (len(opens) == 0 && code != 0 || w.hangs([]peer.Op{peer.Open{}}) < 0 && code == 0) {
			w.proceed(first)
		}
		if gave := w.end != nil && w.end.Cause == Stopped; gave == stays {
			t.Errorf("the target answers %d: ended with %+v", code, w.end)
		}
	}
}

// TestComesLater: once a server that asked to come later lets a document through, that keeps the slot.
func TestComesLater(t *testing.T) {
	w := yielding(t, peer.CopyDoc{})
	w.answer = func(Call) *peer.Failure { return &peer.Failure{Kind: peer.Status, Status: 429} }
	for w.hangs([]peer.Op{peer.CopyDoc{}}) >= 0 {
		w.proceed(first)
	}
	w.answer = nil
	w.wait(time.Minute, peer.CopyDoc{}, peer.ReadChanges{})
	w.step(GiveWay{})
	if w.end != nil || w.hangs([]peer.Op{peer.CopyDoc{}}) < 0 {
		t.Errorf("the document is given up; end %v", w.end)
	}
}

// TestWayToFirstDocument: a run whose turn is over before it has a document goes on to its first ones, whatever took
// so long, and ends with a checkpoint that covers them; later ones are left for the next turn.
func TestWayToFirstDocument(t *testing.T) {
	for _, kind := range []peer.Op{peer.Open{}, peer.GetLocal{}, peer.ReadChanges{}, peer.DiffRevs{}} {
		w := yielding(t, kind)
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		w.wait(time.Minute, kind)
		if w.end != nil {
			t.Fatalf("%T: ended on the way to the first document: %v", kind, w.end)
		}
		for w.end == nil && w.hangs([]peer.Op{peer.CopyDoc{}, peer.FetchDocs{}}) < 0 {
			w.proceed(first)
		}
		w.dbs[peer.Source].write("late", "1-a")
		for w.end == nil {
			w.proceed(first)
		}
		if w.end.Cause != Stopped || w.end.Info.Written != 1 || w.end.Info.CheckpointedSeq != seqOf(1) {
			t.Errorf("%T: ended with %+v", kind, w.end)
		}
	}
}

// TestNothingToCopy: a run that has found no document to copy gives way once it knows that of the first changes: the
// target has them, a filter leaves out all, or there are none.
func TestNothingToCopy(t *testing.T) {
	filtered := func(peer.ReadChanges) peer.Changes { return peer.Changes{LastSeq: seqOf(7), End: true} }
	for _, c := range []struct {
		there int
		rows  func(peer.ReadChanges) peer.Changes
	}{{there: 5}, {rows: filtered}, {}} {
		w := stalling(t, func(w *world) {
			w.plan.Continuous, w.plan.BatchSize, w.rows = true, 2, c.rows
			for on := range w.dbs {
				w.dbs[on] = newDatabase()
				for i := range c.there {
					w.dbs[on].write(fmt.Sprintf("doc%d", i), "1-a")
				}
			}
		}, peer.ReadChanges{})
		w.now = w.now.Add(time.Minute)
		w.step(GiveWay{})
		w.readOnce()
		for w.end == nil && (c.there == 0 || w.hangs([]peer.Op{peer.DiffRevs{}}) >= 0) {
			w.proceed(first)
		}
		w.wait(time.Minute, peer.ReadChanges{}, peer.DiffRevs{})
		if w.end == nil || w.end.Cause != Stopped {
			t.Errorf("%+v: ended with %+v", c, w.end)
		}
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
