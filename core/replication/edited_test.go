package replication

import (
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestPolicyIsEdited: an edit of on_refusal decides over documents that are listed already. Under fail and under retry
// the run copies those that the target takes by now. Of the rest, retry keeps the list, and fail ends the run.
func TestPolicyIsEdited(t *testing.T) {
	for _, before := range []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused} {
		for _, after := range []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused, spec.FailRefused} {
			for _, healed := range []bool{true, false} {
				w := refusing(t, before)
				w.begin()
				w.wantEnd(Completed, "")
				if healed {
					clear(w.refuses)
				}
				w.plan.OnRefusal = after
				w.begin()
				end := w.runToEnd(first)
				all := w.dbs[peer.Target].has("doc3", "1-a")
				switch {
				case after == spec.FailRefused && !healed:
					if end.Cause != Failed || end.Trouble.Error != "refused" || end.Refused == nil ||
						!w.refuses[end.Refused.ID] || !strings.Contains(end.Trouble.Reason, "forbidden") {
						t.Errorf("%q, then %q: %s", before, after, end)
					}
				case end.Cause != Completed, all != (healed && after != spec.SkipRefused), all != (len(w.list) == 0):
					t.Errorf("%q, then %q, healed %v: %s, listed %v", before, after, healed, end, w.list)
				}
			}
		}
	}
}

// TestEditedToFailWhileIll: a document that was listed since it could not be copied, as a source failed on it, comes
// over under on_refusal fail as well. Until then no run is completed, and none fails for good: the target has not
// refused it.
func TestEditedToFailWhileIll(t *testing.T) {
	for name, f := range corrupt {
		w := newWorld(t)
		w.plan.Crashes, w.plan.UseBulkGet = lenientAfter, false
		w.fill(40)
		w.bad(f, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &f} })
		w.begin()
		w.wantEnd(Completed, "")
		w.plan.OnRefusal = spec.FailRefused
		w.begin()
		if end := w.runToEnd(first); end.Cause != Crashed || len(w.list) != 1 {
			t.Fatalf("%s: %s, listed %v", name, end, w.list)
		}
		w.reply = nil
		w.begin()
		if w.wantEnd(Completed, ""); len(w.list) > 0 || !w.dbs[peer.Target].has("doc3", "1-a") {
			t.Errorf("%s: listed %v", name, w.list)
		}
	}
}

// TestEditedToFailWhileGone: a document that is listed and that the source does not have any more, for a while or for
// good, is not called refused under on_refusal fail. A one-shot is not completed without it before a node that has it
// had a quarter of an hour to come back, and then keeps it listed, as a continuous job does at once. Else jobs whose
// source was made again would crash for ever.
func TestEditedToFailWhileGone(t *testing.T) {
	for _, c := range []struct {
		continuous bool
		crashes    int
		passes     bool
	}{{false, lenientAfter - 1, false}, {false, lenientAfter, true}, {true, 0, true}} {
		w := refusing(t, spec.SkipRefused)
		w.begin()
		w.wantEnd(Completed, "")
		w.plan.OnRefusal, w.plan.Continuous, w.plan.Crashes = spec.FailRefused, c.continuous, c.crashes
		gone := true
		w.reply = func(c Call) *peer.Reply {
			op, is := c.Op.(peer.CopyDoc)
			if !is || !gone {
				return nil
			}
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0], Missing: true}}}}
		}
		w.begin()
		switch {
		case !c.passes:
			w.wantEnd(Crashed, "missing_doc")
			continue
		case c.continuous:
			w.until(time.Minute)
		default:
			w.wantEnd(Completed, "")
		}
		if len(w.list) != 6 || w.list[peerRev{"doc3", "1-a"}].Error != "forbidden" {
			t.Errorf("%+v: listed are %v", c, w.list)
		}
		gone = false
		clear(w.refuses)
		w.begin()
		w.until(time.Minute)
		if len(w.list) > 0 || !w.dbs[peer.Target].has("doc3", "1-a") {
			t.Errorf("%+v: listed are still %v", c, w.list)
		}
	}
}
