package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// tooLargeFor has the way to the target take no document of some: bulk writes with them, and copies, are answered 413.
func (w *world) tooLargeFor(word string, ids ...string) {
	f := &peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 413, Error: word}
	w.reply = func(c Call) *peer.Reply {
		switch op := c.Op.(type) {
		case peer.WriteDocs:
			for _, k := range op.Docs {
				if slices.Contains(ids, w.kept[k.Fetch][k.Index].ID) {
					return &peer.Reply{Failure: f}
				}
			}
		case peer.CopyDoc:
			if slices.Contains(ids, op.ID) {
				return refusedWith(op, peer.Refusal{Status: 413, Error: word})
			}
		}
		return nil
	}
}

// TestTooLargeForProxy: a document is too large for a proxy before the target, which has no word for the error. It is
// listed, stops nothing, and comes over by itself once the proxy takes it, which a database's own limit is no reason
// for under on_refusal skip.
func TestTooLargeForProxy(t *testing.T) {
	for _, bulk := range []bool{true, false} {
		for word, comes := range map[string]bool{"": true, "document_too_large": false} {
			w := newWorld(t)
			w.plan.UseBulkGet, w.plan.Continuous = bulk, true
			w.fill(20)
			w.tooLargeFor(word, "doc3")
			w.begin()
			w.until(time.Hour)
			row := w.list[peerRev{"doc3", "1-a"}]
			if row == nil || row.Status != 413 || (row.attempts > 1) != comes || w.unfinished(peer.Target) {
				t.Fatalf("bulk %v, %q: listed %v", bulk, word, w.list)
			}
			if got := w.run.info.DocsWritten; got != 19 {
				t.Fatalf("bulk %v, %q: %d documents written", bulk, word, got)
			}
			w.until(20 * time.Minute)
			w.begin() // its first pass leaves the document alone
			if w.until(10 * time.Second); w.run.refused.unfinished {
				t.Fatalf("bulk %v, %q: the checkpoints rely on the list", bulk, word)
			}
			w.reply = nil
			w.until(10 * time.Hour)
			if got := w.dbs[peer.Target].has("doc3", "1-a"); got != comes || (len(w.list) == 0) != comes {
				t.Errorf("bulk %v, %q: the document came: %v; listed %v", bulk, word, got, w.list)
			}
		}
	}
}

// TestTooLargeWithoutPlace: what is too large for a proxy ends no run, also where the list has no place for it.
func TestTooLargeWithoutPlace(t *testing.T) {
	for _, policy := range []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused} {
		for _, bulk := range []bool{true, false} {
			t.Run(fmt.Sprint(policy, " ", bulk), func(t *testing.T) {
				w := newWorld(t)
				w.plan.UseBulkGet, w.plan.OnRefusal = bulk, policy
				w.others = MaxListed
				w.fill(2)
				w.tooLargeFor("", "doc0", "doc1")
				w.begin()
				w.wantEnd(Completed, "")
			})
		}
	}
}
