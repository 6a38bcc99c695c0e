package replication

import (
	"slices"
	"testing"

	"couchrelay/core/peer"
)

// TestRefusedCopyKeepsItsStubs: a target that fails for a moment gets the document again after a pause, with the same
// attachments left out that it has; only one that misses them gets them all.
func TestRefusedCopyKeepsItsStubs(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("a", "2-b", "1-a")
	w.dbs[peer.Target].write("a", "1-a")
	w.attachments["a"] = true
	w.begin()
	copies, failed := 0, w.now
	for w.end == nil {
		i := slices.IndexFunc(w.flying, func(c Call) bool { _, is := c.Op.(peer.CopyDoc); return is })
		if i < 0 {
			w.proceed(first)
			continue
		}
		call := w.flying[i]
		op := call.Op.(peer.CopyDoc)
		if copies++; len(op.Since) == 0 {
			t.Fatalf("copy %d comes with all attachments: %v", copies, op)
		}
		if copies > 1 {
			if w.now == failed {
				t.Error("the target gets no time")
			}
			break
		}
		refused := peer.Refusal{ID: "a", Rev: "2-b", Status: 500, Error: "internal_server_error"}
		w.flying = slices.Delete(w.flying, i, i+1)
		w.step(Reply{ID: call.ID, Reply: peer.Reply{
			Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "2-b", Refused: &refused}}},
		}})
	}
	w.wantEnd(Completed, "")
	if copies < 2 || !w.dbs[peer.Target].has("a", "2-b") {
		t.Errorf("%d copies, and the document is not there", copies)
	}
}

// TestMissingRevisionComesWithAllAttachments: a revision that the source lacked at first is copied with all its
// attachments, also with those that the target should have.
func TestMissingRevisionComesWithAllAttachments(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("a", "2-b", "1-a")
	w.dbs[peer.Target].write("a", "1-a")
	w.attachments["a"] = true
	var since []int
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.CopyDoc)
		if !is {
			return nil
		}
		if since = append(since, len(op.Since)); len(since) > 1 {
			return nil
		}
		return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "2-b", Missing: true}}}}
	}
	w.begin()
	w.wantEnd(Completed, "")
	if !slices.Equal(since, []int{1, 0}) || !w.dbs[peer.Target].has("a", "2-b") {
		t.Errorf("copies that name %v revisions of the target", since)
	}
}
