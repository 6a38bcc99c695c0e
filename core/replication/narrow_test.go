package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// whenCopied notes which revisions the copies of a run ask for, and has answer say what comes of each.
func (w *world) whenCopied(answer func(c Call, op peer.CopyDoc) *peer.Reply) *[]string {
	var asked []string
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.CopyDoc)
		if !is {
			return nil
		}
		asked = append(asked, fmt.Sprint(op.Revs))
		return answer(c, op)
	}
	return &asked
}

// forked is a world whose document "d", which is copied alone, has as many leaves as are given.
func forked(t *testing.T, leaves ...string) *world {
	w := newWorld(t)
	for _, rev := range leaves {
		w.dbs[peer.Source].write("d", rev)
	}
	w.plan.BatchSize = 40
	w.fill(40)
	w.attachments["d"] = true
	return w
}

// TestCutAnswers: a source breaks off each answer with several revisions before the last one, and has a newer leaf of
// the first by now, which it sends in its place: what does come is nothing that the copy asks for.
func TestCutAnswers(t *testing.T) {
	w := forked(t, "1-a", "1-b", "1-c")
	asked := w.whenCopied(func(c Call, op peer.CopyDoc) *peer.Reply {
		if w.dbs[peer.Source].write("d", "2-a", "1-a"); len(op.Revs) == 1 {
			return nil
		}
		op.Revs = op.Revs[:1]
		cut := w.apply(Call{ID: c.ID, Op: op}, false)
		cut.Failure = &peer.Failure{Side: peer.Source, Kind: peer.Broken}
		return &cut
	})
	w.begin()
	end := w.wantEnd(Completed, "")
	if want := []string{"[1-a 1-b 1-c]", "[1-c]", "[1-a 1-b]", "[1-b]", "[1-a]"}; !slices.Equal(*asked, want) {
		t.Errorf("asked for %v, want %v", *asked, want)
	}
	if !w.dbs[peer.Target].has("d", "1-b") || end.Info.DocsWritten != 43 || end.Info.DocsRead != 43 {
		t.Errorf("%s", end.Info)
	}
}

// chokes is a server that fails when it comes to a revision, and refuses 1-d, which is too large.
func (w *world) chokes(side peer.Side, status int, rev string) {
	w.whenCopied(func(c Call, op peer.CopyDoc) *peer.Reply {
		var refused []peer.CopiedRev
		end := slices.Index(op.Revs, rev)
		before := op.Revs[:max(end, 0)]
		if end < 0 {
			before = op.Revs
		}
		if i := slices.Index(before, "1-d"); i >= 0 {
			before = slices.Delete(slices.Clone(before), i, i+1)
			no := &peer.Refusal{ID: "d", Rev: "1-d", Status: 413, Error: "too_large"}
			refused = []peer.CopiedRev{{Rev: "1-d", Refused: no}}
		}
		op.Revs = before
		out := w.apply(Call{ID: c.ID, Op: op}, false)
		got := out.Result.(peer.Copied)
		got.Revs = append(got.Revs, refused...)
		if out.Result = got; end >= 0 {
			out.Failure = &peer.Failure{Side: side, Kind: peer.Status, Status: status}
		}
		return &out
	})
}

// TestUnreadableRevision: of a document one revision cannot be read, or written. The others come over, and a lenient
// run lists that one alone. One that the target refuses is listed for what the target said. PouchDB's server answers
// 404 to who asks for an attachment that it has lost.
func TestUnreadableRevision(t *testing.T) {
	for _, rev := range []string{"1-a", "1-b", "1-c"} {
		for _, status := range []int{500, 404, 403} {
			side := peer.Source
			if status == 500 && rev != "1-b" {
				side = peer.Target
			}
			w := forked(t, "1-a", "1-b", "1-c", "1-d")
			w.plan.Crashes = lenientAfter
			w.chokes(side, status, rev)
			w.begin()
			end := w.wantEnd(Completed, "")
			row, refused := w.list[peerRev{"d", rev}], w.list[peerRev{"d", "1-d"}]
			failed := row != nil && row.Failed && strings.Contains(row.Reason, fmt.Sprint(status))
			if len(w.list) != 2 || !failed || refused == nil || refused.Status != 413 {
				t.Errorf("%d for %s at the %s: listed %v", status, rev, side, w.list)
			}
			if i := end.Info; i.DocsWritten != 42 || i.DocWriteFailures != 2 {
				t.Errorf("%d for %s at the %s: %s", status, rev, side, i)
			}
		}
	}
}

// TestFirstUnreadable: of a document with many leaves the source cannot read the first ones, so that each answer breaks
// off before any that it could have. The others come over with few requests.
func TestFirstUnreadable(t *testing.T) {
	for bad, most := range map[int]int{1: 30, 3: 35} {
		var leaves []string
		for i := range 100 {
			leaves = append(leaves, fmt.Sprintf("1-%03d", i))
		}
		w := forked(t, leaves...)
		w.plan.Crashes = lenientAfter
		asked := w.whenCopied(func(c Call, op peer.CopyDoc) *peer.Reply {
			if slices.Contains(leaves[:bad], op.Revs[0]) {
				return &peer.Reply{Failure: &peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 500}}
			}
			return nil
		})
		w.begin()
		w.wantEnd(Completed, "")
		if len(*asked) > most || len(w.list) != bad {
			t.Errorf("%d bad ones: %d requests, and %d are listed", bad, len(*asked), len(w.list))
		}
	}
}

// TestCutBehindAll: an answer that breaks off when all has come that was asked for is not asked for again.
func TestCutBehindAll(t *testing.T) {
	w := forked(t, "1-a", "1-b")
	asked := w.whenCopied(func(c Call, op peer.CopyDoc) *peer.Reply {
		out := w.apply(c, false)
		out.Failure = &peer.Failure{Side: peer.Source, Kind: peer.Broken}
		return &out
	})
	w.begin()
	if w.wantEnd(Completed, ""); len(*asked) != 1 {
		t.Errorf("asked for %v", *asked)
	}
}

// TestNarrowedThenMissing: what was put off is asked for, too, when the source lacks the revision that was asked for
// alone. The list is tried once more then, as another revision of the document came over.
func TestNarrowedThenMissing(t *testing.T) {
	w := forked(t, "1-a", "1-b")
	w.plan.Crashes = lenientAfter
	asked := w.whenCopied(func(c Call, op peer.CopyDoc) *peer.Reply {
		switch {
		case len(op.Revs) > 1:
			return &peer.Reply{Failure: &peer.Failure{Side: peer.Source, Kind: peer.Broken}}
		case op.Revs[0] == "1-b":
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-b", Missing: true}}}}
		}
		return nil
	})
	w.begin()
	w.wantEnd(Completed, "")
	if want := []string{"[1-a 1-b]", "[1-b]", "[1-b]", "[1-a]", "[1-b]", "[1-b]"}; !slices.Equal(*asked, want) {
		t.Errorf("asked for %v, want %v", *asked, want)
	}
	if row := w.list[peerRev{"d", "1-b"}]; len(w.list) != 1 || row == nil || !w.dbs[peer.Target].has("d", "1-a") {
		t.Errorf("listed %v", w.list)
	}
}

// TestNotNarrowed: while a host cannot be reached, or asks to slow down, a copy goes on asking for all.
func TestNotNarrowed(t *testing.T) {
	for _, f := range []peer.Failure{{Kind: peer.Unreachable}, status(429)} {
		w := forked(t, "1-a", "1-b")
		asked := w.whenCopied(func(Call, peer.CopyDoc) *peer.Reply { return nil })
		w.failOn("copy", 1, f)
		w.begin()
		w.wantEnd(Completed, "")
		if len(*asked) != 1 || (*asked)[0] != "[1-a 1-b]" {
			t.Errorf("%s: asked for %v in the end", f.Kind, *asked)
		}
	}
}

// TestNothingReadable: a document with many leaves of which none can be read keeps a lenient run no longer than it
// must: once one was given time, the others are tried once more each.
func TestNothingReadable(t *testing.T) {
	for _, status := range []int{500, 404} {
		var leaves []string
		for i := range 50 {
			leaves = append(leaves, fmt.Sprint("1-", i))
		}
		w := forked(t, leaves...)
		w.plan.Crashes = lenientAfter
		w.whenCopied(func(Call, peer.CopyDoc) *peer.Reply {
			return &peer.Reply{Failure: &peer.Failure{Side: peer.Source, Kind: peer.Status, Status: status}}
		})
		began := w.now
		w.begin()
		w.wantEnd(Completed, "")
		if took := w.now.Sub(began); len(w.list) != 50 || took > 10*time.Minute {
			t.Errorf("%d: the run took %s, and listed %d", status, took, len(w.list))
		}
	}
}

// TestUnreadableInList: a listed revision that cannot be copied keeps no other one of its document on the list.
func TestUnreadableInList(t *testing.T) {
	for _, status := range []int{500, 404, 403} {
		for _, bad := range []string{"1-a", "1-b", "1-c"} {
			for _, retries := range []int{0, 5} {
				w := forked(t, "1-a", "1-b", "1-c")
				w.plan.OnRefusal, w.plan.Retries = spec.RetryRefused, retries
				for _, rev := range []string{"1-a", "1-b", "1-c"} {
					w.keep(Finding{Refusal: peer.Refusal{ID: "d", Rev: rev, Status: 403}})
				}
				w.chokes(peer.Source, status, bad)
				w.since, w.plan.SinceSeq = 3, seqOf(3) // the feed has passed them
				w.begin()
				w.wantEnd(Completed, "")
				if len(w.list) != 1 || !w.lists("d", bad) {
					t.Errorf("%d for %s, %d retries: listed %v", status, bad, retries, w.list)
				}
			}
		}
	}
}
