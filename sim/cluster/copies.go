package cluster

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// bringing says whether an answer brought something that was asked for to its end: it was written, or is too large.
func bringing(op peer.CopyDoc, got peer.Copied) bool {
	return slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return !rev.Missing && (rev.Refused == nil || rev.Refused.Status == 413) && slices.Contains(op.Revs, rev.Rev)
	})
}

// fruitless are attempts of copies that brought nothing.
type fruitless struct {
	n           int
	since, last instant.Time
}

// noteCopy is a part of S30: a copy that brings nothing of what it asks for ends within its retries. Many batches may want
// the same at once, but not for longer than one of them retries.
func (o *oracle) noteCopy(r *run, op peer.CopyDoc, reply peer.Reply) {
	got, _ := reply.Result.(peer.Copied)
	fails := reply.Failure != nil && passes(reply.Failure) || reply.Failure == nil && inTheWay(got)
	if !fails || bringing(op, got) {
		delete(r.fruitless, op.String())
		return
	}
	if r.fruitless == nil {
		r.fruitless = map[string]fruitless{}
	}
	now := o.w.Engine.Now()
	tried, again := r.fruitless[op.String()]
	if !again || now.Sub(tried.last) > retriesLast { // later batches may want it again
		tried = fruitless{since: now}
	}
	tried.n++
	tried.last = now
	r.fruitless[op.String()] = tried
	if tried.n > 3*(r.work.Work.Replication.Source.Retries+1) && now.Sub(tried.since) > 3*retriesLast {
		o.w.fail("S30", "run %d of %s goes on after %d attempts in %s that brought nothing: %s", r.id, r.p.Name, tried.n, now.Sub(tried.since), op)
	}
}

// checkCopyGivenUp is a part of S30: a copy that still brings something is not given up.
func (o *oracle) checkCopyGivenUp(r *run, op peer.CopyDoc, reply peer.Reply, e replication.End) {
	f := reply.Failure
	if got, is := reply.Result.(peer.Copied); is && f != nil && passes(f) && bringing(op, got) {
		o.w.fail("S30", "run %d of %s gave up, though revisions came still: %s: %s", r.id, r.p.Name, op, e.Trouble)
	}
}

// checkBlames is a part of S29: a run that says that its source lacks what it announced was told so.
func (o *oracle) checkBlames(r *run, reply peer.Reply, e replication.End) {
	if e.Cause != replication.Crashed || e.Trouble.Error != "missing_doc" {
		return
	}
	copied, _ := reply.Result.(peer.Copied)
	if f := reply.Failure; f != nil && f.Reason == databaseGone ||
		f == nil && !slices.ContainsFunc(copied.Revs, func(rev peer.CopiedRev) bool { return rev.Missing }) {
		o.w.fail("S29", "run %d of %s was answered %+v, and ended with %s", r.id, r.p.Name, reply, e.Trouble)
	}
}

// databaseGone is what servers answer about a database that is not there.
const databaseGone = "Database does not exist."

// bulk is how a run gets on with reading in bulk.
type bulk struct {
	barren  int             // answers in a row that it does not work
	last    instant.Time    // of them
	alone   map[string]bool // "ID REV" that are to be read one by one
	partial map[string]bool // "ID REV" of which the target has older revisions, and so maybe attachments
	copied  map[string]bool // by id
}

// Of a source that does not read in bulk a run asks it no more than these times in a row, and then again after a while, as
// CouchDB's.
const (
	manyBarren  = 4
	barrenAgain = 37 * time.Second
)

// fetched notes the answer to a bulk read. What may pass is asked for again before it counts.
func (b *bulk) fetched(reply peer.Reply, now instant.Time) {
	switch f := reply.Failure; {
	case f == nil:
		b.barren, b.alone = 0, nil
	case f.Kind == peer.Status && f.Status != 429 && !passes(f):
		b.barren, b.last = b.barren+1, now
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
func (o *oracle) checkBulk(r *run, op peer.FetchDocs) {
	b := &r.numbers.bulk
	for _, d := range op.Docs {
		if b.alone[d.ID+" "+d.Rev] {
			o.w.fail("S30", "run %d of %s reads %s %s in bulk, which its source refused %d times", r.id, r.p.Name, d.ID, d.Rev, b.barren)
		}
	}
}

// checkStubs is a part of S30: attachments that the target has are not sent again. When the source or the target lacks
// something after all, everything is.
func (o *oracle) checkStubs(r *run, op peer.CopyDoc) {
	b := &r.numbers.bulk
	if b.copied[op.ID] || r.numbers.diffs >= enough {
		return
	}
	b.copied = with(b.copied, op.ID)
	whole := func(rev string) bool { return !b.partial[op.ID+" "+rev] }
	if len(op.Since) == 0 && !slices.ContainsFunc(op.Revs, whole) {
		o.w.fail("S30", "run %d of %s reads all attachments of %s %v, of which its target has older revisions", r.id, r.p.Name, op.ID, op.Revs)
	}
}
