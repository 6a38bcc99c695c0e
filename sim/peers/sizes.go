package peers

import (
	"encoding/base64"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

const (
	rowSize = 100 // of a row of changes, about
	revSize = 40  // of a revision with its document's id, about
	packing = 4   // times as long is what was compressed
)

// size is the length of a document in an answer, for budgets and counts. Attachments are base64 text.
func size(d *docs.Document) int {
	sum := len(d.Body) + 100
	for _, a := range d.Attachments {
		sum += base64.StdEncoding.EncodedLen(len(a.Data))
	}
	return sum
}

// sizeOf is the length of all bodies that a bulk write sends.
func (p *Pair) sizeOf(op peer.WriteDocs) (sum int64) {
	for _, k := range op.Docs {
		sum += int64(size(p.kept[k.Fetch][k.Index]))
	}
	return sum
}

// sent is about how many bytes the body of a request has. Those of CopyDoc, which is several requests, are not in it.
func (p *Pair) sent(op peer.Op) (sum int) {
	switch op := op.(type) {
	case peer.WriteDocs:
		if sum = int(p.sizeOf(op)); op.Gzip {
			sum /= packing
		}
	case peer.EditDocs:
		for _, d := range op.Docs {
			sum += len(d.Body)
		}
	case peer.DiffRevs:
		for _, d := range op.Docs {
			sum += revSize * len(d.Revs)
		}
	case peer.FetchDocs:
		sum = revSize * len(op.Docs)
	case peer.PutLocal:
		sum = len(op.Body)
	}
	return sum
}

// brought is about how many bytes the body of an answer has. Rows of changes, which are read later, and what CopyDoc
// copies are not in it.
func brought(result peer.Result) (sum int) {
	switch got := result.(type) {
	case peer.Fetched:
		for _, d := range got.Docs {
			if d.Fate == peer.Taken {
				sum += d.Size
			}
		}
	case peer.DocsRead:
		for _, d := range got.Docs {
			sum += len(d.Body)
		}
	case peer.Diff:
		for _, d := range got.Docs {
			sum += revSize * len(d.Missing)
		}
	case peer.Local:
		sum = len(got.Body)
	}
	return sum
}
