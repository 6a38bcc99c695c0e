package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

func TestDesignDocumentsGoAlone(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("_design/d", "1-a")
	w.dbs[peer.Source].write("plain", "1-a")
	w.refuses["_design/d"] = true
	w.begin()
	end := w.wantEnd(Completed, "")
	if end.Info.DocsWritten != 1 || end.Info.DocWriteFailures != 1 || end.Info.Refusals[0].ID != "_design/d" {
		t.Errorf("info %+v", end.Info)
	}
}

func TestTooLargeIsSplit(t *testing.T) {
	w := newWorld(t)
	w.fill(4)
	w.maxWrite = 1
	w.tooLarge = "doc2"
	w.begin()
	end := w.wantEnd(Completed, "")
	if end.Info.DocsWritten != 3 || end.Info.DocWriteFailures != 1 || len(w.kept) != 0 {
		t.Errorf("info %+v, kept %v", end.Info, w.kept)
	}
	if r := end.Info.Refusals[0]; r.ID != "doc2" || r.Rev != "1-a" || r.Status != 413 {
		t.Errorf("refusal %+v", r)
	}
}

// A newer leaf may come than the one that was asked for: that is what was refused.
func TestRefusalNamesWhatCame(t *testing.T) {
	for _, forbidden := range []bool{false, true} {
		w := newWorld(t)
		w.fill(1)
		if w.refuses["doc0"] = forbidden; !forbidden {
			w.tooLarge = "doc0"
		}
		w.begin()
		for !strings.HasPrefix(w.calls[len(w.calls)-1], "diff") {
			w.proceed(first)
		}
		w.dbs[peer.Source].write("doc0", "2-b", "1-a")
		if end := w.wantEnd(Completed, ""); len(end.Info.Refusals) != 1 || end.Info.Refusals[0].Rev != "2-b" {
			t.Errorf("forbidden %t: refusals %+v", forbidden, end.Info.Refusals)
		}
	}
}

// A target that knows us no longer refuses each document as a validation function does.
func TestLockedOutLeavesNothingOut(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("_design/d", "1-a")
	w.refuses["_design/d"] = true
	w.failOn("open target", 2, status(401))
	w.begin()
	end := w.wantEnd(Crashed, "unauthorized")
	if end.Info.DocWriteFailures != 0 || len(w.dbs[peer.Target].local) > 0 {
		t.Errorf("info %+v, checkpoints %v", end.Info, w.dbs[peer.Target].local)
	}

	w = newWorld(t)
	w.dbs[peer.Source].write("_design/d", "1-a")
	w.refuses["_design/d"] = true
	w.begin()
	for w.count("open target") < 2 { // the one at the beginning, and the one after the refusal
		w.proceed(first)
	}
	w.refuses["_design/d"] = false
	if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != 1 || end.Info.DocWriteFailures != 0 {
		t.Errorf("info %+v", end.Info)
	}
}

func TestMissingStubComesWithAllAttachments(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("a", "2-b", "1-a")
	w.dbs[peer.Target].write("a", "1-a")
	w.attachments["a"] = true
	var since []int
	w.odd = func() bool { return len(since) == 1 } // a stub is missing at the first copy
	w.fault = func(c Call) fault {
		if op, is := c.Op.(peer.CopyDoc); is {
			since = append(since, len(op.Since))
		}
		return works
	}
	w.begin()
	began := w.now
	w.wantEnd(Completed, "")
	if !w.dbs[peer.Target].has("a", "2-b") || !slices.Equal(since, []int{1, 0}) || w.now.Sub(began) > time.Second {
		t.Errorf("after %s, copies that name %v revisions of the target", w.now.Sub(began), since)
	}
}

func TestMissingRevisionIsAskedOnceMore(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.attachments["doc0"] = true
	w.begin()
	for !strings.HasPrefix(w.calls[len(w.calls)-1], "copy") {
		w.proceed(first)
	}
	delete(w.dbs[peer.Source].parent, "doc0")
	w.vanished = true
	began := w.now
	w.wantEnd(Crashed, `missing_doc: the source announced revisions of document "doc0" that it does not have: 1-a`)
	if w.now.Sub(began) < defaultMissingPause {
		t.Error("did not wait for the source")
	}
	if len(w.dbs[peer.Source].local) > 0 {
		t.Error("wrote a checkpoint")
	}
}

// TestMissingRevisionsNamedTwice: an answer that names what is missing more than once makes the next question
// no longer, and an error names a few.
func TestMissingRevisionsNamedTwice(t *testing.T) {
	w := newWorld(t)
	for n := range 40 {
		w.dbs[peer.Source].write("doc0", fmt.Sprintf("1-%02d", n))
	}
	w.attachments["doc0"] = true
	w.begin()
	for w.end == nil {
		i := slices.IndexFunc(w.flying, func(c Call) bool { _, copies := c.Op.(peer.CopyDoc); return copies })
		if i < 0 {
			w.proceed(first)
			continue
		}
		call := w.flying[i]
		op := call.Op.(peer.CopyDoc)
		if len(op.Revs) > 40 {
			t.Fatalf("asks for %d of 40 revisions", len(op.Revs))
		}
		var copied peer.Copied
		for _, rev := range append(op.Revs, op.Revs...) {
			copied.Revs = append(copied.Revs, peer.CopiedRev{Rev: rev, Missing: true})
		}
		w.flying = slices.Delete(w.flying, i, i+1)
		w.step(Reply{ID: call.ID, Reply: peer.Reply{Result: copied}})
	}
	w.wantEnd(Crashed, `missing_doc: the source announced revisions of document "doc0" that it does not have: `+
		`1-00, 1-01, 1-02, 1-03, 1-04 and 35 more`)
}

// TestMemoryIsBounded: documents of a megabyte never fill more than the limit.
func TestMemoryIsBounded(t *testing.T) {
	for _, limit := range []int{0, 5 << 20} {
		w := newWorld(t)
		w.plan.Workers, w.plan.BatchSize, w.plan.Memory = 8, 50, limit
		w.docSize = 1 << 20
		w.fill(400)
		w.begin()
		for w.end == nil {
			w.proceed(first)
			if w.run.work.memory > cmp.Or(limit, DefaultMemory) {
				t.Fatalf("%d bytes of bodies, and may have %d", w.run.work.memory, limit)
			}
		}
		if w.end.Cause != Completed || w.end.Info.BytesWritten != 400<<20 {
			t.Errorf("%s, %d bytes", w.end, w.end.Info.BytesWritten)
		}
	}
}

// TestWaitingForTheTarget: while a document that the target did not take waits for its next attempt, the run says why.
func TestWaitingForTheTarget(t *testing.T) {
	w := newWorld(t)
	w.plan.UseBulkGet = false
	w.fill(1)
	refused := &peer.Refusal{ID: "doc0", Rev: "1-a", Status: 409, Error: "conflict", Reason: "busy"}
	w.reply = func(c Call) *peer.Reply {
		if isCopy(c.Op) && w.count("copy") == 1 {
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: refused}}}}
		}
		return nil
	}
	w.begin()
	for w.count("copy") == 0 || slices.ContainsFunc(w.flying, func(c Call) bool { return isCopy(c.Op) }) {
		w.proceed(first)
	}
	if waiting := w.run.Info().Waiting; waiting != "PUT doc0: 409 conflict: busy" {
		t.Errorf("it waits: %q", waiting)
	}
	if end := w.wantEnd(Completed, ""); end.Info.Waiting != "" {
		t.Errorf("completed, and waits: %q", end.Info.Waiting)
	}
}

// TestManyLeafs: a document with hundreds of thousands of leaves, which a source does not have or a target refuses,
// takes no time that others would notice.
func TestManyLeafs(t *testing.T) {
	const many = 200_000
	var missing, refused peer.Copied
	op := peer.CopyDoc{ID: "doc"}
	for i := range many {
		no := &peer.Refusal{Status: 403, Error: "forbidden"}
		op.Revs = append(op.Revs, fmt.Sprint("1-", i))
		missing.Revs = append(missing.Revs, peer.CopiedRev{Rev: op.Revs[i], Missing: true})
		refused.Revs = append(refused.Revs, peer.CopiedRev{Rev: fmt.Sprint("2-", i), Refused: no})
	}
	r := New(Plan{Options: Options{Workers: 1, BatchSize: 1, Connections: 6}})
	r.refused.begin()
	r.work.copyDoc(&batch{}, alone{CopyDoc: op})
	answer := func(result peer.Result) { // the newest call
		r.onReply(Reply{ID: r.nextID, Reply: peer.Reply{Result: result}})
	}
	answer(peer.Copied{Revs: refused.Revs[:1]})
	answer(peer.Opened{})
	r.retryDue()
	answer(refused)
	if r.info.Refused != many {
		t.Errorf("%d refused", r.info.Refused)
	}
	r.work.copyDoc(&batch{}, alone{CopyDoc: op})
	answer(missing)
	if left := len(r.calls[0].op.(peer.CopyDoc).Revs); left != many {
		t.Errorf("%d are asked for again", left)
	}
}

// TestDoubts: of leaves that the target refuses, and that were not asked for, only the first of all is doubted. Each
// may be another one, so the copy would ask whether the target knows us again and again.
func TestDoubts(t *testing.T) {
	c := &docCopy{own: map[string]bool{"1-a": true}, admitted: map[string]bool{}}
	for _, want := range []string{"1-a true, 2-b true, 3-c true", "1-a true, 2-b false, 3-c false"} {
		got := fmt.Sprintf("1-a %t, 2-b %t, 3-c %t", c.doubts("1-a"), c.doubts("2-b"), c.doubts("3-c"))
		if got != want {
			t.Errorf("doubted: %s, want %s", got, want)
		}
		c.admitted["2-b"] = true
	}
}
