package replication

import (
	"cmp"
	"slices"
	"strings"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

const (
	// DefaultMemory is four full answers of _bulk_get.
	DefaultMemory = 16 << 20
	// firstDocSize is the guess of a document's bytes before the first document was fetched.
	firstDocSize = 1024

	// Thresholds and decays of CouchDB's replicator (3.5), in millionths: _revs_diff is left out while nearly
	// all revisions are missing anyway, _bulk_get while most documents cannot be had by it.
	diffThreshold, diffDecay = 950_000, 400_000
	bulkThreshold, bulkDecay = 500_000, 250_000
)

// pipeline brings what the feed read to the target, in batches of which several are worked on at once:
// "Calculate Revision Difference" and "Replicate Changes" in CouchDB's replication protocol. This file has
// the way of a batch. Of its documents bulk.go has those that are fetched and written together, inline.go those that
// are so with their attachments, copy.go those that are copied one by one.
type pipeline struct {
	*Run

	// batches are those not yet passed through, in the order of the feed and without a gap. Any may be done,
	// but the first one only within a step.
	batches  []*batch
	numbered int64 // number of the newest batch
	furthest int64 // number of the newest batch that is done, however many before it are not

	// memory is the bytes of document bodies that the run may hold: the budget of each FetchDocs in flight,
	// and the bodies of each group that is still being written. It is 0 without work, and no FetchDocs begins
	// that would bring it above Plan.Memory; see fetchBudget.
	memory  int
	copies  int // CopyDoc calls; at most the connections that workers and feed leave, see pump
	docSize int // running average of the bytes of a fetched document, at least 1
	maxDoc  int // bytes of the largest one so far; 0 before the first

	window     window      // how many batches are worked on at once
	packing    compression // which bulk writes are compressed
	skipDiff   ratio       // how often _revs_diff told nothing
	skipBulk   ratio       // how often _bulk_get brought nothing
	skipInline ratio       // how often attachments could not be read or written in bulk
}

type stage uint8

const (
	queued  stage = iota
	diffing       // asking which revisions the target lacks
	moving        // fetching, writing and copying
	done          // each revision was written, found on the target, or refused and listed
)

// batch is a run of rows of the feed. A checkpoint may cover a batch when it and all before it are done. A
// batch without rows moves the position only.
type batch struct {
	// number counts the batches of a run from 1, in the order of the feed. The batch also stands for the ones
	// from first to number-1, which were done and merged into it.
	first, number int64

	stage stage             // only grows
	last  peer.Seq          // sequence of its last row, where the feed goes on after it
	row   checkpoint.Change // its last row that has a revision
	rows  int               // of this batch and those merged into it
	docs  []peer.DocRevs    // documents of its rows, each once; nil once it is known what the target lacks
	bytes int               // that its rows and what the target told of them take in memory, about, until it is done

	fetch    []peer.DocRev // revisions still to be fetched in bulk
	inline   []inlined     // revisions still to be fetched in bulk with their attachments
	copies   []alone       // documents still to be copied one by one
	fetching bool          // a FetchDocs is in flight or waits for its next attempt; at most one per batch
	// pending is the number of the batch's calls for documents: FetchDocs, WriteDocs and CopyDoc, in flight
	// or waiting. While the stage is moving, the batch is done when this is 0 and nothing is left to fetch or
	// copy.
	pending int
	// unstored is the number of its refused revisions that the list of these does not have yet. The batch is
	// not done before this is 0.
	unstored int
	// For the window: when a worker began with the batch, how many requests to each side followed each other, and
	// whether documents were copied one by one.
	began instant.Time
	trips [2]int // by peer.Side
	alone bool
	// retries is set for copies of revisions that the target refused before. Such a batch is in no order, and
	// no checkpoint depends on it.
	retries bool
	demand  instant.Time // of the last RefusedPage before the work on the batch began
}

// queueBatch makes a batch of rows that ends at last. Rows of one document, which has been changed while the
// feed was read, become one.
func (p *pipeline) queueBatch(rows []peer.Change, last peer.Seq) {
	p.numbered++
	b := &batch{first: p.numbered, number: p.numbered, last: last, rows: len(rows)}
	at, more := make(map[string]int, len(rows)), map[int]*union{}
	for _, row := range rows {
		b.bytes += rowBytes(row)
		if len(row.Revs) > 0 {
			b.row = checkpoint.Change{Mark: peer.MarkOf(row.ID, row.Revs[0], row.Revs[1:]), Seq: row.Seq}
		}
		if i, again := at[row.ID]; again {
			if more[i] == nil {
				more[i] = unionOf(b.docs[i].Revs)
			}
			b.docs[i].Revs = more[i].with(row.Revs)
		} else if len(row.Revs) > 0 {
			at[row.ID] = len(b.docs)
			b.docs = append(b.docs, peer.DocRevs{ID: row.ID, Revs: row.Revs})
		}
	}
	p.batches = append(p.batches, b)
}

// startBatches moves every batch on as far as it goes, begins as many as the window has room for, and then passes
// through those that are done. Batches that were begun go on while the window is smaller. A batch that is done may make
// the window larger, and what it has room for then begins at once, not with whatever happens next.
func (p *pipeline) startBatches() {
	busy := 0
	for _, b := range p.batches {
		if b.stage == done {
			continue
		}
		if busy++; (busy > p.window.size() || !p.refused.informed) && b.stage == queued {
			break
		}
		if b.stage == queued {
			b.began, b.demand = p.now, p.refused.demand
			p.diff(b)
		}
		if b.stage == moving {
			p.pump(b)
		}
		if b.stage == done {
			// Reached: a batch is done at once
			busy-- // its worker is free for the next one
		}
	}
	p.passThrough()
}

// waiting returns how many batches no worker has begun, and how many bytes there are left of those that all batches
// may take that are not done: as many as documents may.
func (p *pipeline) waiting() (batches, room int) {
	room = max(p.plan.Memory, DefaultMemory)
	for _, b := range p.batches {
		if b.stage == queued {
			batches++
		}
		if b.stage != done {
			room -= b.bytes
		}
	}
	return batches, room
}

// rowBytes is what a row takes in memory, about: a document may have thousands of leaves.
func rowBytes(row peer.Change) int { return 100 + len(row.ID) + revBytes(row.Revs) }

// revBytes is what revisions take.
func revBytes(revs []string) (n int) {
	for _, rev := range revs {
		n += 50 + len(rev)
	}
	return n
}

// passThrough moves the position that a checkpoint may take over the done batches at the front, up to the
// first one that is not done: this is where the promise is kept. Of done batches behind that, neighbors are
// merged into one, so that a single slow batch does not make the list grow without end.
func (p *pipeline) passThrough() {
	for len(p.batches) > 0 && p.batches[0].stage == done {
		b := p.batches[0]
		p.turn.moves()
		p.info.ThroughSeq = b.last
		p.commits.passed(b)
		p.batches = p.batches[1:]
	}
	kept := p.batches[:0:0]
	for i, b := range p.batches {
		if b.stage == done && i+1 < len(p.batches) && p.batches[i+1].stage == done {
			p.batches[i+1].rows += b.rows
			p.batches[i+1].first = b.first
			p.batches[i+1].row = cmp.Or(p.batches[i+1].row, b.row)
			continue
		}
		kept = append(kept, b)
	}
	p.batches = kept
}

// diff asks which revisions the target lacks ("Calculate Revision Difference", _revs_diff), unless it is
// likely to lack them all.
func (p *pipeline) diff(b *batch) {
	b.stage = diffing
	if len(b.docs) == 0 {
		b.stage = moving
		return
	}
	p.window.measureFar()
	if p.skipDiff.worthwhile(diffThreshold, p.now) {
		p.skipDiff.tried(p.now)
		op := peer.DiffRevs{Docs: b.docs}
		b.trips[peer.Target]++
		p.ask(op, func(reply peer.Reply) { p.onDiff(b, op, reply) })
		return
	}
	p.divide(b, lacksAll(peer.DiffRevs{Docs: b.docs}))
}

// lacksAll is what a target lacks that was not asked, or cannot read the question, as CouchDB if one of many revisions
// has another form than its own, or that fails on it at each attempt. What it does with the documents tells of each.
func lacksAll(op peer.DiffRevs) []peer.DocMissing {
	all := make([]peer.DocMissing, len(op.Docs))
	for i, d := range op.Docs {
		all[i] = peer.DocMissing{ID: d.ID, Missing: d.Revs}
	}
	return all
}

func (p *pipeline) onDiff(b *batch, op peer.DiffRevs, reply peer.Reply) {
	switch f := reply.Failure; {
	case f == nil:
	case ofOne(f), p.plan.ofOneAtLast(f):
		p.divide(b, lacksAll(op))
		return
	case isTooLong(f):
		p.refused.compareHalves(op, func(missing []peer.DocMissing) {
			p.onDiff(b, op, peer.Reply{Result: peer.Diff{Docs: missing}})
		})
		return
	default:
		p.crash(trouble(op, f))
		return
	}
	missing := reply.Result.(peer.Diff).Docs
	checked, absent := int64(0), int64(0)
	for _, d := range op.Docs {
		checked += int64(len(d.Revs))
	}
	for _, d := range missing {
		// With ancestors the answer was worth its request: attachments that the target has are not sent
		// again.
		if len(d.Ancestors) == 0 {
			absent += int64(len(d.Missing))
		}
	}
	p.skipDiff.observe(absent, checked, diffDecay, p.now)
	p.divide(b, missing)
}

// divide sorts the work of a batch. Design documents are copied one by one: a target that takes them from
// admins only then refuses them alone, and not the whole write that they are in. The other documents are
// fetched in bulk where that works.
func (p *pipeline) divide(b *batch, missing []peer.DocMissing) {
	for _, d := range b.docs {
		p.info.MissingChecked += int64(len(d.Revs))
	}
	p.turn.moves()
	b.stage, b.docs = moving, nil
	bulk := p.plan.UseBulkGet && p.skipBulk.worthwhile(bulkThreshold, p.now)
	_, room := p.waiting()
	for _, d := range missing {
		p.info.MissingFound += int64(len(d.Missing))
		if size := revBytes(d.Ancestors); size <= room {
			room, b.bytes = room-size, b.bytes+size
		} else {
			d.Ancestors = nil // attachments that the target has come once more
		}
		if !bulk || strings.HasPrefix(d.ID, "_design/") {
			p.queueCopy(b, alone{CopyDoc: peer.CopyDoc{ID: d.ID, Revs: d.Missing, Since: d.Ancestors}})
			continue
		}
		for _, rev := range d.Missing {
			b.fetch = append(b.fetch, peer.DocRev{ID: d.ID, Rev: rev, Since: d.Ancestors})
		}
	}
}

// alone is a document that is copied by itself, and when a bulk read asked for it; 0 if none has.
type alone struct {
	peer.CopyDoc
	began instant.Time
}

// queueCopy adds a document to those that are copied one by one. Revisions of one document that follow each
// other are copied together.
func (p *pipeline) queueCopy(b *batch, doc alone) {
	if n := len(b.copies); n > 0 && b.copies[n-1].ID == doc.ID {
		b.copies[n-1].Revs = append(b.copies[n-1].Revs, doc.Revs...)
		return
	}
	doc.Revs = slices.Clone(doc.Revs)
	b.copies = append(b.copies, doc)
}

// pump starts all that the batch can do next, within the limits of memory and connections, and notes when it
// is done.
func (p *pipeline) pump(b *batch) {
	if len(b.fetch)+len(b.inline) > 0 && !b.fetching {
		if op := p.nextFetch(b); p.memory+op.Budget <= p.plan.Memory {
			b.fetching, b.pending = true, b.pending+1
			p.memory += op.Budget
			b.take(op)
			p.fetchDocs(b, op)
		}
	}
	for len(b.copies) > 0 && p.copies < p.copySlots() {
		b.alone = true
		p.copies++
		b.pending++
		p.copyDoc(b, b.copies[0])
		b.copies = b.copies[1:]
	}
	if b.pending == 0 && len(b.fetch)+len(b.inline)+len(b.copies) == 0 && b.unstored == 0 {
		b.stage = done
		p.window.done(b)
		if b.number > p.furthest {
			p.furthest, p.info.SourceSeq = b.number, b.last
		}
	}
}

// copySlots is how many documents may be copied one by one at once. Besides copies, Workers bulk requests and the feed
// have a connection each. With a larger window bulk requests and copies share what is left, and wait for each other in
// the adapter.
func (p *pipeline) copySlots() int { return max(1, p.plan.Connections-p.plan.Workers-1) }

// union is the revisions of several rows of a document, each once. Each row may have a hundred thousand, most of which
// the rows before had, too.
type union struct {
	all   []string
	known map[string]bool
}

func unionOf(revs []string) *union {
	u := &union{all: slices.Clone(revs), known: make(map[string]bool, len(revs))}
	for _, rev := range revs {
		u.known[rev] = true
	}
	return u
}

// with adds the revisions of a row, and returns all.
func (u *union) with(revs []string) []string {
	for _, rev := range revs {
		if !u.known[rev] {
			u.known[rev] = true
			u.all = append(u.all, rev)
		}
	}
	return u.all
}
