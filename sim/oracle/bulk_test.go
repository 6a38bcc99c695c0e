package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestBulk(t *testing.T) {
	// scanty has a run read in bulk n times, each time with room for two of ten documents.
	scanty := func(n int) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			for range n {
				r.does(run, reads(ids(10)...), came(2, 8))
			}
		}
	}
	// refusing has the source refuse n bulk reads before the target is found to lack a document.
	refusing := func(n int, pause time.Duration) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			for range n {
				r.fails(run, reads("x"), status(404))
			}
			r.does(run, asked("a"), peer.Diff{Docs: []peer.DocMissing{{ID: "a", Missing: []string{"1-a"}}}})
			r.pass(pause)
			r.call(run, reads("a"))
		}
	}
	// toldAgain has the source refuse four bulk reads, and then tell again of a revision, which is compared.
	toldAgain := func(r *rig) {
		run := r.run(nil)
		for range 4 {
			r.fails(run, reads("x"), status(404))
		}
		for range 2 {
			row := peer.Change{ID: "a", Revs: []string{"1-a"}}
			r.does(run, peer.ReadChanges{}, peer.Changes{Rows: []peer.Change{row}})
		}
		r.does(run, asked("a"), peer.Diff{Docs: []peer.DocMissing{{ID: "a", Missing: []string{"1-a"}}}})
		r.call(run, reads("a"))
	}
	// stubs has the target have an older revision of a document, that is then copied.
	stubs := func(since ...string) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.does(run, asked("a"), peer.Diff{Docs: []peer.DocMissing{
				{ID: "a", Missing: []string{"1-a"}, Ancestors: []string{"0-a"}},
			}})
			r.call(run, peer.CopyDoc{ID: "a", Revs: []string{"1-a"}, Since: since})
		}
	}
	// blind has the target not read a question, so that the run does not know all that the target has.
	blind := func(r *rig) {
		run := r.run(nil)
		r.fails(run, asked("a"), status(400))
		r.does(run, asked("a"), peer.Diff{Docs: []peer.DocMissing{
			{ID: "a", Missing: []string{"1-a"}, Ancestors: []string{"0-a"}},
		}})
		r.call(run, peer.CopyDoc{ID: "a", Revs: []string{"1-a"}})
	}
	// halved has the target refuse to take three documents at once, after which n of them are sent.
	halved := func(code, n int) func(*rig) {
		return func(r *rig) {
			part := replication.Call{Op: peer.WriteDocs{Docs: make([]peer.Kept, n)}}
			r.fails(r.run(nil), peer.WriteDocs{Docs: make([]peer.Kept, 3)}, status(code), part)
		}
	}
	endsFor := func(op peer.Op, code int) func(*rig) {
		return func(r *rig) {
			r.crashes(r.run(nil), op, peer.Reply{Failure: status(code)}, replication.Trouble{})
		}
	}
	// insteadOf has a bulk read fail, after which a document of it is copied.
	insteadOf := func(code int) func(*rig) {
		return func(r *rig) {
			r.fails(r.run(nil), reads("a"), status(code), replication.Call{Op: copyOf("a")})
		}
	}
	// inline has a source tell how large documents are with their attachments, which are then read with them.
	inline := func(budget int, since []string, sizes ...int) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			var told peer.Fetched
			var lacking peer.Diff
			names := ids(len(sizes))
			for i, size := range sizes {
				told.Docs = append(told.Docs, peer.FetchedDoc{Fate: peer.Attachments, Size: size})
				lacking.Docs = append(lacking.Docs, peer.DocMissing{
					ID: names[i], Missing: []string{"1-a"}, Ancestors: []string{"0-a"},
				})
			}
			r.does(run, asked(names...), lacking)
			op := reads(names...)
			r.does(run, op, told)
			op.Attachments, op.Budget = true, budget
			for i := range op.Docs {
				op.Docs[i].Since = since
			}
			r.call(run, op)
		}
	}
	known, most := []string{"0-a"}, min(inlineMost, world.Default().Memory/inlineShare)
	check(t, along(&bulkSubject, &countsOnly), []case_{
		{"two small ones with attachments", inline(30, known, 10, 20), ""},
		{"two that are too much", inline(29, known, 10, 20), "S30z"},
		{"one that is too much", inline(9, known, 10), ""},
		{"the largest with attachments", inline(2*most, known, most), ""},
		{"one that is larger", inline(2*most, known, most+1), "S30z"},
		{"of unknown size", inline(30, known, 0), "S30z"},
		{"with attachments that the target has", inline(30, nil, 10), "S30p"},
		{"six scanty answers", scanty(6), ""},
		{"a seventh read", scanty(7), "S30n"},
		{"three refusals", refusing(3, 0), ""},
		{"four refusals", refusing(4, 0), "S30o"},
		{"four refusals, and told of again", toldAgain, ""},
		{"four refusals, long ago", refusing(4, refusedLast), ""},
		{"all attachments again", stubs(), "S30p"},
		{"all attachments again, since a question was not read", blind, ""},
		{"attachments since the target's revision", stubs("0-a"), ""},
		{"two of three", halved(413, 2), ""},
		{"three of three", halved(413, 3), "S30q"},
		{"two of three that cannot be read", halved(400, 2), ""},
		{"three of three that cannot be read", halved(400, 3), "S30q"},
		{"ends for documents that cannot be read", endsFor(writes(1, 3, false), 400), "S86"},
		{"ends for a question that cannot be read", endsFor(asked("a"), 400), "S86"},
		{"ends for a question that is too long", endsFor(asked("a"), 413), "S86"},
		{"ends for a question that is refused", endsFor(asked("a"), 403), ""},
		{"alone after 429", insteadOf(429), "S30r"},
		{"alone after 404", insteadOf(404), ""},
	})
}

// countsOnly keeps the counts of runs, and judges nothing.
var countsOnly = subject{begin: func(c *chronicle) {
	c.on.runReplied.add(func(a reply) { a.counts.note(a.op, a.Reply, a.run) })
}}
