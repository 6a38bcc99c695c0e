package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestCopies(t *testing.T) {
	lacks := replication.Trouble{Error: "missing_doc"}
	call := func(op peer.Op) replication.Effect { return replication.Call{Op: op} }
	// fruitlessly has a run repeat a copy that brings nothing n times, and does something after half of them.
	fruitlessly := func(n int, between func(*rig)) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			for i := range n {
				r.fails(run, peer.CopyDoc{ID: "_design/a", Revs: []string{"1-a"}}, kind(peer.Broken))
				r.pass(20 * time.Second)
				if i == n/2 && between != nil {
					between(r)
				}
			}
		}
	}
	// breaking has a copy of two revisions break off n times, and then be made with the revisions named.
	breaking := func(n int, f *peer.Failure, result peer.Result, revs ...string) func(*rig) {
		return func(r *rig) {
			run, op := r.run(nil), peer.CopyDoc{ID: "_design/a", Revs: []string{"1-a", "1-b"}}
			for range n {
				r.answer(run, r.call(run, op), op, peer.Reply{Result: result, Failure: f})
			}
			r.call(run, peer.CopyDoc{ID: "_design/a", Revs: revs})
		}
	}
	newer := peer.Copied{Revs: []peer.CopiedRev{{Rev: "2-a"}}}
	first := peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}}
	bulk := func(r *rig) *world.Run { return r.run(map[string]any{"use_bulk_get": true}) }
	check(t, along(&bulkSubject, &copySubject), []case_{
		{"asked again at once", func(r *rig) {
			r.does(r.run(nil), copyOf("_design/a"), lackingCopy, call(copyOf("_design/a")))
		}, "S28c"},
		{"another document asked for", func(r *rig) {
			r.does(r.run(nil), copyOf("_design/a"), lackingCopy, call(copyOf("_design/b")))
		}, ""},
		{"missing_doc, and nothing lacks", func(r *rig) {
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Result: copied}, lacks)
		}, "S29p"},
		{"missing_doc of a database that is gone", func(r *rig) {
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Failure: &peer.Failure{Reason: databaseGone}},
				lacks)
		}, "S29p"},
		{"missing_doc", func(r *rig) {
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Result: lackingCopy}, lacks)
		}, ""},
		{"twelve attempts in vain", fruitlessly(12, nil), ""},
		{"thirteen attempts in vain", fruitlessly(13, nil), "S30j"},
		{"thirteen attempts, but the document changed", fruitlessly(13, func(r *rig) {
			r.does(r.o.runs[0].Run, read, rows(from, "_design/a"))
		}), ""},
		{"broke off four times, and all asked for", breaking(4, kind(peer.Broken), newer, "1-a", "1-b"), "S28d"},
		{"broke off four times, and one asked for", breaking(4, kind(peer.Broken), newer, "1-b"), ""},
		{"broke off four times, each in a batch of its own", func(r *rig) {
			run := r.run(nil)
			for range 4 {
				row := peer.Change{Seq: from, ID: "_design/a", Revs: []string{"1-a", "1-b"}}
				r.does(run, read, peer.Changes{Rows: []peer.Change{row}})
			}
			for range 4 {
				r.fails(run, peer.CopyDoc{ID: "_design/a", Revs: []string{"1-a", "1-b"}}, kind(peer.Broken))
			}
			r.call(run, peer.CopyDoc{ID: "_design/a", Revs: []string{"1-a", "1-b"}})
		}, ""},
		{"broke off three times, and all asked for", breaking(3, kind(peer.Broken), newer, "1-a", "1-b"), ""},
		{"failed four times, and all asked for", breaking(4, status(500), nil, "1-a", "1-b"), "S28d"},
		{"busy four times", breaking(4, status(429), nil, "1-a", "1-b"), ""},
		{"out of reach four times", breaking(4, kind(peer.Unreachable), nil, "1-a", "1-b"), ""},
		{"one came four times", breaking(4, kind(peer.Broken), first, "1-a", "1-b"), ""},
		{"given up while something came", func(r *rig) {
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Result: copied, Failure: kind(peer.Broken)},
				replication.Trouble{})
		}, "S30k"},
		{"given up when only others came", func(r *rig) {
			other := peer.Copied{Revs: []peer.CopiedRev{{Rev: "2-b"}}}
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Result: other, Failure: kind(peer.Broken)},
				replication.Trouble{})
		}, ""},
		{"refused by the target, the source asked", func(r *rig) {
			r.does(r.run(nil), copyOf("_design/a"), refused(401), call(peer.Open{Side: peer.Source}))
		}, "S30l"},
		{"refused by the target, the target asked", func(r *rig) {
			r.does(r.run(nil), copyOf("_design/a"), refused(401), call(peer.Open{Side: peer.Target}))
		}, ""},
		{"copied alone", func(r *rig) { r.call(bulk(r), copyOf("a")) }, "S30m"},
		{"copied alone for attachments that are small", func(r *rig) {
			run := bulk(r)
			r.does(run, reads("a"), peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Attachments, Size: 100}}})
			r.call(run, copyOf("a"))
		}, "S30m"},
		{"copied alone for attachments of unknown size", func(r *rig) {
			run := bulk(r)
			r.does(run, reads("a"), peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Attachments}}})
			r.call(run, copyOf("a"))
		}, ""},
		{"copied alone after a bulk write was refused", func(r *rig) {
			run := bulk(r)
			r.fails(run, peer.WriteDocs{Docs: make([]peer.Kept, 1)}, status(412))
			r.call(run, copyOf("a"))
		}, ""},
		{"a design document copied alone", func(r *rig) { r.call(bulk(r), copyOf("_design/a")) }, ""},
		{"copied alone after a bulk read failed", func(r *rig) {
			run := bulk(r)
			r.fails(run, reads("a"), status(500))
			r.call(run, copyOf("a"))
		}, ""},
	})
}
