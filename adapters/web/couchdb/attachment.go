package couchdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

// readSize is how much of an attachment one transaction reads.
const readSize = 1 << 20

// blobReader reads an attachment's stored bytes, each part in a transaction of its own.
type blobReader struct {
	q      *request
	a      *docs.Attachment
	offset int64
	part   []byte
	failed error // of the store
}

func (r *blobReader) Read(p []byte) (int, error) {
	if len(r.part) == 0 {
		part, err := do(r.q, func(_ kv.Tx, db *docs.Database) ([]byte, error) {
			return db.ReadAttachment(r.a, r.offset, readSize)
		})
		if err != nil {
			r.failed = err
			return 0, err
		}
		if len(part) == 0 {
			return 0, io.EOF
		}
		r.part, r.offset = part, r.offset+int64(len(part))
	}
	n := copy(p, r.part)
	r.part = r.part[n:]
	return n, nil
}

// stored reads an attachment as it is stored.
func (q *request) stored(a *docs.Attachment) *blobReader {
	return &blobReader{q: q, a: a}
}

// decoded reads an attachment without its encoding. Bytes that do not have the encoding which their writer named, as a
// CouchDB stores them, too, are read as they are: they must not cut off an answer that has other documents. So they are
// looked through first.
func (q *request) decoded(a *docs.Attachment) (io.Reader, error) {
	if a.Encoding == "" {
		return q.stored(a), nil
	}
	looked := q.stored(a)
	unpacked, err := gzip.NewReader(looked)
	if err == nil {
		_, err = io.Copy(io.Discard, unpacked)
	}
	switch {
	case looked.failed != nil:
		return nil, looked.failed
	case err != nil:
		return q.stored(a), nil
	}
	return gzip.NewReader(q.stored(a))
}

// writeDocument writes a document as JSON, streaming the attachments that are marked as inline.
func (q *request) writeDocument(w io.Writer, d *docs.Document, s shown) error {
	var failed error
	inline := func(dst []byte, a *docs.Attachment) []byte {
		if failed == nil {
			failed = q.writeInline(w, dst, a)
		}
		return dst[:0]
	}
	text := d.AppendJSON(nil, docs.Format{Revisions: s.revisions, Encodings: s.encodings, Inline: inline})
	if failed != nil {
		return failed
	}
	_, err := w.Write(text)
	return err
}

// writeInline writes the text before an attachment and the attachment in base64.
func (q *request) writeInline(w io.Writer, before []byte, a *docs.Attachment) error {
	if _, err := w.Write(before); err != nil {
		return err
	}
	r, err := q.decoded(a)
	if err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := io.Copy(encoder, r); err != nil {
		return err
	}
	return encoder.Close()
}

// smallAttachment is up to how many bytes an attachment is written in its document's transaction.
const smallAttachment = 1 << 16

// receive reads an attachment's bytes from r to its end. They stay in memory when they are few and there
// is room for them in the document's transaction, and are uploaded otherwise. What was uploaded is
// returned even with an error.
func (q *request) receive(a *docs.Attachment, r io.Reader, room int) (*docs.Upload, error) {
	first := make([]byte, smallAttachment)
	n := 0
	var err error
	for n < len(first) && err == nil {
		var more int
		more, err = r.Read(first[n:])
		n += more
	}
	if errors.Is(err, io.EOF) && n <= room && int64(n) <= q.Limits.Attachment {
		a.Content, a.Data = docs.Inline, first[:n:n]
		return nil, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, web.ReadError(err)
	}
	return q.upload(a, io.MultiReader(bytes.NewReader(first[:n]), r))
}

// upload brings an attachment's bytes into the store. The upload is returned even with an error.
func (q *request) upload(a *docs.Attachment, r io.Reader) (*docs.Upload, error) {
	u := docs.NewUpload(newUUID())
	buffer := make([]byte, smallAttachment)
	for {
		n, err := r.Read(buffer)
		_, _ = u.Write(buffer[:n])
		switch {
		case u.Length() > q.Limits.Attachment:
			return u, &web.Error{Status: 413, Name: "attachment_too_large", Reason: a.Name}
		case errors.Is(err, io.EOF):
			u.Finish()
			a.Content, a.Data, a.Upload = docs.Uploaded, nil, u
			return u, q.store(u)
		case err != nil:
			return u, web.ReadError(err)
		case u.Ready():
			if err := q.store(u); err != nil {
				return u, err
			}
		}
	}
}

func (q *request) store(u *docs.Upload) error {
	_, err := do(q, func(_ kv.Tx, db *docs.Database) (struct{}, error) {
		return struct{}{}, db.StoreUpload(u, q.now())
	})
	if err == nil {
		u.Stored()
	}
	return err
}

// discard removes uploads that no document took. It does its work even when the client has gone, but the
// answer to one that has not must not wait long for it.
func (q *request) discard(uploads []*docs.Upload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), discardTime)
	defer cancel()
	for _, u := range uploads {
		// An upload that stays is swept up later.
		_ = kv.Do(ctx, q.Store, func(tx kv.Tx) error {
			db, err := q.Docs.Open(tx, q.database)
			if err != nil {
				return err
			}
			return db.DiscardUpload(u)
		})
	}
}

// discardTime bounds the removal of uploads after a request.
const discardTime = 2 * time.Second

// spool uploads those inline attachments that are too many bytes for the document's transaction.
func (q *request) spool(d *docs.Document, room int) (uploads []*docs.Upload, err error) {
	for i := range d.Attachments {
		a := &d.Attachments[i]
		if a.Content != docs.Inline {
			continue
		}
		if len(a.Data) <= min(room, smallAttachment) {
			room -= len(a.Data)
			continue
		}
		u, err := q.upload(a, bytes.NewReader(a.Data))
		uploads = append(uploads, u)
		if err != nil {
			return uploads, err
		}
	}
	return uploads, nil
}

// find is the document's attachment that the path names.
func (q *request) find(d *docs.Document) (int, error) {
	for i := range d.Attachments {
		if d.Attachments[i].Name == q.attachment {
			return i, nil
		}
	}
	return -1, &web.Error{Status: 404, Name: "not_found", Reason: "Document is missing attachment"}
}

func (q *request) getAttachment() error {
	rev, err := q.rev()
	if err != nil {
		return err
	}
	d, err := do(q, func(_ kv.Tx, db *docs.Database) (*docs.Document, error) {
		return db.Read(q.id, docs.Want{Rev: rev})
	})
	if err == nil {
		d, err = q.view(q, d)
	}
	if err != nil {
		return err
	}
	i, err := q.find(d)
	if err != nil {
		return err
	}
	a := &d.Attachments[i]
	q.W.Header().Set("Accept-Ranges", "none")
	q.W.Header().Set("Content-Security-Policy", "sandbox")
	if q.Unchanged(`"` + strings.TrimPrefix(a.DigestText(), "md5-") + `"`) {
		return nil
	}
	var body io.Reader = q.stored(a)
	if plain := a.Encoding == ""; plain || q.acceptsEncoding(a.Encoding) {
		if !plain {
			q.W.Header().Set("Content-Encoding", a.Encoding)
		}
		q.W.Header().Set("Content-Length", strconv.FormatInt(a.Size(), 10))
	} else if q.Method != http.MethodHead { // the client that wrote the attachment may have given a wrong length
		if body, err = q.decoded(a); err != nil {
			return err
		}
	}
	q.Begin(http.StatusOK, headerText(a.Type))
	if q.Method == http.MethodHead {
		return nil
	}
	_, err = io.Copy(q.W, body)
	return err
}

func (q *request) acceptsEncoding(encoding string) bool {
	for entry := range strings.SplitSeq(q.Header.Get("Accept-Encoding"), ",") {
		name, _, _ := strings.Cut(entry, ";")
		if name = strings.TrimSpace(name); strings.EqualFold(name, encoding) {
			return !strings.Contains(strings.ReplaceAll(entry, " ", ""), ";q=0") || strings.Contains(entry, "q=0.")
		}
	}
	return false
}

// putAttachment replaces one attachment of a document, which need not exist, by the request's body.
func (q *request) putAttachment() error {
	if err := docs.ValidAttachmentName(q.attachment); err != nil {
		return err
	}
	if err := docs.ValidID(q.id); err != nil {
		return err
	}
	a := docs.Attachment{Name: q.attachment, Type: q.Header.Get("Content-Type")}
	if a.Type == "" {
		a.Type = "application/octet-stream"
	}
	switch encoding := strings.ToLower(strings.TrimSpace(q.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip":
		a.Encoding = encoding
	default:
		return web.ErrEncoding
	}
	d, err := q.edited()
	if err != nil {
		return err
	}
	if q.ContentLength > q.Limits.Attachment {
		return &web.Error{Status: 413, Name: "attachment_too_large", Reason: a.Name}
	}
	u, err := q.receive(&a, q.Body, docs.MaxInline)
	if u != nil {
		defer q.discard([]*docs.Upload{u})
	}
	if err != nil {
		return err
	}
	if i, err := q.find(d); err == nil {
		d.Attachments[i] = a
	} else {
		d.Attachments = append(d.Attachments, a)
	}
	w, err := q.updateOne(docs.Edit{Document: *d, Kept: true, Token: newToken()})
	if err != nil {
		return err
	}
	q.location(q.database, q.id, q.attachment)
	return q.written(http.StatusCreated, w)
}

// edited is the document that an attachment's write is an edit of.
func (q *request) edited() (*docs.Document, error) {
	rev, err := q.rev()
	if err != nil {
		return nil, err
	}
	if rev.IsZero() { // a new document, or a conflict
		return &docs.Document{ID: q.id, Body: []byte("{}")}, nil
	}
	d, err := do(q, func(_ kv.Tx, db *docs.Database) (*docs.Document, error) {
		return db.Read(q.id, docs.Want{Rev: rev})
	})
	d, err = q.mayKnow(q, d, err)
	if errors.Is(err, docs.ErrMissing) {
		return nil, docs.ErrConflict
	}
	if err == nil {
		d.Ancestors, d.Deleted = nil, false
	}
	return d, err
}

func (q *request) deleteAttachment() error {
	rev, err := q.rev()
	if err != nil {
		return err
	}
	d, err := do(q, func(_ kv.Tx, db *docs.Database) (*docs.Document, error) {
		return db.Read(q.id, docs.Want{Rev: rev})
	})
	d, err = q.mayKnow(q, d, err)
	if errors.Is(err, docs.ErrMissing) && !rev.IsZero() {
		return docs.ErrConflict
	}
	if err != nil {
		return err
	}
	i, err := q.find(d)
	if err != nil {
		return err
	}
	d.Attachments = append(d.Attachments[:i], d.Attachments[i+1:]...)
	if d.Ancestors = nil; rev.IsZero() {
		d.Rev = revtree.Rev{} // the client has to name the revision that it changes
	}
	w, err := q.updateOne(docs.Edit{Document: *d, Kept: true, Token: newToken()})
	if err != nil {
		return err
	}
	return q.written(http.StatusOK, w)
}
