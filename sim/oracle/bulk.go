package oracle

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// bulkReads are the invariants of reading in bulk.
type bulkReads struct{ *chronicle }

var bulkSubject = subject{
	begin: func(c *chronicle) {
		o := &bulkReads{c}
		c.on.runCalls.add(func(c call) {
			switch op := c.op.(type) {
			case peer.CopyDoc:
				o.checkStubs(c.run, op)
			case peer.FetchDocs:
				o.checkBulk(c.run, op)
			}
		})
	},
}

// bulk is how a run gets on with reading in bulk.
type bulk struct {
	barren  int             // answers in a row that it does not work
	last    instant.Time    // of them
	alone   map[string]bool // "ID REV" that are to be read one by one
	partial map[string]bool // "ID REV" of which the target has older revisions, and so maybe attachments
	copied  map[string]bool // by id
	excused bool            // something could not be read or written in bulk
	greedy  int             // answers in a row that brought hardly anything of what was asked for
}

// Of a source that does not read in bulk a run asks it no more than these times in a row, and then again after a while, as
// CouchDB's.
const (
	manyBarren  = 4
	manyGreedy  = 6
	barrenAgain = 37 * time.Second
)

// fetched notes the answer to a bulk read. What may pass is asked for again before it counts.
func (b *bulk) fetched(reply peer.Reply, now instant.Time) {
	b.excused = b.excused || reply.Failure != nil
	switch f := reply.Failure; {
	case f == nil:
		b.barren, b.alone = 0, nil
		b.brought(reply.Result.(peer.Fetched).Docs)
	case f.Kind == peer.Status && f.Status != 429 && !passes(f):
		b.barren, b.last = b.barren+1, now
	}
}

// brought notes how much of what was asked for an answer had room for.
func (b *bulk) brought(docs []peer.FetchedDoc) {
	left := 0
	for _, d := range docs {
		if d.Fate == peer.Left {
			left++
		}
		b.excused = b.excused || d.Fate != peer.Left && d.Fate != peer.Taken
	}
	b.excused = b.excused || left == len(docs)
	if b.greedy++; left < 8 || left < 4*(len(docs)-left) {
		b.greedy = 0
	}
}

// compared notes what a target lacks, of which the run knew some before.
func (b *bulk) compared(known map[string]bool, got peer.Diff, now instant.Time) {
	for _, d := range got.Docs {
		for _, rev := range d.Missing {
			name := d.ID + " " + rev
			switch {
			case b.barren < manyBarren || now.Sub(b.last) >= barrenAgain:
				delete(b.alone, name)
			case !known[name]:
				b.alone = with(b.alone, name)
			}
			if len(d.Ancestors) > 0 && !known[name] {
				b.partial = with(b.partial, name)
			} else {
				delete(b.partial, name)
			}
		}
	}
}

func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// checkBulk is a part of S30: a source that does not read in bulk is not asked to for every batch.
func (o *bulkReads) checkBulk(r *run, op peer.FetchDocs) {
	b := &r.numbers.bulk
	if b.greedy >= manyGreedy {
		o.Fail("S30", "run %d of %s asks for %d documents in bulk, and the last %d answers had room for a fifth at most", r.ID(), r.p.Name, len(op.Docs), b.greedy)
	}
	if r.p.Steady().Sub(b.last) >= barrenAgain {
		b.alone = nil
	}
	for _, d := range op.Docs {
		if b.alone[d.ID+" "+d.Rev] {
			o.Fail("S30", "run %d of %s reads %s %s in bulk, which its source refused %d times", r.ID(), r.p.Name, d.ID, d.Rev, b.barren)
		}
	}
}

// checkStubs is a part of S30: attachments that the target has are not sent again. When the source or the target lacks
// something after all, everything is.
func (o *bulkReads) checkStubs(r *run, op peer.CopyDoc) {
	b := &r.numbers.bulk
	if b.copied[op.ID] || r.numbers.diffs >= enough {
		return
	}
	b.copied = with(b.copied, op.ID)
	whole := func(rev string) bool { return !b.partial[op.ID+" "+rev] }
	if len(op.Since) == 0 && !slices.ContainsFunc(op.Revs, whole) {
		o.Fail("S30", "run %d of %s reads all attachments of %s %v, of which its target has older revisions", r.ID(), r.p.Name, op.ID, op.Revs)
	}
}
