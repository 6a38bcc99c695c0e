package replication

import "couchrelay/core/peer"

// Documents with attachments come from the first bulk read without the attachments' bytes, with the size that
// they would have with them. Small ones are then read once more in bulk, with the bytes as base64 text inside
// of their bodies, and are written as all other bodies are. Large ones are copied one by one, since an
// attachment that streams needs no memory, and 4/3 of its bytes would travel for each byte in bulk. Whatever
// does not work this way is copied alone, too.

// maxInlined is the size of the largest document, in bytes, that is read in bulk with its attachments. A copy
// by itself costs two requests, which is as much time as some hundred kilobytes take: much larger documents
// gain nothing in bulk, and lose by base64.
const maxInlined = 256 << 10

// inlined is a revision to be read in bulk with its attachments.
type inlined struct {
	peer.DocRev
	size int // bytes of its body with the attachments that the target lacks, about
}

// maxInline is the size of the largest document that this run reads in bulk with its attachments. Several
// have room in each read (fetchBudget), or nothing would be gained.
func (p *pipeline) maxInline() int { return min(maxInlined, p.fetchBudget()/4) }

// inlines reports whether a document that has this size with its attachments is read with them in bulk. A size
// of 0 is unknown.
func (p *pipeline) inlines(size int) bool {
	return size > 0 && size <= p.maxInline() && p.skipInline.worthwhile(bulkThreshold, p.now)
}

// inlineWithin returns as many of the documents to be read with their attachments as fit into the budget, and at least
// one, and how many bytes they should have.
func (b *batch) inlineWithin(budget int) (docs []peer.DocRev, size int) {
	for _, d := range b.inline {
		if size+d.size > budget && len(docs) > 0 {
			break
		}
		docs, size = append(docs, d.DocRev), size+d.size
	}
	return docs, size
}

// largest queues documents again that did not come. Their sizes, or those of the ones before them, have
// misled, so now they count as large as may be.
func (p *pipeline) largest(docs []peer.DocRev) []inlined {
	var list []inlined
	for _, d := range docs {
		// Reached: not all documents come with their attachments
		list = append(list, inlined{d, p.maxInline()})
	}
	return list
}

// ofAttachments reports whether a bulk write may have failed for an attachment of one of its documents. A
// stub whose attachment the target does not have fails the whole write with 412 missing_stub, a name that it
// does not allow with 400, an encoding with 415. A target, or a proxy before it, that fails on large requests may
// take the documents one by one.
func ofAttachments(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status == 400 || f.Status == 412 || f.Status == 415 || f.Status >= 500
	case peer.Broken, peer.TimedOut:
		return true
	}
	return false
}

// writeAlone gives up a bulk write, whose documents are copied one by one instead.
func (p *pipeline) writeAlone(b *batch, g *group, op peer.WriteDocs) {
	if g.inline {
		p.skipInline.observe(1, 1, bulkDecay, p.now)
	}
	for _, k := range op.Docs {
		p.queueAlone(b, g.docs[k.Index], g.began)
	}
}
