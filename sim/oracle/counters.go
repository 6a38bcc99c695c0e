package oracle

import (
	"slices"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

// counters keep the numbers that answers told a run, and judge the counters of its job by them.
type counters struct{ *chronicle }

var counterSubject = subject{
	invariants: []Invariant{
		{"S14b", "The counters of a job grow by what its run compared, read, wrote and was refused, no " +
			"more and no less."},
		{"S14c", "The source_seq of a job is not behind the sequence through which its run has done all."},
		{"S30y", "A run asks whether its target lacks a revision before it reads it, unless the target " +
			"lacked nearly all before."},
	},
	begin: func(c *chronicle) {
		cn := &counters{c}
		c.on.runCalls.add(cn.called)
		c.on.runReplied.add(func(a reply) { a.counts.note(a.op, a.Reply, a.run) })
		c.on.runTells.add(func(t telling) { cn.check(t.run, t.info, false) })
		c.on.runSaidEnd.add(func(e ending) { cn.check(e.run, e.end.Info, e.completed()) })
	},
}

// counts are the numbers of a run's requests and answers since it began. Only counters change them.
type counts struct {
	base             checkpoint.Counters // of the job when the run began to read changes
	rows, revs       int64               // of the source's feed, also in answers that broke off
	compared         int64               // documents in questions to the target, repeated ones again
	asked, missing   int64               // revisions that the target answered about, and that it lacks
	fetched, unheard int64               // documents in bulk reads that were answered, and that failed
	taken            int64               // documents that came, of those fetched
	diffs            int                 // answers of the target about revisions that it lacks
	absent           int                 // of them, in a row, those by which it lacks most; see lacks
	lacked           map[string]bool     // "ID REV" that the target lacked when it was asked
	listed           []*peer.DocRevs     // the first documents of questions about the list of refused ones
	page             *replication.Listed // the first of the page that was asked about last
	triable          []string            // documents in these questions, which may be tried again, alone
}

// A target that lacks nearly all it is asked about, as a new one does, is not asked any more. The run decides
// that by an average, in which one answer that has most weighs as much as some of the others. A target that was never
// written to counts as one that has given all these answers.
const (
	unasked    = 6 // answers after which a run may go on without asking
	absentMost = 5 // answers in a row that lack most after which it may, for all that the oracle knows
	absentLeft = 2 // of these, those that count on when an answer has most
)

// called hears of every request of a run before it leaves.
func (cn *counters) called(c call) {
	switch op := c.op.(type) {
	case peer.ReadChanges:
		if !c.feed.begun {
			c.counts.base = c.Info().Counters
		}
	case peer.DiffRevs:
		if !c.ofList(op) {
			c.counts.compared += int64(len(op.Docs))
		}
	case peer.CopyDoc:
		cn.checkAsked(c.run, op.ID, op.Revs...)
	case peer.FetchDocs:
		for _, d := range op.Docs {
			cn.checkAsked(c.run, d.ID, d.Rev)
		}
	}
}

// noteList notes a question about the list of refused documents: the first that a page of it brings about. More are
// those of batches that waited for the page. Each document of it may be the first one of a part, if the target cannot
// read the whole.
func (r *run) noteList(f world.RunCalls) {
	page, _ := f.By.(replication.RefusedPage)
	op, is := f.Op.(peer.DiffRevs)
	if is && len(page.Docs) > 0 && r.counts.page != &page.Docs[0] {
		r.counts.page = &page.Docs[0]
		for i := range op.Docs {
			r.counts.listed = append(r.counts.listed, &op.Docs[i])
			r.counts.triable = append(r.counts.triable, op.Docs[i].ID)
		}
	}
}

// ofList reports whether a run compares with the target what is in the list of refused documents. That is not a
// part of its work on the feed.
func (r *run) ofList(op peer.Op) bool {
	diff, is := op.(peer.DiffRevs)
	return is && slices.Contains(r.counts.listed, &diff.Docs[0])
}

// note notes an answer. Of a feed that broke off the rows count that came.
func (n *counts) note(op peer.Op, reply peer.Reply, r *run) {
	if changes, is := reply.Result.(peer.Changes); is {
		n.rows += int64(len(changes.Rows))
		for _, row := range changes.Rows {
			n.revs += int64(len(row.Revs))
		}
	}
	switch op := op.(type) {
	case peer.Open:
		if got, is := reply.Result.(peer.Opened); is && op.Side == peer.Target && got.UpdateSeq.Ordinal() == "0" {
			n.diffs, n.absent = unasked, absentMost
		}
	case peer.FetchDocs:
		if reply.Failure != nil {
			n.unheard += int64(len(op.Docs))
			return
		}
		n.fetched += int64(len(op.Docs))
		for _, d := range reply.Result.(peer.Fetched).Docs {
			if d.Fate == peer.Taken {
				n.taken++
			}
		}
	case peer.DiffRevs:
		switch {
		case reply.Failure == nil:
			n.diff(op, reply.Result.(peer.Diff))
		case r.goesOnWithout(reply.Failure):
			n.lack(op)
		}
	}
}

// goesOnWithout reports whether a run need not know what it asked the target: one document of the question cannot be
// read, or may be what the target fails on at each attempt.
func (r *run) goesOnWithout(f *peer.Failure) bool { return is400(f) || f != nil && r.lenient() }

// lack notes that the target may lack all revisions in a question.
func (n *counts) lack(op peer.DiffRevs) {
	if n.lacked == nil {
		n.lacked = map[string]bool{}
	}
	for _, d := range op.Docs {
		for _, rev := range d.Revs {
			n.lacked[d.ID+" "+rev] = true
		}
	}
}

// diff notes which of the revisions in a question the target lacks.
func (n *counts) diff(op peer.DiffRevs, got peer.Diff) {
	if n.lacked == nil {
		n.lacked = map[string]bool{}
	}
	for _, d := range got.Docs {
		for _, rev := range d.Missing {
			n.lacked[d.ID+" "+rev] = true
		}
	}
	if slices.Contains(n.listed, &op.Docs[0]) {
		return
	}
	asked, absent := int64(0), int64(0)
	for _, d := range op.Docs {
		asked += int64(len(d.Revs))
	}
	for _, d := range got.Docs {
		if len(d.Ancestors) == 0 {
			absent += int64(len(d.Missing))
		}
		n.missing += int64(len(d.Missing))
	}
	n.asked += asked
	n.lacks(absent, asked)
	n.diffs++
}

// lacks notes how many of the revisions that it was asked about the target lacks without having any other of
// the document.
func (n *counts) lacks(absent, asked int64) {
	switch {
	case n.absent >= absentMost: // the run need not have asked since
	case 2*absent >= asked:
		n.absent++
	default:
		n.absent = min(n.absent, absentLeft)
	}
}

// checkAsked is S30y: a revision that the target has is not to be read again.
func (cn *counters) checkAsked(r *run, id string, revs ...string) {
	for _, rev := range revs {
		if r.counts.absent < absentMost && !r.counts.lacked[id+" "+rev] {
			cn.Fail("S30y", "%s reads %s %s, and has not asked whether the target lacks it", r, id, rev)
		}
	}
}

// check is S14b and S14c. While the run goes on only those counters are judged that grow with the numbers it
// tells; when it has done all, every revision in the feed was looked for on the target, and every
// document that was read was written or refused. A source that repeated changes excuses from counting
// revisions, since one that comes twice in a batch is looked for once; one that was put back, from comparing
// sequences.
func (cn *counters) check(r *run, info replication.Info, done bool) {
	if !r.feed.begun {
		return
	}
	n, was := &r.counts, &r.counts.base
	from := func(least, most, told int64, name string) {
		if told < least || told > most {
			cn.Fail("S14b", "%s counts %d %s, which are %d to %d", r, told, name, least, most)
		}
	}
	exactly := func(want, told int64, name string) { from(want, want, told, name) }
	exactly(info.Written, info.DocsWritten-was.DocsWritten, "docs_written")
	exactly(info.Refused, info.DocWriteFailures-was.DocWriteFailures, "doc_write_failures")
	source := r.begin.source
	if cn.goesOn(r) && source.Number(info.SourceSeq) < source.Number(info.ThroughSeq) {
		cn.Fail("S14c", "%s tells of source_seq %s, and has done all through %s",
			r, info.SourceSeq, info.ThroughSeq)
	}
	if !done {
		return
	}
	readAgain := r.Told().Failed // a document sent in bulk and not written is read once more, alone
	least := info.Written + info.Refused + readAgain
	if r.lenient() {
		least = info.Written // of what was left out the source may have sent nothing
	}
	from(least, info.Written+info.Refused+readAgain, info.DocsRead-was.DocsRead, "docs_read")
	from(n.fetched, n.fetched+n.unheard, info.BulkGetAttempts-was.BulkGetAttempts, "bulk_get_attempts")
	exactly(n.taken, info.BulkGetDocs-was.BulkGetDocs, "bulk_get_docs")
	if !r.WentBack() {
		exactly(n.revs, info.MissingChecked-was.MissingChecked, "revisions_checked")
		exactly(n.revs-n.asked+n.missing, info.MissingFound-was.MissingFound, "missing_revisions_found")
	}
}
