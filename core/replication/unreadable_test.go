package replication

import (
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/peer"
)

// unreadable has the target fail on every request in which one of some documents is, as a server does that cannot read
// it: questions, bulk writes and copies.
func (w *world) unreadable(bad peer.Failure, ids ...string) {
	w.reply = func(c Call) *peer.Reply {
		sent := false
		switch op := c.Op.(type) {
		case peer.DiffRevs:
			sent = slices.ContainsFunc(op.Docs, func(d peer.DocRevs) bool { return slices.Contains(ids, d.ID) })
		case peer.WriteDocs:
			sent = slices.ContainsFunc(op.Docs, func(k peer.Kept) bool {
				return slices.Contains(ids, w.kept[k.Fetch][k.Index].ID)
			})
		case peer.CopyDoc:
			if slices.Contains(ids, op.ID) {
				return refusedWith(op, peer.Refusal{Status: bad.Status, Error: bad.Error, Reason: bad.Reason})
			}
		}
		if sent {
			return &peer.Reply{Failure: &bad}
		}
		return nil
	}
}

// refusedWith is the answer to a copy whose revisions the target refuses.
func refusedWith(op peer.CopyDoc, v peer.Refusal) *peer.Reply {
	var got peer.Copied
	for _, rev := range op.Revs {
		of := v
		of.ID, of.Rev = op.ID, rev
		got.Revs = append(got.Revs, peer.CopiedRev{Rev: rev, Refused: &of})
	}
	return &peer.Reply{Result: got}
}

// TestUnreadableDocuments: a document that the target cannot read fails the bulk write and the question that it is in.
// It is listed, and the others come over.
func TestUnreadableDocuments(t *testing.T) {
	couchDB := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request", Reason: "no JSON"}
	pouchDB := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500, Error: "doc_validation", Reason: "_foo"}
	for i, bad := range []peer.Failure{couchDB, couchDB, pouchDB, pouchDB} {
		bulk := i%2 == 0
		w := newWorld(t)
		w.plan.UseBulkGet = bulk
		w.fill(20)
		w.unreadable(bad, "doc3", "doc11", "doc12")
		w.begin()
		end := w.runToEnd(first)
		i := end.Info
		refusals := int64(3)
		if bad.Status == 400 { // what may pass is tried once more at the end
			refusals = 6
		}
		if end.Cause != Completed || i.DocWriteFailures != refusals || i.DocsWritten != 17 || len(w.list) != 3 {
			t.Fatalf("bulk %v: %s, %s, listed %v", bulk, end, end.Info, w.list)
		}
		for _, id := range []string{"doc3", "doc11", "doc12"} {
			row := w.list[peerRev{id, "1-a"}]
			if row == nil || row.Status != bad.Status || row.Reason != bad.Reason {
				t.Errorf("%s is listed as %+v", id, row)
			}
		}
		if n := w.count("write"); bulk && n > 20 {
			t.Errorf("%d bulk writes to find three documents of twenty", n)
		}
	}
}

// TestTargetReadsNothing: a target that answers 400 to all that it is sent has refused no document.
func TestTargetReadsNothing(t *testing.T) {
	for _, word := range []string{"", "bad_request"} {
		w := newWorld(t)
		w.fill(3)
		bad := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: word}
		w.reply = func(c Call) *peer.Reply {
			switch op := c.Op.(type) {
			case peer.WriteDocs:
				return &peer.Reply{Failure: &bad}
			case peer.CopyDoc:
				return refusedWith(op, peer.Refusal{Status: 400, Error: word})
			case peer.Open:
				if op.Side == peer.Target && w.count("copy") > 0 {
					return &peer.Reply{Failure: &bad}
				}
			}
			return nil
		}
		w.begin()
		if end := w.runToEnd(first); end.Cause != Crashed || len(w.list) > 0 {
			t.Errorf("%q: %s, listed %v", word, end, w.list)
		}
	}
}

// TestThrownText: a document over which a validation function throws a text is left out, as with CouchDB, and tried
// again, as CouchDB has the same word for troubles of its own, though not by a job that is made anew.
func TestThrownText(t *testing.T) {
	w := newWorld(t)
	w.fill(20)
	w.plan.UseBulkGet = false
	w.reply = func(c Call) *peer.Reply {
		if op, is := c.Op.(peer.CopyDoc); is && op.ID == "doc3" {
			return refusedWith(op, peer.Refusal{Status: 500, Error: "unknown_error", Reason: "no threes"})
		}
		return nil
	}
	w.begin()
	end := w.runToEnd(first)
	row := w.list[peerRev{"doc3", "1-a"}]
	if end.Cause != Completed || end.Info.DocsWritten != 19 || row == nil || row.Reason != "no threes" || !row.Failed {
		t.Errorf("%s, %s, listed %v", end, end.Info, w.list)
	}
	if w.unfinished(peer.Target) {
		t.Error("a job that is made anew reads all again")
	}
}

// TestListWithUnreadable: a listed document whose name the target cannot read keeps none of those on the list that the
// target has got meanwhile.
func TestListWithUnreadable(t *testing.T) {
	for _, first := range []string{"doc0", "doc4", "doc7"} {
		w := newWorld(t)
		w.fill(10)
		bad := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request"}
		w.unreadable(bad, first)
		for i := range 8 {
			w.keep(Finding{Refusal: peer.Refusal{ID: fmt.Sprint("doc", i), Rev: "1-a", Status: 403}})
		}
		w.plan.BatchSize = 40
		w.begin()
		w.wantEnd(Completed, "")
		if len(w.list) != 1 || !w.lists(first, "1-a") {
			t.Errorf("%s: listed %v", first, w.list)
		}
	}
}
