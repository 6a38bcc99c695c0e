package oracle

import (
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// counting are the invariants of what runs count.
type counting struct{ *chronicle }

var countSubject = subject{
	begin: func(c *chronicle) {
		o := &counting{c}
		c.on.runCalls.add(o.called)
		c.on.runReplied.add(func(a reply) {
			o.count(a.run, a.op, a.Reply)
			a.numbers.heard(a.Reply, c.w.Now())
		})
		c.on.runTells.add(func(t telling) { o.checkNumbers(t.run, t.info, false) })
		c.on.runSaidEnd.add(func(e ending) { o.checkNumbers(e.run, e.end.Info, e.completed()) })
	},
}

// called is told of every request of a run before it leaves.
func (o *counting) called(c call) {
	switch op := c.op.(type) {
	case peer.CountPending:
		o.asksCount(c.run, op)
	case peer.CopyDoc:
		o.checkAsked(c.run, op.ID, op.Revs...)
	case peer.FetchDocs:
		for _, d := range op.Docs {
			o.checkAsked(c.run, d.ID, d.Rev)
		}
	}
}

// numbers are what a run has been told, for the counters of its job.
type numbers struct {
	base             checkpoint.Counters // before it read anything
	rows, revs       int64               // of the source's feed
	compared         int64               // documents that the target was asked about
	asked, missing   int64               // of the target: revisions, and those that it lacked
	fetched, unheard int64               // documents that were asked for in bulk, with an answer or without
	taken            int64               // of these, those that came
	diffs            int                 // answers to these questions
	absent           int                 // of them, in a row, that the target has nothing of most
	lacked           map[string]bool     // "ID REV"
	counting         peer.Seq            // since when the source was asked last to count what is to come
	before           int64               // rows that were read then
	useless          bool                // that question: the feed has ended since
	counted          instant.Time        // when it told; 0 when that is no use: the feed ended, or brought more
	coming           int64               // what it told, less what has come
	again            []peer.DocRev       // first ones of what was asked for without an answer, and may be asked for again
	answered         instant.Time        // when the source counted last what is to come
	bulk             bulk
}

// countEvery is how long a run leaves a source alone that has counted what is to come.
const countEvery = 30 * time.Second

// asksCount notes that the source is asked to count what is to come, maybe again. A part of S30 is that it is seldom.
func (o *counting) asksCount(r *run, op peer.CountPending) {
	n, now := &r.numbers, o.w.Now()
	if op.Since == n.counting {
		return
	}
	if n.answered != 0 && now.Sub(n.answered) < countEvery {
		o.Fail("S30", "run %d of %s has its source count %s after the last time", r.ID(), r.p.Name, now.Sub(n.answered))
	}
	n.counting, n.before, n.useless = op.Since, n.rows, false
}

// heard notes when a source told how much is to come. It is told after the rows of an answer were counted.
func (n *numbers) heard(reply peer.Reply, now instant.Time) {
	switch got := reply.Result.(type) {
	case peer.Pending:
		if !n.useless {
			n.answered = now
		}
		n.counted, n.coming = now, got.Count-(n.rows-n.before)
	case peer.Changes:
		if n.coming -= int64(len(got.Rows)); got.End {
			n.counted, n.useless = 0, true
		}
	}
	if n.coming < 0 || n.useless {
		n.counted = 0
	}
}

// enough is how many answers of a target that lacks all it is asked about let a run go on without asking. The run goes by
// an average, in which one answer that it has most of it weighs as much as some of the others.
const (
	enough     = 6
	absentMost = 5
	absentLeft = 2
)

// lacks notes the answer of a target that was asked about so many revisions, how many it lacks of documents that it has not at all.
func (n *numbers) lacks(absent, asked int64) {
	switch {
	case n.absent >= absentMost: // the run need not have asked since
	case 2*absent >= asked:
		n.absent++
	default:
		n.absent = min(n.absent, absentLeft)
	}
}

// checkAsked is a part of S30: what a target has is not read again. A run asks first, unless all was missing for long.
func (o *counting) checkAsked(r *run, id string, revs ...string) {
	for _, rev := range revs {
		if n := &r.numbers; n.absent < absentMost && !n.lacked[id+" "+rev] {
			o.Fail("S30", "run %d of %s reads %s %s, and has not asked whether the target lacks it", r.ID(), r.p.Name, id, rev)
		}
	}
}

// count notes the answer to a request of a run.
func (o *counting) count(r *run, op peer.Op, reply peer.Reply) {
	n := &r.numbers
	if n.lacked == nil {
		n.lacked = map[string]bool{}
	}
	if changes, is := reply.Result.(peer.Changes); is { // a part of them may come before a failure
		n.rows += int64(len(changes.Rows))
		for _, row := range changes.Rows {
			n.revs += int64(len(row.Revs))
		}
	}
	fetch, fetches := op.(peer.FetchDocs)
	if written, is := reply.Result.(peer.Written); is && len(written.Refused) > 0 {
		n.bulk.excused = true
	}
	if fetches {
		n.bulk.fetched(reply, r.p.Steady())
	}
	if reply.Failure != nil {
		if fetches {
			n.unheard += int64(len(fetch.Docs))
			n.again = append(n.again, fetch.Docs[0])
		}
		return
	}
	switch result := reply.Result.(type) {
	case peer.Diff:
		asked, absent := n.asked, int64(0)
		for _, d := range op.(peer.DiffRevs).Docs {
			n.asked += int64(len(d.Revs))
		}
		for _, d := range result.Docs {
			if len(d.Ancestors) == 0 {
				absent += int64(len(d.Missing))
			}
		}
		n.lacks(absent, n.asked-asked)
		n.diffs++
		n.bulk.compared(n.lacked, result, r.p.Steady())
		for _, d := range result.Docs {
			n.missing += int64(len(d.Missing))
			for _, rev := range d.Missing {
				n.lacked[d.ID+" "+rev] = true
			}
		}
	case peer.Fetched:
		n.fetched += int64(len(fetch.Docs))
		for _, d := range result.Docs {
			if d.Fate == peer.Taken {
				n.taken++
			}
		}
	}
}

// checkNumbers is a part of S14: the counters of a job grow by what its run did. When it is done every revision in
// the feed was looked for on the target, and every document that was read was written or refused.
func (o *counting) checkNumbers(r *run, info replication.Info, done bool) {
	if !r.reads {
		return
	}
	n, was := &r.numbers, &r.numbers.base
	wrong := func(what string, told, least, most int64) {
		if told < least || told > most {
			o.Fail("S14", "run %d of %s tells %d %s, which are from %d to %d", r.ID(), r.p.Name, told, what, least, most)
		}
	}
	wrong("docs_written", info.DocsWritten-was.DocsWritten, info.Written, info.Written)
	wrong("doc_write_failures", info.DocWriteFailures-was.DocWriteFailures, info.Refused, info.Refused)
	if source := r.begin.source; o.goesOn(r) {
		if newest, through := source.Number(info.SourceSeq), source.Number(info.ThroughSeq); newest < through {
			o.Fail("S14", "run %d of %s tells of source_seq %s, and has done all through %s", r.ID(), r.p.Name, info.SourceSeq, info.ThroughSeq)
		}
	}
	if !done {
		return
	}
	read := info.Written + info.Refused + r.Told().Failed // what was not written in bulk is read again
	wrong("docs_read", info.DocsRead-was.DocsRead, read, read)
	wrong("bulk_get_attempts", info.BulkGetAttempts-was.BulkGetAttempts, n.fetched, n.fetched+n.unheard)
	wrong("bulk_get_docs", info.BulkGetDocs-was.BulkGetDocs, n.taken, n.taken)
	if !r.WentBack() { // what comes twice in one batch is looked for once
		wrong("revisions_checked", info.MissingChecked-was.MissingChecked, n.revs, n.revs)
		wrong("missing_revisions_found", info.MissingFound-was.MissingFound, n.revs-n.asked+n.missing, n.revs-n.asked+n.missing)
	}
}
