package couchdb

import (
	"net/http"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

// getDocument answers with one revision, or with several when open_revs asks for them.
func (q *request) getDocument() error {
	if err := docs.ValidID(q.id); err != nil {
		return docs.ErrMissing
	}
	if asked := q.Query.Get("open_revs"); asked != "" && asked != "[]" {
		return q.openRevs()
	}
	want, err := q.want()
	if err != nil {
		return err
	}
	shown, err := q.shown()
	if err != nil {
		return err
	}
	var d *docs.Document
	_, err = carry(q, sizeOfDocument, func(_ kv.Tx, db *docs.Database) (_ []*docs.Document, err error) {
		d, err = db.Read(q.id, want)
		return []*docs.Document{d}, err
	})
	if err == nil {
		d, err = q.view(q, d)
	}
	if err != nil {
		return err
	}
	plain := !(want.Conflicts || want.DeletedConflicts || want.RevsInfo || want.LocalSeq)
	if plain && q.Unchanged(`"`+d.Rev.String()+`"`) {
		return nil
	}
	return q.sendDocument(d, shown)
}

// want says which revision the query asks for, and with what.
func (q *request) want() (docs.Want, error) {
	meta := q.flag("meta")
	want := docs.Want{
		Deleted: q.flag("deleted"), LocalSeq: q.flag("local_seq"), RevsInfo: meta || q.flag("revs_info"),
		Conflicts: meta || q.flag("conflicts"), DeletedConflicts: meta || q.flag("deleted_conflicts"),
	}
	if q.Query.Has("rev") && !q.flag("latest") {
		rev, err := docs.ParseRev(q.Query.Get("rev"))
		want.Rev = rev
		return want, err
	}
	return want, nil
}

// shown is how documents are written to the client.
type shown struct {
	revisions, encodings bool
	attachments          bool                 // with their bytes
	since                map[revtree.Rev]bool // without the bytes of attachments that any of these has
}

func (q *request) shown() (shown, error) {
	since, err := q.revs("atts_since")
	attachments := q.flag("attachments") || since != nil
	return shown{q.flag("revs"), q.flag("att_encoding_info"), attachments, setOf(since)}, err
}

// setOf is for revisions that are looked up for each ancestor of each document: there may be many of either.
func setOf(revs []revtree.Rev) map[revtree.Rev]bool {
	set := map[revtree.Rev]bool{}
	for _, rev := range revs {
		set[rev] = true
	}
	return set
}

// mark says of each attachment whether its bytes are sent, as content, and whether any are.
func (s *shown) mark(d *docs.Document, content docs.Content) bool {
	base, rev := int64(0), d.Rev // the newest generation that the client has
	for i := -1; base == 0 && i < len(d.Ancestors); i++ {
		if i >= 0 {
			rev = revtree.Rev{Gen: rev.Gen - 1, ID: d.Ancestors[i]}
		}
		if s.since[rev] {
			base = rev.Gen
		}
	}
	any := false
	for i := range d.Attachments {
		if a := &d.Attachments[i]; s.attachments && (base == 0 || a.RevPos > base) {
			a.Content, any = content, true
		}
	}
	return any
}

// sendDocument answers with one document: with attachments as multipart/related if the client takes
// that, else as JSON.
func (q *request) sendDocument(d *docs.Document, s shown) error {
	if q.accepts("multipart/related") && s.mark(d, docs.Follows) {
		return q.sendRelated(d, s)
	}
	s.mark(d, docs.Inline)
	q.Begin(http.StatusOK, "application/json")
	if q.Method == http.MethodHead {
		return nil
	}
	if err := q.writeDocument(q.W, d, s); err != nil {
		return err
	}
	_, err := q.W.Write([]byte("\n"))
	return err
}

// parse reads a document that a client sent.
func (q *request) parse(raw []byte) (*docs.Document, error) {
	d, err := docs.ParseDocument(raw, q.Members...)
	if err == nil {
		err = q.HoldParsed(raw)
	}
	if err != nil {
		return nil, err
	}
	if int64(len(d.Body)) > q.Limits.Document {
		return nil, &web.Error{Status: 413, Name: "document_too_large", Reason: d.ID}
	}
	return d, nil
}

// putDocument writes a document under the id in the path.
func (q *request) putDocument() error {
	if err := docs.ValidID(q.id); err != nil {
		return err
	}
	d, uploads, err := q.receiveDocument()
	defer q.discard(uploads)
	if err != nil {
		return err
	}
	d.ID = q.id
	rev, err := q.rev()
	if err != nil {
		return err
	}
	if !rev.IsZero() && !d.Rev.IsZero() && rev != d.Rev {
		return web.BadRequest("Document rev from request body and query string have different values")
	}
	if d.Rev.IsZero() {
		d.Rev = rev
	}
	status := http.StatusCreated
	if d.Deleted {
		status = http.StatusOK
	}
	replicated := q.Query.Get("new_edits") == "false"
	return q.putEdit(status, docs.Edit{Document: *d, Replicated: replicated, Token: newToken()})
}

func (q *request) putEdit(status int, e docs.Edit) error {
	w, err := q.updateOne(e)
	if err != nil {
		return err
	}
	q.location(q.database, w.ID)
	q.W.Header().Set("ETag", `"`+w.Rev.String()+`"`)
	return q.written(status, w)
}

// receiveDocument reads the document of a PUT, with its attachments when it is multipart/related.
// What was uploaded is returned even with an error.
func (q *request) receiveDocument() (*docs.Document, []*docs.Upload, error) {
	boundary, related := q.boundary()
	if related {
		return q.receiveRelated(boundary)
	}
	raw, err := q.readBody()
	if err != nil {
		return nil, nil, err
	}
	d, err := q.parse(raw)
	if err != nil {
		return nil, nil, err
	}
	uploads, err := q.spool(d, docs.MaxInline)
	return d, uploads, err
}

// postDocument writes a document under the id in its body, or a new one.
func (q *request) postDocument() error {
	raw, err := q.jsonBody()
	if err != nil {
		return err
	}
	d, err := q.parse(raw)
	if err != nil {
		return err
	}
	if d.ID == "" {
		d.ID, d.Rev = newID(), revtree.Rev{}
	}
	uploads, err := q.spool(d, docs.MaxInline)
	defer q.discard(uploads)
	if err != nil {
		return err
	}
	return q.putEdit(http.StatusCreated, docs.Edit{Document: *d, Token: newToken()})
}

// deleteDocument replaces a leaf by a tombstone.
func (q *request) deleteDocument() error {
	d, err := do(q, func(_ kv.Tx, db *docs.Database) (*docs.Document, error) {
		return db.Read(q.id, docs.Want{})
	})
	if _, err = q.mayKnow(q, d, err); err != nil {
		return err
	}
	rev, err := q.rev()
	if err != nil {
		return err
	}
	tombstone := docs.Document{ID: q.id, Rev: rev, Deleted: true, Body: []byte("{}")}
	w, err := q.updateOne(docs.Edit{Document: tombstone, Token: newToken()})
	if err != nil {
		return err
	}
	q.W.Header().Set("ETag", `"`+w.Rev.String()+`"`)
	return q.written(http.StatusOK, w)
}
