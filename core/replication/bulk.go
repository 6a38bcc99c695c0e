package replication

import (
	"cmp"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// group is the bodies that one FetchDocs brought. The driver keeps them until Release.
type group struct {
	id     uint64        // of the FetchDocs's last attempt, by which the driver knows the bodies
	began  instant.Time  // when they were asked for
	docs   []peer.DocRev // that were asked for; Kept.Index is an index into this and came
	came   []string      // revisions that came for them, which may be newer ones; empty for those that did not
	inline bool          // the documents have attachments, whose bytes are in the bodies or at the target
	bytes  int           // of all bodies that are kept; counted in pipeline.memory while writes > 0
	writes int           // WriteDocs calls for bodies of the group; at 0 it is released
	// plain is set when all of the group is written once more as it is, since that failed compressed.
	plain bool
	// parted is set when the group was too large for the target, and is written in parts, whose bytes are not known.
	parted bool
}

// fetchBudget bounds the bodies that one FetchDocs may bring, in bytes, but for a single larger one.
func (p *pipeline) fetchBudget() int { return max(1, p.plan.Memory/4) }

// nextFetch returns the next bulk read of the batch, of documents that the batch still has. Those with attachments wait
// until the others have been read, so that they are together. Its budget is a quarter of the memory until a size is
// known, and then room for twice what the documents should have, so that many reads can be in flight. The last document
// that is taken may exceed the budget, so there is room for the largest one, too.
func (p *pipeline) nextFetch(b *batch) peer.FetchDocs {
	most := p.fetchBudget()
	if len(b.fetch) == 0 {
		docs, size := b.inlineWithin(most)
		return peer.FetchDocs{Docs: docs, Budget: min(size+p.maxInline(), most), Attachments: true}
	}
	n := min(len(b.fetch), max(1, most/p.docSize))
	op := peer.FetchDocs{Docs: b.fetch[:n:n], Budget: most}
	if p.maxDoc > 0 {
		op.Budget = min(2*n*p.docSize+p.maxDoc, most)
	}
	return op
}

// take takes the documents of a bulk read off the batch.
func (b *batch) take(op peer.FetchDocs) {
	if op.Attachments {
		b.inline = b.inline[len(op.Docs):]
	} else {
		b.fetch = b.fetch[len(op.Docs):]
	}
}

// fetchDocs reads documents in bulk ("Fetch Changed Documents", _bulk_get).
func (p *pipeline) fetchDocs(b *batch, op peer.FetchDocs) {
	b.trips[peer.Source]++
	c := &call{op: op}
	c.then = func(reply peer.Reply) { p.onFetched(b, c, op, reply) }
	p.issue(c)
}

// onFetched writes the bodies that came and finds another way for the other documents.
func (p *pipeline) onFetched(b *batch, c *call, op peer.FetchDocs, reply peer.Reply) {
	b.fetching = false
	b.pending--
	p.memory -= op.Budget
	p.info.BulkGetAttempts += int64(len(op.Docs))
	if f := reply.Failure; f != nil {
		if !ofBulk(f) {
			p.crash(trouble(op, f))
			return
		}
		// Reached: documents are had one by one
		// A server without _bulk_get, or one that fails on it or takes too long: the documents are copied one
		// by one.
		p.useless(op.Attachments, 1, 1)
		for _, d := range op.Docs {
			p.queueAlone(b, d, c.began)
		}
		return
	}
	g := &group{id: c.id, docs: op.Docs, came: make([]string, len(op.Docs)), inline: op.Attachments, began: c.began}
	kept := p.sortFetched(b, g, reply.Result.(peer.Fetched).Docs)
	if len(kept) == 0 {
		p.emit(Release{ID: g.id})
		return
	}
	if !g.inline {
		p.docSize = max(1, (3*p.docSize+g.bytes/len(kept))/4)
	}
	p.memory += g.bytes
	b.trips[peer.Target]++
	p.write(b, g, peer.WriteDocs{Docs: kept, Gzip: p.packing.next(g.bytes)})
}

// useless notes how many of the documents that were asked for did not come with a bulk read, or with one that
// brings attachments. That they came tells nothing of whether the target takes attachments in bulk: see judge.
func (p *pipeline) useless(attachments bool, n, asked int64) {
	switch {
	case !attachments:
		p.skipBulk.observe(n, asked, bulkDecay, p.now)
	case n > 0:
		p.skipInline.observe(n, asked, bulkDecay, p.now)
	}
}

// ofBulk reports whether documents may be had one by one after this failure of a bulk read. 429 asks to slow
// down, and more requests would do the opposite; a host that cannot be reached cannot be reached for one
// document either.
func ofBulk(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status != 429
	case peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

// sortFetched splits the answer of a FetchDocs into bodies to write, which it returns, documents to read with
// their attachments, documents to copy one by one, and documents to ask for again, because they did not fit
// into the budget or the answer ended before them.
func (p *pipeline) sortFetched(b *batch, g *group, got []peer.FetchedDoc) []peer.Kept {
	var kept []peer.Kept
	var left []peer.DocRev
	useless, asked := int64(0), int64(len(g.docs))
	for i, d := range g.docs {
		var came peer.FetchedDoc // Left
		if i < len(got) {
			came = got[i]
		}
		switch {
		case came.Fate == peer.Taken:
			kept = append(kept, peer.Kept{Fetch: g.id, Index: i})
			g.came[i] = cmp.Or(came.Rev, d.Rev)
			g.bytes += came.Size
			p.info.DocsRead++
			p.tally.read(1, int64(came.Size))
			p.info.BulkGetDocs++
			if !g.inline {
				p.maxDoc = max(p.maxDoc, came.Size)
			}
		case came.Fate == peer.Left:
			left = append(left, d)
		case came.Fate == peer.Attachments && !g.inline && p.inlines(came.Size):
			b.inline = append(b.inline, inlined{d, came.Size})
		default:
			useless++
			p.queueAlone(b, d, g.began)
		}
	}
	if int64(len(left)) == asked { // asking for the same again would never end
		// Reached: a bulk read brings nothing at all
		for _, d := range left {
			p.queueAlone(b, d, g.began)
		}
		useless, left = asked, nil
	}
	if g.inline {
		b.inline = append(p.largest(left), b.inline...)
	} else {
		b.fetch = append(left, b.fetch...)
	}
	p.useless(g.inline, useless, asked)
	return kept
}

// queueAlone has a revision copied by itself that cannot be had or written in bulk, where it was asked for first.
func (p *pipeline) queueAlone(b *batch, d peer.DocRev, began instant.Time) {
	p.queueCopy(b, alone{peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: d.Since}, began})
}

// write sends bodies of a group to the target ("Upload Batch of Changed Documents", _bulk_docs).
func (p *pipeline) write(b *batch, g *group, op peer.WriteDocs) {
	g.writes++
	b.pending++
	alike := p.packing.began(op.Gzip, g.bytes)
	c := &call{op: op, brief: op.Gzip, began: g.began}
	c.then = func(reply peer.Reply) {
		p.packing.ended(op.Gzip, g.bytes, g.smooth(c, reply), alike)
		p.onWritten(b, g, op, reply)
	}
	p.issue(c)
}

// smooth reports whether the time of a bulk write was for the bytes of the group: it never failed, and had them all.
func (g *group) smooth(c *call, reply peer.Reply) bool {
	return reply.Failure == nil && c.failed == 0 && c.answers == 0 && !g.parted
}

func (p *pipeline) onWritten(b *batch, g *group, op peer.WriteDocs, reply peer.Reply) {
	b.pending--
	g.writes--
	switch f := reply.Failure; {
	case f == nil:
		if g.plain {
			p.packing.refused()
		}
		p.judge(b, g, op, reply.Result.(peer.Written).Refused)
	case op.Gzip && ofEncoding(f):
		// Reached: a compressed write fails
		g.plain = true
		p.write(b, g, peer.WriteDocs{Docs: op.Docs})
	case isTooLong(f), ofOne(f) && !g.inline:
		p.writeSmaller(b, g, op, f)
	case g.inline && ofAttachments(f), p.plan.ofOneAtLast(f):
		// Reached: a bulk write fails for its attachments
		p.writeAlone(b, g, op)
	default:
		p.crash(trouble(op, f))
		return
	}
	if g.writes == 0 {
		p.memory -= g.bytes
		p.info.BytesWritten += int64(g.bytes)
		p.emit(Release{ID: g.id})
	}
}

// judge counts what became of the documents of a bulk write. A document that the target refuses is left out.
// Every other error word tells that something went wrong there: such a document is copied by itself, and the
// answer to that decides. So it is if the verdict does not tell which document it is about.
func (p *pipeline) judge(b *batch, g *group, op peer.WriteDocs, verdicts []peer.Refusal) {
	s := g.sent(op.Docs)
	for _, v := range verdicts {
		about := s.meant(v)
		if (v.Error == "unauthorized" || v.Error == "forbidden") && len(about) == 1 && g.docs[about[0]].ID == v.ID {
			i := about[0]
			v.Rev = g.came[i]
			p.refuse(b, v)
			s.refused[i] = true
			continue
		}
		// Reached: a document is not written in bulk, and not refused
		for _, i := range about {
			p.queueAlone(b, g.docs[i], g.began)
			s.alone[i] = true
		}
	}
	if g.inline {
		p.skipInline.observe(int64(len(s.alone)), int64(len(op.Docs)), bulkDecay, p.now)
	}
	written := s.left(s.docs)
	p.info.wrote(len(written))
	for _, i := range written {
		p.refused.wrote(g.docs[i].ID)
	}
}

// sent is the documents of a bulk write while its answer is judged, as indexes into those of the group. A write may
// have tens of thousands, and an answer about each, so none is looked for among all.
type sent struct {
	docs           []int
	as             map[peerRev][]int // by id and revision, and by id alone
	refused, alone map[int]bool      // what became of them; the others were written
}

func (g *group) sent(docs []peer.Kept) *sent {
	s := &sent{as: map[peerRev][]int{}, refused: map[int]bool{}, alone: map[int]bool{}}
	for _, k := range docs {
		id := g.docs[k.Index].ID
		s.docs = append(s.docs, k.Index)
		for _, name := range []peerRev{{id, g.came[k.Index]}, {id, ""}} {
			s.as[name] = append(s.as[name], k.Index)
		}
	}
	return s
}

// over reports whether a verdict has told what becomes of a document.
func (s *sent) over(i int) bool { return s.alone[i] || s.refused[i] }

// left takes those off a list that are over, for good: there may be as many verdicts that mean the list.
func (s *sent) left(docs []int) []int { return slices.DeleteFunc(docs, s.over) }

// meant returns the documents that a verdict may be about, of those that are not over: the one with its id and
// revision, if that is known, else all with its id, else all. Copying one too many does no harm, and leaving one out
// would lose it. Servers that name no revisions tell of one document as often as they did not take a leaf of it.
func (s *sent) meant(v peer.Refusal) []int {
	exact, alike := peerRev{v.ID, v.Rev}, peerRev{v.ID, ""}
	if docs, is := s.as[exact]; is && v.Rev != "" {
		for len(docs) > 0 && s.over(docs[0]) {
			docs = docs[1:]
		}
		s.as[exact] = docs
		return docs[:min(1, len(docs))]
	}
	if docs, is := s.as[alike]; is {
		s.as[alike] = s.left(docs)
		return s.as[alike]
	}
	s.docs = s.left(s.docs)
	return s.docs
}

// writeSmaller halves a write that is too large for the target, or that it takes no document of, for a single one
// that it cannot read. A single document that is too large is refused, unless it may be that only the request is: one
// with attachments is smaller when it is copied alone, and some servers bound documents and requests, but not
// attachments.
func (p *pipeline) writeSmaller(b *batch, g *group, op peer.WriteDocs, f *peer.Failure) {
	if n := len(op.Docs); n > 1 {
		// Reached: a bulk write is halved
		g.parted, g.plain = true, false
		p.write(b, g, peer.WriteDocs{Docs: op.Docs[:n/2]})
		p.write(b, g, peer.WriteDocs{Docs: op.Docs[n/2:]})
		return
	}
	if g.inline || f.Status != 413 {
		// Reached: a single document is too large with its attachments inside, or cannot be read
		p.writeAlone(b, g, op)
		return
	}
	// Reached: a single document is too large
	i := op.Docs[0].Index
	p.refuse(b, peer.Refusal{ID: g.docs[i].ID, Rev: g.came[i], Status: f.Status, Error: f.Error, Reason: f.Reason})
}
