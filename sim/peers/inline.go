package peers

import (
	"fmt"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// Inline is what a server makes of attachments in bulk reads and writes.
type Inline uint8

// Ways to deal with attachments in bulk.
const (
	Inlines    Inline = iota // as with any document
	SendsStubs               // bulk reads bring stubs, whatever they ask for
	TooMuch                  // 413 to every bulk write with the bytes of an attachment
	WantsAll                 // 412 to every bulk write with a stub
)

// sends reports whether a bulk read brings attachments.
func (t Traits) sends(op peer.FetchDocs) bool { return op.Attachments && t.Inline != SendsStubs }

// since is a document as a source sends it to who has older revisions: attachments that came with the newest of
// those in its history, or before it, are stubs.
func since(d *docs.Document, revs []string) *docs.Document {
	newest := int64(0)
	for i, id := range d.Ancestors {
		gen := d.Rev.Gen - int64(i) - 1
		if newest == 0 && slices.Contains(revs, fmt.Sprintf("%d-%s", gen, id)) {
			newest = gen
		}
	}
	sent := *d
	sent.Attachments = slices.Clone(d.Attachments)
	for i := range sent.Attachments {
		if a := &sent.Attachments[i]; a.RevPos > 0 && a.RevPos <= newest {
			a.Content, a.Data = docs.Stub, nil
		}
	}
	return &sent
}

// hasStub reports whether an attachment of a document is only described.
func hasStub(d *docs.Document) bool {
	return slices.ContainsFunc(d.Attachments, func(a docs.Attachment) bool { return a.Content == docs.Stub })
}

// hasBytes reports whether an attachment of a document is inside of it.
func hasBytes(d *docs.Document) bool {
	return slices.ContainsFunc(d.Attachments, func(a docs.Attachment) bool { return a.Content == docs.Inline })
}

// missingStub is the answer to a write with a stub whose attachment is not there.
func missingStub() *peer.Failure {
	return answer(412, "missing_stub", "Invalid attachment stub.")
}

// refuseInline is the answer of a server that does not take attachments in a bulk write, or not this time; nil
// if it does.
func (p *Pair) refuseInline(db *DB, list []*docs.Document, f Fault) *peer.Failure {
	lacks := func(d *docs.Document) bool { return hasStub(d) && (p.bare[d.ID] || db.Server.Inline == WantsAll) }
	attached := func(d *docs.Document) bool { return len(d.Attachments) > 0 }
	switch {
	case slices.ContainsFunc(list, lacks), f == FailsSome && slices.ContainsFunc(list, attached):
		return missingStub()
	case db.Server.Inline == TooMuch && slices.ContainsFunc(list, hasBytes):
		return answer(413, "too_large", "the request entity is too large")
	}
	return nil
}
