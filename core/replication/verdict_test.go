package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"

	"pgregory.net/rapid"
)

// TestVerdictsOfBulkWrites: only what the target does not want is left out. What it could not write is copied
// by itself, or else the run ends without a checkpoint.
func TestVerdictsOfBulkWrites(t *testing.T) {
	for name, c := range map[string]struct {
		verdict    peer.Refusal
		put        int // status that a write of doc0 alone is answered with, 0 when it works
		copied     []string
		failures   int64
		trouble    string
		checkpoint peer.Seq
	}{
		"forbidden": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "forbidden"}, failures: 1,
			checkpoint: `"3-opaque"`},
		"unauthorized": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "unauthorized"}, failures: 1,
			checkpoint: `"3-opaque"`},
		"server error": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "internal_server_error"},
			copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"conflict": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "conflict"},
			copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"no revision": {verdict: peer.Refusal{ID: "doc0", Error: "timeout"}, copied: []string{"doc0"},
			checkpoint: `"3-opaque"`},
		"another spelled": {verdict: peer.Refusal{ID: "doc0", Rev: "01-A", Error: "timeout"},
			copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"no document": {verdict: peer.Refusal{Error: "error"}, copied: []string{"doc0", "doc1", "doc2"},
			checkpoint: `"3-opaque"`},
		"too large alone": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "error"}, put: 413,
			copied: []string{"doc0"}, failures: 1, checkpoint: `"3-opaque"`},
		"exception": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "TypeError"}, put: 500,
			copied: []string{"doc0"}, failures: 1, checkpoint: `"3-opaque"`},
		"engine": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "InternalError"}, put: 500,
			copied: []string{"doc0", "doc0", "doc0", "doc0", "doc0"}, trouble: "doc_write_failed", checkpoint: "0"},
		"gone alone": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "not_found"}, put: 404,
			copied: []string{"doc0"}, trouble: "doc_write_failed", checkpoint: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(3)
			if c.failures > 0 {
				w.refuses["doc0"] = true
			}
			w.reply = func(call Call) *peer.Reply {
				switch op := call.Op.(type) {
				case peer.WriteDocs:
					if c.verdict.ID != "" {
						w.writeDocs(w.dbs[peer.Target], op.Docs[1:])
					}
					return &peer.Reply{Result: peer.Written{Refused: []peer.Refusal{c.verdict}}}
				case peer.CopyDoc:
					if op.ID == "doc0" && c.put > 0 {
						return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a",
							Refused: &peer.Refusal{ID: "doc0", Rev: "1-a", Status: c.put, Error: c.verdict.Error}}}}}
					}
				}
				return nil
			}
			w.begin()
			end := w.runToEnd(first)
			var copied []string
			for _, call := range w.calls {
				if id, is := strings.CutPrefix(call, "copy "); is {
					copied = append(copied, strings.Split(id, `"`)[1])
				}
			}
			i := end.Info
			if !slices.Equal(copied, c.copied) || i.DocWriteFailures != c.failures ||
				end.Trouble.Error != c.trouble || i.CheckpointedSeq != c.checkpoint {
				t.Errorf("copied %v, %d failures, %s, checkpoint %s", copied, i.DocWriteFailures, end,
					i.CheckpointedSeq)
			}
			if c.trouble == "" && i.DocsWritten != 3-c.failures {
				t.Errorf("%d documents written", i.DocsWritten)
			}
		})
	}
}

// TestVerdictsOfCopies: of the answers to a write of one document, some are about that document, which is left out
// then, and all others end the run.
func TestVerdictsOfCopies(t *testing.T) {
	for v, left := range map[peer.Refusal]bool{
		{Status: 401, Error: "unauthorized"}: true, {Status: 401, Error: "login"}: false, {Status: 401}: false,
		{Status: 403, Error: "forbidden"}: true, {Status: 403}: false, {Status: 404, Error: "not_found"}: false,
		{Status: 400, Error: "bad_request"}: true, {Status: 400}: false, {Status: 415}: true,
	} {
		w := newWorld(t)
		w.fill(2)
		w.refuses["doc1"] = left
		copies(w, func(op peer.CopyDoc) peer.Reply {
			verdict := v
			verdict.ID, verdict.Rev = op.ID, op.Revs[0]
			if op.ID == "doc0" {
				return peer.Reply{Result: w.copyDoc(w.dbs[peer.Source], w.dbs[peer.Target], op, 1)}
			}
			return peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: verdict.Rev, Refused: &verdict}}}}
		})
		w.begin()
		if end := w.runToEnd(first); (end.Cause == Completed) != left || left != (end.Info.DocWriteFailures > 0) {
			t.Errorf("%+v: %s, %d failures", v, end, end.Info.DocWriteFailures)
		}
	}
}

// copies answers the copies of a world.
func copies(w *world, answer func(op peer.CopyDoc) peer.Reply) {
	w.plan.UseBulkGet = false
	w.reply = func(c Call) *peer.Reply {
		if op, is := c.Op.(peer.CopyDoc); is {
			reply := answer(op)
			return &reply
		}
		return nil
	}
}

var torn = peer.Failure{Side: peer.Source, Method: "GET", URL: "http://s/db/doc", Kind: peer.Broken}

// TestCopyThatBringsNewerLeafs: a leaf that nobody asked for is no progress and counts once, however often it
// comes.
func TestCopyThatBringsNewerLeafs(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("doc", "2-b")
	w.dbs[peer.Source].write("doc", "2-a")
	tries := 0
	copies(w, func(peer.CopyDoc) peer.Reply {
		tries++
		return peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "3-a"}}}, Failure: &torn}
	})
	w.begin()
	end := w.wantEnd(Crashed, "connection_closed")
	if tries > 1+w.plan.Retries || end.Info.DocsWritten != 1 || end.Info.DocsRead != 1 {
		t.Errorf("%d attempts, %s", tries, end.Info)
	}
}

// TestCopyThatBringsRefusedLeafs: a leaf that nobody asked for, and that the target refuses at first and
// takes the next time, is one refusal and one write, however often it comes after that.
func TestCopyThatBringsRefusedLeafs(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("doc", "2-b")
	w.dbs[peer.Source].write("doc", "2-a")
	refused := peer.CopiedRev{Rev: "3-a", Refused: &peer.Refusal{ID: "doc", Rev: "3-a", Status: 414}}
	came := []peer.CopiedRev{refused, {Rev: "3-a"}, {Rev: "3-a"}, refused}
	w.plan.UseBulkGet = false
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.CopyDoc); !is || len(came) == 0 {
			return nil
		}
		reply := peer.Reply{Result: peer.Copied{Revs: came[:1]}, Failure: &torn}
		came = came[1:]
		return &reply
	}
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.DocWriteFailures != 1 || end.Info.DocsWritten != 3 ||
		end.Info.DocsRead != 4 {
		t.Errorf("%s", end.Info)
	}
}

// TestCopyOfRefusedLeafs: a target that refuses a leaf while that is sent cuts off those behind it. Each
// attempt is progress.
func TestCopyOfRefusedLeafs(t *testing.T) {
	w := newWorld(t)
	w.refuses["doc"] = true
	for _, rev := range []string{"2-a", "2-b", "2-c", "2-d", "2-e", "2-f", "2-g", "2-h"} {
		w.dbs[peer.Source].write("doc", rev)
	}
	copies(w, func(op peer.CopyDoc) peer.Reply {
		reply := peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0],
			Refused: &peer.Refusal{ID: "doc", Rev: op.Revs[0], Status: 414}}}}}
		if len(op.Revs) > 1 {
			reply.Failure = &torn
		}
		return reply
	})
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.DocWriteFailures != 8 || end.Info.DocsWritten != 0 {
		t.Errorf("%s", end.Info)
	}
}

// TestCopyThatComesSlowly: a target that asks to slow down after each leaf is waited for as long as leaves
// come.
func TestCopyThatComesSlowly(t *testing.T) {
	w := newWorld(t)
	for _, rev := range []string{"2-a", "2-b", "2-c", "2-d", "2-e", "2-f"} {
		w.dbs[peer.Source].write("doc", rev)
	}
	slow := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 429, RetryAfter: patience / 3}
	copies(w, func(op peer.CopyDoc) peer.Reply {
		w.dbs[peer.Target].write("doc", op.Revs[0])
		reply := peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0]}}}}
		if len(op.Revs) > 1 {
			reply.Failure = &slow
		}
		return reply
	})
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != 6 {
		t.Errorf("%s", end.Info)
	}
}

// TestCopyOfForbiddenLeafsThatBreaksOff: whether the target knows us is asked though no answer is whole, and
// then each attempt is progress.
func TestCopyOfForbiddenLeafsThatBreaksOff(t *testing.T) {
	w := newWorld(t)
	w.refuses["doc"] = true
	for _, rev := range []string{"2-a", "2-b", "2-c"} {
		w.dbs[peer.Source].write("doc", rev)
	}
	copies(w, func(op peer.CopyDoc) peer.Reply {
		reply := peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0],
			Refused: &peer.Refusal{ID: "doc", Rev: op.Revs[0], Status: 403, Error: "forbidden"}}}}}
		if len(op.Revs) > 1 {
			reply.Failure = &torn
		}
		return reply
	})
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.DocWriteFailures != 3 {
		t.Errorf("%s", end.Info)
	}
}

// TestForbiddenLeafsAreDoubtedOneByOne: the target let us in after it had refused one revision, and may know us no
// longer when it refuses another one.
func TestForbiddenLeafsAreDoubtedOneByOne(t *testing.T) {
	w := newWorld(t)
	w.refuses["doc"] = true
	for _, rev := range []string{"2-a", "2-b", "2-c"} {
		w.dbs[peer.Source].write("doc", rev)
	}
	refused := func(rev string) peer.CopiedRev {
		return peer.CopiedRev{Rev: rev, Refused: &peer.Refusal{ID: "doc", Rev: rev, Status: 403, Error: "forbidden"}}
	}
	answers := [][]peer.CopiedRev{
		{refused("2-c")}, {refused("2-c"), refused("2-b")}, {{Rev: "2-b"}, {Rev: "2-a"}},
	}
	attempt := 0
	copies(w, func(peer.CopyDoc) peer.Reply {
		attempt++
		for _, rev := range answers[attempt-1] {
			if rev.Refused == nil {
				w.dbs[peer.Target].write("doc", rev.Rev)
			}
		}
		reply := peer.Reply{Result: peer.Copied{Revs: answers[attempt-1]}}
		if attempt < len(answers) {
			reply.Failure = &torn
		}
		return reply
	})
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != 2 || end.Info.DocWriteFailures != 1 {
		t.Errorf("%s", end.Info)
	}
	if n := w.count("open target"); n != 3 { // at the beginning, and for each of the two that were refused
		t.Errorf("the target was opened %d times", n)
	}
}

// TestEachPartOfACopyIsWaitedFor: a copy of which nothing came goes on in parts, and the source may lack each of them
// for a moment.
func TestEachPartOfACopyIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.dbs[peer.Source].write("doc", "2-b")
	w.dbs[peer.Source].write("doc", "2-a")
	lacked := map[string]bool{}
	copies(w, func(op peer.CopyDoc) peer.Reply {
		rev := op.Revs[0]
		switch {
		case len(op.Revs) > 1:
			return peer.Reply{Failure: &torn}
		case !lacked[rev]:
			lacked[rev] = true
			return peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: rev, Missing: true}}}}
		}
		w.dbs[peer.Target].write("doc", rev)
		return peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: rev}}}}
	})
	w.begin()
	if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != 2 {
		t.Errorf("%s", end.Info)
	}
}

// TestCopyFromDeletedSource: what a source lacks is another matter than a source that is not there.
func TestCopyFromDeletedSource(t *testing.T) {
	for reason, want := range map[string]string{
		"Database does not exist.": "db_not_found: GET http://s/db/doc0: 404 not_found: Database does not exist.",
		"no_db_file":               "db_not_found",
		"missing":                  "missing_doc",
		"deleted":                  "missing_doc",
	} {
		w := newWorld(t)
		w.fill(1)
		copies(w, func(peer.CopyDoc) peer.Reply {
			return peer.Reply{Failure: &peer.Failure{Method: "GET", URL: "http://s/db/doc0", Status: 404,
				Error: "not_found", Reason: reason}}
		})
		w.begin()
		w.wantEnd(Crashed, want)
	}
}

// TestNoChangesThoughTheFeedMoved: a filter that lets nothing through leaves nothing to do, and a log.
func TestNoChangesThoughTheFeedMoved(t *testing.T) {
	for _, flat := range []bool{false, true} {
		w := newWorld(t)
		w.plan.FlatLog, w.since = flat, 7
		w.rows = func(peer.ReadChanges) peer.Changes { return peer.Changes{End: true, LastSeq: `"7-opaque"`} }
		w.begin()
		said := string(w.wantEnd(Completed, "").Result)
		if !strings.HasPrefix(said, `{"no_changes":true,"session_id":"`) ||
			!strings.Contains(said, `"source_last_seq":"7-opaque"`) ||
			flat != strings.Contains(said, `"replication_id_version":4,"start_time"`) {
			t.Errorf("flat %t: %s", flat, said)
		}
	}
}

// TestVerdictsLoseNothing: of a bulk write each document is written, refused, or copied by itself, and none counts as
// written that the target did not take, however little its verdicts say. There may be several revisions of a document
// in one write.
func TestVerdictsLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, b, g, op := New(Plan{}), &batch{}, &group{id: 1}, peer.WriteDocs{}
		r.refused.begin()
		var verdicts []peer.Refusal
		lost := map[peerRev]bool{}
		for i := range rapid.IntRange(1, 6).Draw(t, "documents") {
			one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
			d := peer.DocRev{ID: one("id", "a", "b", "c"), Rev: fmt.Sprint("1-", i)}
			g.docs, g.came = append(g.docs, d), append(g.came, d.Rev)
			op.Docs = append(op.Docs, peer.Kept{Fetch: 1, Index: i})
			v := peer.Refusal{ID: d.ID, Rev: d.Rev, Error: one("error", "forbidden", "timeout")}
			switch one("verdict", "taken", "named", "no revision", "another spelling", "no name") {
			case "taken":
				continue
			case "no revision":
				v.Rev = ""
			case "another spelling":
				v.Rev += "A"
			case "no name":
				v.ID, v.Rev = "", ""
			}
			verdicts, lost[peerRev{d.ID, d.Rev}] = append(verdicts, v), true
		}
		r.work.judge(b, g, op, rapid.Permutation(verdicts).Draw(t, "verdicts"))
		seen := map[peerRev]bool{}
		for _, c := range b.copies {
			for _, rev := range c.Revs {
				seen[peerRev{c.ID, rev}] = true
			}
		}
		for _, w := range r.refused.queue {
			at := peerRev{w.ID, w.Rev}
			if !lost[at] {
				t.Errorf("%v is refused, and the target took it", at)
			}
			seen[at] = true
		}
		for at := range lost {
			if !seen[at] {
				t.Errorf("%v is lost", at)
			}
		}
		if n := int(r.info.DocsWritten) + len(seen); n != len(op.Docs) {
			t.Errorf("%d of %d documents have an end", n, len(op.Docs))
		}
	})
}
