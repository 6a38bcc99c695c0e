package couchdb

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

// copyDocument writes what the client may see of a document under another id, which the header Destination names, with
// the revision that is replaced there: NAME?rev=REV. The bytes of attachments are copied.
func copyDocument(q *request) error {
	id, rev, err := destination(q.Header.Get("Destination"))
	if err != nil {
		return err
	}
	want := docs.Want{}
	if q.Query.Has("rev") {
		if want.Rev, err = docs.ParseRev(q.Query.Get("rev")); err != nil {
			return err
		}
	}
	d, err := do(q, func(_ kv.Tx, db *docs.Database) (*docs.Document, error) { return db.Read(q.id, want) })
	if err == nil {
		d, err = q.view(q, d)
	}
	if err != nil {
		return err
	}
	if err := docs.ValidID(id); err != nil {
		return err
	}
	if len(d.Attachments) > 0 && docs.IsLocal(id) {
		return web.BadRequest("_local documents do not accept attachments.")
	}
	twin := docs.Document{ID: id, Rev: rev, Body: d.Body}
	var uploads []*docs.Upload
	defer func() { q.discard(uploads) }()
	for i := range d.Attachments {
		a := d.Attachments[i]
		bytes := &copied{Reader: q.stored(&d.Attachments[i])}
		u, err := q.upload(&a, bytes)
		if uploads = append(uploads, u); err != nil {
			return cmp.Or(bytes.err, err)
		}
		twin.Attachments = append(twin.Attachments, a)
	}
	q.Note("to", id)
	return q.putEdit(http.StatusCreated, docs.Edit{Document: twin, Kept: true, Token: newToken()})
}

// copied is a reader that keeps the error with which it ended.
type copied struct {
	io.Reader
	err error
}

func (n *copied) Read(p []byte) (int, error) {
	size, err := n.Reader.Read(p)
	if !errors.Is(err, io.EOF) {
		n.err = err
	}
	return size, err
}

// destination reads the header of a copy: an id as in a path, and the revision that it has now.
func destination(text string) (id string, rev revtree.Rev, err error) {
	switch {
	case text == "":
		return "", rev, web.BadRequest("Destination header is mandatory for COPY.")
	case strings.HasPrefix(text, "http://"), strings.HasPrefix(text, "https://"):
		return "", rev, web.BadRequest("Destination URL must be relative.")
	}
	name, query, asked := strings.Cut(text, "?")
	if id, err = url.PathUnescape(strings.ReplaceAll(name, "+", "%20")); err != nil {
		return "", rev, web.BadRequest("Destination has a malformed escape")
	}
	if !asked {
		return id, rev, nil
	}
	given, is := strings.CutPrefix(query, "rev=")
	if !is {
		return "", rev, web.BadRequest("Destination may have ?rev=REVISION and no other parameter")
	}
	rev, err = docs.ParseRev(given)
	return id, rev, err
}
