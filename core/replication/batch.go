package replication

import (
	"cmp"
	"slices"
	"strings"

	"couchrelay/core/peer"
)

// Constants of CouchDB's replicator (3.5).
const (
	// DefaultMemory is four full answers of _bulk_get.
	DefaultMemory = 16 << 20

	// _revs_diff is left out when nearly everything is missing anyway, _bulk_get when most documents
	// cannot be had by it.
	diffThreshold, diffDecay = 950_000, 400_000
	bulkThreshold, bulkDecay = 500_000, 250_000
)

type stage uint8

const (
	queued  stage = iota
	diffing       // asking what the target lacks
	moving        // fetching, writing and copying
	done
)

// batch is a run of rows of the feed; a checkpoint may pass its end when it and all before are done.
type batch struct {
	// number counts the batches of a run from 1, in the order of the feed. The batch also stands for the ones
	// from first to number-1, which were done and merged into it.
	first, number int64

	stage stage
	last  peer.Seq // of its last row
	rows  int
	docs  []peer.DocRevs // of its rows, each document once, until the target was asked

	fetch    []peer.DocRev  // still to be fetched in bulk
	copies   []peer.CopyDoc // still to be streamed one by one
	fetching bool
	pending  int // calls under way or to be repeated
}

// fetched is a group of bodies that a FetchDocs kept.
type fetched struct {
	id     uint64
	docs   []peer.DocRev // that were asked for; Kept.Index refers to them
	came   []string      // their revisions, which may be newer ones
	bytes  int
	writes int // WriteDocs that still refer to it
}

// queueBatch makes a batch of rows that ends at last. Without rows it only moves the position.
func (r *Run) queueBatch(rows []peer.Change, last peer.Seq) {
	r.numbered++
	b := &batch{first: r.numbered, number: r.numbered, last: last, rows: len(rows)}
	at := make(map[string]int, len(rows))
	for _, row := range rows {
		if i, again := at[row.ID]; again {
			b.docs[i].Revs = union(b.docs[i].Revs, row.Revs)
		} else if len(row.Revs) > 0 {
			at[row.ID] = len(b.docs)
			b.docs = append(b.docs, peer.DocRevs{ID: row.ID, Revs: row.Revs})
		}
	}
	r.batches = append(r.batches, b)
}

// startBatches moves every batch on as far as it goes, at most Workers at a time, then takes note of
// those that are done.
func (r *Run) startBatches() {
	busy := 0
	for _, b := range r.batches {
		if b.stage == done {
			continue
		}
		if busy++; busy > r.plan.Workers {
			break
		}
		if b.stage == queued {
			r.diff(b)
		}
		if b.stage == moving {
			r.pump(b)
		}
		if b.stage == done {
			// Reached: a batch is done at once
			busy-- // its place is free at once
		}
	}
	r.passThrough()
}

// passThrough moves the position over the batches at the front that are done, and forgets a done batch
// that another done one follows.
func (r *Run) passThrough() {
	for len(r.batches) > 0 && r.batches[0].stage == done {
		b := r.batches[0]
		r.info.ThroughSeq = b.last
		r.commits.passed(b)
		r.batches = r.batches[1:]
	}
	kept := r.batches[:0:0]
	for i, b := range r.batches {
		if b.stage == done && i+1 < len(r.batches) && r.batches[i+1].stage == done {
			r.batches[i+1].rows += b.rows
			r.batches[i+1].first = b.first
			continue
		}
		kept = append(kept, b)
	}
	r.batches = kept
}

// diff asks the target which revisions it lacks, unless it is likely to lack them all.
func (r *Run) diff(b *batch) {
	b.stage = diffing
	if len(b.docs) == 0 {
		b.stage = moving
		return
	}
	if r.skipDiff.worthwhile(diffThreshold, r.now) {
		r.start(&call{op: peer.DiffRevs{Docs: b.docs}, batch: b})
		return
	}
	all := make([]peer.DocMissing, len(b.docs))
	for i, d := range b.docs {
		all[i] = peer.DocMissing{ID: d.ID, Missing: d.Revs}
	}
	r.divide(b, all)
}

func (r *Run) onDiff(b *batch, op peer.DiffRevs, reply peer.Reply) {
	if reply.Failure != nil {
		r.crash(trouble(op, reply.Failure))
		return
	}
	missing := reply.Result.(peer.Diff).Docs
	checked, absent := int64(0), int64(0)
	for _, d := range op.Docs {
		checked += int64(len(d.Revs))
	}
	for _, d := range missing {
		if len(d.Ancestors) == 0 {
			absent += int64(len(d.Missing))
		}
	}
	r.skipDiff.observe(absent, checked, diffDecay, r.now)
	r.divide(b, missing)
}

// divide sorts the work of a batch: design documents are copied one by one, so that a target which
// refuses them refuses nothing else; the rest is fetched in bulk where that works.
func (r *Run) divide(b *batch, missing []peer.DocMissing) {
	for _, d := range b.docs {
		r.info.MissingChecked += int64(len(d.Revs))
	}
	b.stage, b.docs = moving, nil
	bulk := r.plan.UseBulkGet && r.skipBulk.worthwhile(bulkThreshold, r.now)
	for _, d := range missing {
		r.info.MissingFound += int64(len(d.Missing))
		if !bulk || strings.HasPrefix(d.ID, "_design/") {
			r.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: d.Missing, Since: d.Ancestors})
			continue
		}
		for _, rev := range d.Missing {
			b.fetch = append(b.fetch, peer.DocRev{ID: d.ID, Rev: rev, Since: d.Ancestors})
		}
	}
}

// queueCopy adds a document to those that are streamed; revisions of one document that follow each
// other go together.
func (r *Run) queueCopy(b *batch, doc peer.CopyDoc) {
	if n := len(b.copies); n > 0 && b.copies[n-1].ID == doc.ID {
		last := &b.copies[n-1]
		last.Revs = append(last.Revs[:len(last.Revs):len(last.Revs)], doc.Revs...)
		return
	}
	b.copies = append(b.copies, doc)
}

// pump starts what the batch can do next.
func (r *Run) pump(b *batch) {
	budget := r.fetchBudget()
	if len(b.fetch) > 0 && !b.fetching && (r.memory == 0 || r.memory+budget <= r.plan.Memory) {
		n := min(len(b.fetch), max(1, budget/r.docSize))
		b.fetching, b.pending = true, b.pending+1
		r.memory += budget
		r.start(&call{op: peer.FetchDocs{Docs: b.fetch[:n:n], Budget: budget}, batch: b})
		b.fetch = b.fetch[n:]
	}
	slots := max(1, r.plan.Connections-r.plan.Workers-1)
	for len(b.copies) > 0 && r.copies < slots {
		r.copies++
		b.pending++
		r.start(&call{op: b.copies[0], batch: b})
		b.copies = b.copies[1:]
	}
	if b.pending == 0 && len(b.fetch) == 0 && len(b.copies) == 0 {
		b.stage = done
		if b.number > r.furthest {
			r.furthest, r.info.SourceSeq = b.number, b.last
		}
	}
}

// fetchBudget bounds the bodies of one FetchDocs, in bytes.
func (r *Run) fetchBudget() int { return max(1, r.plan.Memory/4) }

func union(revs, more []string) []string {
	all := slices.Clone(revs)
	for _, rev := range more {
		if !slices.Contains(all, rev) {
			all = append(all, rev)
		}
	}
	return all
}

// onFetched writes what came and finds another way for the rest.
func (r *Run) onFetched(c *call, op peer.FetchDocs, reply peer.Reply) {
	b := c.batch
	b.fetching = false
	b.pending--
	r.memory -= r.fetchBudget()
	r.info.BulkGetAttempts += int64(len(op.Docs))
	if f := reply.Failure; f != nil {
		if !ofBulk(f) {
			r.crash(trouble(op, f))
			return
		}
		// Reached: documents are had one by one
		// A server without _bulk_get, or one that fails on it or takes too long: every document is had by itself.
		r.skipBulk.observe(1, 1, bulkDecay, r.now)
		for _, d := range op.Docs {
			r.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: d.Since})
		}
		return
	}
	group := &fetched{id: c.id, docs: op.Docs, came: make([]string, len(op.Docs))}
	kept := r.sortFetched(b, group, op.Docs, reply.Result.(peer.Fetched).Docs)
	if len(kept) == 0 {
		r.emit(Release{ID: group.id})
		return
	}
	r.docSize = max(1, (3*r.docSize+group.bytes/len(kept))/4)
	r.memory += group.bytes
	r.write(b, group, kept)
}

// ofBulk says whether reads of single documents may do where a bulk read failed.
func ofBulk(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status != 429
	case peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

// sortFetched splits the answer of a FetchDocs: bodies to write, documents to copy by themselves,
// documents to ask for again.
func (r *Run) sortFetched(b *batch, group *fetched, asked []peer.DocRev, got []peer.FetchedDoc) []peer.Kept {
	var kept []peer.Kept
	var left []peer.DocRev
	useless := int64(0)
	for i, d := range asked {
		fate := peer.Left
		if i < len(got) {
			fate = got[i].Fate
		}
		switch fate {
		case peer.Taken:
			kept = append(kept, peer.Kept{Fetch: group.id, Index: i})
			group.came[i] = cmp.Or(got[i].Rev, d.Rev)
			group.bytes += got[i].Size
			r.info.DocsRead++
			r.info.BulkGetDocs++
		case peer.Left:
			left = append(left, d)
		default:
			useless++
			r.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: d.Since})
		}
	}
	if len(left) == len(asked) { // nothing at all came of it: this way leads nowhere
		// Reached: a bulk read brings nothing at all
		for _, d := range left {
			r.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: d.Since})
		}
		useless, left = int64(len(asked)), nil
	}
	b.fetch = append(left, b.fetch...)
	r.skipBulk.observe(useless, int64(len(asked)), bulkDecay, r.now)
	return kept
}

func (r *Run) write(b *batch, group *fetched, docs []peer.Kept) {
	group.writes++
	b.pending++
	r.start(&call{op: peer.WriteDocs{Docs: docs}, batch: b, fetched: group})
}

func (r *Run) onWritten(c *call, op peer.WriteDocs, reply peer.Reply) {
	b, group := c.batch, c.fetched
	b.pending--
	group.writes--
	if f := reply.Failure; f != nil {
		if f.Kind != peer.Status || f.Status != 413 {
			r.crash(trouble(op, f))
			return
		}
		r.writeSmaller(b, group, op, f)
	} else {
		r.judge(b, group, op, reply.Result.(peer.Written).Refused)
	}
	if group.writes == 0 {
		r.memory -= group.bytes
		r.info.BytesWritten += int64(group.bytes)
		r.emit(Release{ID: group.id})
	}
}

// judge counts what became of the documents of a bulk write. One that the target does not want is left out. Every other
// error word tells that something went wrong there: such a document is copied by itself, and what that is answered decides.
func (r *Run) judge(b *batch, group *fetched, op peer.WriteDocs, verdicts []peer.Refusal) {
	written, refused := slices.Clone(op.Docs), 0
	for _, v := range verdicts {
		if v.Error == "unauthorized" || v.Error == "forbidden" {
			r.refused(v)
			refused++
			continue
		}
		// Reached: a document is not written in bulk, and not refused
		for _, k := range group.meant(written, v) {
			d := group.docs[k.Index]
			r.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: d.Since})
			written = slices.DeleteFunc(written, func(w peer.Kept) bool { return w == k })
		}
	}
	r.wrote(max(0, len(written)-refused))
}

// meant are the documents of those sent that a verdict may be about: all of its id when it names no revision that was sent,
// and all when it names no document.
func (g *fetched) meant(sent []peer.Kept, v peer.Refusal) []peer.Kept {
	var alike []peer.Kept
	for _, k := range sent {
		if g.docs[k.Index].ID != v.ID {
			continue
		}
		if g.came[k.Index] == v.Rev {
			return []peer.Kept{k}
		}
		alike = append(alike, k)
	}
	if len(alike) > 0 {
		return alike
	}
	return slices.Clone(sent)
}

// writeSmaller halves a request that is too large for the target; a single document that is too large
// is refused.
func (r *Run) writeSmaller(b *batch, group *fetched, op peer.WriteDocs, f *peer.Failure) {
	if n := len(op.Docs); n > 1 {
		// Reached: a bulk write is halved
		r.write(b, group, op.Docs[:n/2])
		r.write(b, group, op.Docs[n/2:])
		return
	}
	// Reached: a single document is too large
	i := op.Docs[0].Index
	r.refused(peer.Refusal{ID: group.docs[i].ID, Rev: group.came[i], Status: f.Status, Error: f.Error, Reason: f.Reason})
}
