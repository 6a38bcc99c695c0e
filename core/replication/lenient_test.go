package replication

import (
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// bad has bulk writes with doc3 fail, and answers its copies.
func (w *world) bad(f peer.Failure, alone func(peer.CopyDoc) *peer.Reply) {
	w.reply = func(c Call) *peer.Reply {
		has := func(k peer.Kept) bool { return w.kept[k.Fetch][k.Index].ID == "doc3" }
		switch op := c.Op.(type) {
		case peer.WriteDocs:
			if slices.ContainsFunc(op.Docs, has) {
				return &peer.Reply{Failure: &f}
			}
		case peer.CopyDoc:
			if op.ID == "doc3" {
				return alone(op)
			}
		}
		return nil
	}
}

// TestLenient: a run whose job crashed often leaves out a document that cannot be copied while others are, and lists it
// with the reason. Earlier runs end, as the failure may pass.
func TestLenient(t *testing.T) {
	fails := func(f peer.Failure) func(peer.CopyDoc) *peer.Reply {
		return func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &f} }
	}
	down := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500, Error: "unknown_error", Reason: "badarith"}
	corrupt := peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 500, Error: "unknown_error"}
	garbled := peer.Failure{Side: peer.Source, Kind: peer.Malformed, Reason: "answered no document"}
	locked := peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 403, Error: "forbidden"}
	lacks := func(peer.CopyDoc) *peer.Reply {
		return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Missing: true}}}}
	}
	odd := func(op peer.CopyDoc) *peer.Reply { return refusedWith(op, peer.Refusal{Status: 405}) }
	for name, c := range map[string]struct {
		alone  func(peer.CopyDoc) *peer.Reply
		status int
		word   string
	}{
		"target fails":    {fails(down), 500, "unknown_error"},
		"source fails":    {fails(corrupt), 500, "unknown_error"},
		"source lies":     {fails(garbled), 0, "malformed_response"},
		"source forbids":  {fails(locked), 403, "forbidden"},
		"refused oddly":   {odd, 405, ""},
		"source lacks it": {lacks, 404, "not_found"},
	} {
		for _, crashes := range []int{0, lenientAfter - 1, lenientAfter, lenientAfter + 1} {
			t.Run(fmt.Sprint(name, " after ", crashes), func(t *testing.T) {
				w := newWorld(t)
				w.plan.Crashes, w.plan.UseBulkGet, w.plan.BatchSize = crashes, crashes%2 == 1, 40
				w.fill(40)
				w.bad(down, c.alone)
				w.begin()
				end := w.runToEnd(first)
				row, i := w.list[peerRev{"doc3", "1-a"}], end.Info
				switch {
				case crashes < lenientAfter:
					if end.Cause != Crashed || len(w.list) > 0 {
						t.Errorf("%s, listed %v", end, w.list)
					}
				case end.Cause != Completed || row == nil || i.DocsWritten != 39 || i.DocWriteFailures != 1:
					t.Errorf("%s, %s, listed %v", end, end.Info, w.list)
				case row.Status != c.status || row.Error != c.word || !row.Failed:
					t.Errorf("listed as %+v", row)
				}
			})
		}
	}
}

// TestSourceRefuses: a firewall before the source refuses one document for what is in it. A lenient run lists it, and a
// job that is made anew, which has no list, reads all again: CouchDB would not have gone on behind it.
func TestSourceRefuses(t *testing.T) {
	for _, status := range []int{400, 403, 413} {
		w := newWorld(t)
		w.plan.Crashes, w.plan.UseBulkGet, w.plan.BatchSize = lenientAfter, false, 40
		w.fill(40)
		f := peer.Failure{Side: peer.Source, Kind: peer.Status, Status: status}
		w.bad(f, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &f} })
		w.begin()
		if w.wantEnd(Completed, ""); !w.lists("doc3", "1-a") || !w.unfinished(peer.Target) {
			t.Errorf("%d: listed %v; the checkpoint relies on the list: %v", status, w.list, w.unfinished(peer.Target))
		}
	}
}

// TestLenientNeedsProof: while the target takes no document at all, none is left out, and neither under on_refusal
// fail.
func TestLenientNeedsProof(t *testing.T) {
	for _, policy := range []spec.OnRefusal{spec.SkipRefused, spec.FailRefused} {
		w := newWorld(t)
		w.plan.Crashes, w.plan.OnRefusal = lenientAfter, policy
		w.fill(10)
		down := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500}
		w.bad(down, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &down} })
		if policy == spec.SkipRefused {
			w.reply = func(c Call) *peer.Reply {
				switch c.Op.(type) {
				case peer.WriteDocs, peer.CopyDoc:
					return &peer.Reply{Failure: &down}
				}
				return nil
			}
		}
		w.begin()
		if end := w.runToEnd(first); end.Cause != Crashed || len(w.list) > 0 {
			t.Errorf("%q: %s, listed %v", policy, end, w.list)
		}
	}
}

// TestRetriesOfListed: a document of the list that fails is tried once more, and as often as any if it is the server
// that cannot be reached.
func TestRetriesOfListed(t *testing.T) {
	for kind, want := range map[peer.Kind]int{peer.Broken: 1, peer.TimedOut: 1, peer.Unreachable: 4} {
		r := New(Plan{Options: Options{Retries: 4}})
		c, granted := &call{op: peer.CopyDoc{}, brief: true}, 0
		for granted < 10 && r.grantRetry(c, &peer.Failure{Kind: kind}) {
			granted++
		}
		if granted != want {
			t.Errorf("%s: %d retries, want %d", kind, granted, want)
		}
	}
}

// TestNoRetries: with retries_per_request 0 nothing is asked again, but for a document that a lenient run would leave
// out.
func TestNoRetries(t *testing.T) {
	for _, crashes := range []int{0, lenientAfter} {
		for _, op := range []peer.Op{peer.CopyDoc{}, peer.WriteDocs{}} {
			r, granted := New(Plan{Crashes: crashes}), 0
			c := &call{op: op}
			for granted < 10 && r.grantRetry(c, &peer.Failure{Kind: peer.Broken}) {
				granted++
			}
			_, copies := op.(peer.CopyDoc)
			if want := map[bool]int{true: 1}[copies && crashes > 0]; granted != want {
				t.Errorf("%T after %d crashes: %d retries, want %d", op, crashes, granted, want)
			}
		}
	}
}

// TestOversizedCopy: a document whose name does not fit into a request is left out.
func TestOversizedCopy(t *testing.T) {
	w := newWorld(t)
	w.plan.UseBulkGet = false
	w.fill(5)
	long := peer.Failure{Side: peer.Source, Kind: peer.Oversized, Status: 414}
	w.bad(long, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &long} })
	w.begin()
	if end := w.wantEnd(Completed, ""); len(w.list) != 1 || end.Info.DocsWritten != 4 {
		t.Errorf("%s, listed %v", end, w.list)
	}
}
