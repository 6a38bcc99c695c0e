package docs

import (
	"fmt"

	"couchrelay/core/check"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/json"
	"couchrelay/core/kv/tuple"
)

// content judges a whole body, whose first part the row is. No repair follows from what is read for it, so it is not
// kept: it may be large.
func (r *checkedRow) content(leaf revtree.Leaf) {
	for i := 1; i < leaf.Chunks; i++ {
		at := chunkKey(r.key, i)
		value := r.Look(at)
		if value == nil {
			r.Report(at, fmt.Sprintf("a part of the content of document %q is missing", r.id))
			return
		}
		if _, opens := r.Plain(at, value); !opens {
			return // which is reported
		}
	}
	d := &Document{}
	value, ok := r.join(r.Look, r.key, r.value)
	if !ok || d.setBody(value, leaf.Attached) != nil || !isObject(d.Body) {
		r.Report(r.key, fmt.Sprintf("the content of document %q cannot be read", r.id))
	}
	for i := range d.Attachments { // also if only the text cannot be read
		r.attachment(&d.Attachments[i])
	}
}

func isObject(text []byte) bool {
	var raw json.Raw
	return len(text) > 0 && text[0] == '{' && json.Decode(text, &raw) == nil
}

// attachment demands the last piece of an attachment. Each piece demands the one before it.
func (r *checkedRow) attachment(a *Attachment) {
	blob, name := a.Blob, fmt.Sprintf("attachment %q of document %q", a.Name, r.id)
	r.Later(func() { r.one.blobs[blob] = name })
	if a.Size() <= 0 {
		return
	}
	n := (a.Size() - 1) / pieceSize
	at := r.db.pieceKey(blob, n)
	value := r.Look(at)
	piece, opens := r.Plain(at, value)
	switch size := a.Size() - n*pieceSize; {
	case value == nil || opens && int64(len(piece)) < size:
		r.Report(at, "bytes of "+name+" are missing")
	case opens && int64(len(piece)) > size:
		r.Report(at, name+" has more bytes than it should")
	}
}

// body judges a part of a body.
func (r *checkedRow) body() {
	if _, opens := r.Opens(r.key, r.value); !opens {
		return
	}
	var n int64
	if len(r.rest) > 3 {
		n, _ = r.rest[3].(int64)
	}
	tree := r.tree()
	if tree == nil || len(r.rest) < 3 {
		return
	}
	gen, _ := r.rest[1].(int64)
	id, _ := r.rest[2].(string)
	switch leaf, is := tree.Leaf(revtree.Rev{Gen: gen, ID: id}); {
	case !is || n >= int64(leaf.Chunks):
		r.leftOver(fmt.Sprintf("document %q has no content there", r.id))
	case len(r.rest) == 3:
		r.content(leaf)
	}
}

// blob judges a piece of an attachment.
func (r *checkedRow) blob() {
	piece, opens := r.Opens(r.key, r.value)
	if !opens || len(r.rest) != 2 {
		return
	}
	blob, _ := r.rest[0].(tuple.UUID)
	if r.Has(r.db.uploadKey(blob)) {
		return
	}
	n, _ := r.rest[1].(int64)
	before := r.db.pieceKey(blob, n-1)
	gap := n > 0 && r.Look(before) == nil
	short := len(piece) < pieceSize && r.Look(r.db.pieceKey(blob, n+1)) != nil
	r.Later(func() {
		switch name := r.one.blobs[blob]; {
		case name == "" && !r.one.strays[blob]:
			r.one.strays[blob] = true
			r.Doubt(r.key, "no document has this attachment: it only takes place", check.Mend{})
		case name != "" && gap:
			r.Report(before, "bytes of "+name+" are missing")
		case name != "" && short:
			r.Report(r.key, "bytes of "+name+" are missing")
		case name != "" && len(piece) > pieceSize:
			r.Report(r.key, name+" has more bytes than it should")
		}
	})
}
