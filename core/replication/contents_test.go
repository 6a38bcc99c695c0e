package replication

import (
	"fmt"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestLenientRequests: something on the way refuses each request with a document in it, as a firewall does that reads
// them, or the target fails on it. After some crashes the others come over, and that document is listed.
func TestLenientRequests(t *testing.T) {
	firewall := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 403, Reason: "answered HTML: 403 Forbidden"}
	damaged := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500, Error: "badmatch"}
	for _, bad := range []peer.Failure{firewall, damaged} {
		for _, crashes := range []int{lenientAfter - 1, lenientAfter} {
			w := newWorld(t)
			w.plan.Crashes, w.plan.BatchSize = crashes, 40
			w.fill(40)
			w.unreadable(bad, "doc3")
			w.begin()
			end := w.runToEnd(first)
			row := w.list[peerRev{"doc3", "1-a"}]
			switch {
			case crashes < lenientAfter:
				if end.Cause != Crashed || len(w.list) > 0 {
					t.Errorf("%d: %s, listed %v", bad.Status, end, w.list)
				}
			case end.Cause != Completed || len(w.list) != 1 || row == nil || row.Status != bad.Status || !row.Failed:
				t.Errorf("%d: %s, listed %v", bad.Status, end, w.list)
			case end.Info.DocsWritten != 39:
				t.Errorf("%d: %s", bad.Status, end.Info)
			}
		}
	}
}

// TestLenientPass: a target that fails on questions about one listed document keeps no other one on the list.
func TestLenientPass(t *testing.T) {
	for _, crashes := range []int{0, lenientAfter} {
		w := newWorld(t)
		w.plan.Crashes, w.plan.BatchSize, w.plan.OnRefusal = crashes, 40, spec.RetryRefused
		w.fill(10)
		w.unreadable(peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500, Error: "badmatch"}, "doc3")
		for i := range 8 {
			w.keep(Finding{Refusal: peer.Refusal{ID: fmt.Sprint("doc", i), Rev: "1-a", Status: 403}})
			w.dbs[peer.Target].write(fmt.Sprint("doc", i), "1-a")
		}
		w.begin()
		end := w.runToEnd(first)
		if crashes == 0 && end.Cause != Crashed {
			t.Errorf("%s", end)
		}
		if crashes > 0 && (end.Cause != Completed || len(w.list) != 1 || !w.lists("doc3", "1-a")) {
			t.Errorf("%s, listed %v", end, w.list)
		}
	}
}

// TestLenientNeedsAccess: a target that lets us read only refuses documents of ours, and none is listed for that.
func TestLenientNeedsAccess(t *testing.T) {
	w := newWorld(t)
	w.plan.Crashes = lenientAfter
	w.fill(10)
	reader := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 403, Error: "forbidden"}
	w.reply = func(c Call) *peer.Reply {
		switch op := c.Op.(type) {
		case peer.WriteDocs:
			return &peer.Reply{Failure: &reader}
		case peer.CopyDoc:
			return refusedWith(op, peer.Refusal{Status: 403, Error: "forbidden"})
		}
		return nil
	}
	w.begin()
	if end := w.wantEnd(Crashed, "forbidden"); len(w.list) > 0 {
		t.Errorf("%s, listed %v", end, w.list)
	}
}
