package couchdb

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"

	"couchrelay/adapters/partheader"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
)

// boundary returns the boundary of a multipart/related request, and whether it is one.
func (q *request) boundary() (boundary string, related bool) {
	kind, params, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	return params["boundary"], err == nil && kind == "multipart/related"
}

// receiveRelated reads a document and behind it, in the order in which the document has them, the
// attachments that follow. What was uploaded is returned even with an error.
func (q *request) receiveRelated(boundary string) (d *docs.Document, uploads []*docs.Upload, err error) {
	if boundary == "" {
		return nil, nil, web.BadRequest("multipart/related needs a boundary")
	}
	parts := multipart.NewReader(partheader.NewReader(q.Body, boundary), boundary)
	first, err := parts.NextRawPart()
	if err != nil {
		return nil, nil, web.ReadError(err)
	}
	raw, err := q.ReadPart(first, q.Limits.Request)
	if err != nil {
		return nil, nil, err
	}
	if d, err = q.parse(raw); err != nil {
		return nil, nil, err
	}
	room := docs.MaxInline / 2 // for inline attachments of the document, and as much for those that follow
	if uploads, err = q.spool(d, room); err != nil {
		return d, uploads, err
	}
	for i := range d.Attachments {
		a := &d.Attachments[i]
		if a.Content != docs.Follows {
			continue
		}
		part, err := parts.NextRawPart()
		if err != nil {
			return d, uploads, web.ReadError(err)
		}
		u, err := q.receivePart(a, part, room)
		if u != nil {
			uploads = append(uploads, u)
		}
		if err != nil {
			return d, uploads, err
		}
		room -= len(a.Data) // nothing when it was uploaded
	}
	if _, err := parts.NextRawPart(); !errors.Is(err, io.EOF) {
		if err == nil {
			return d, uploads, web.BadRequest("there are more parts than attachments that follow")
		}
		return d, uploads, web.ReadError(err)
	}
	return d, uploads, nil
}

// receivePart reads the bytes of an attachment that follows, which must be as many as it says.
func (q *request) receivePart(a *docs.Attachment, part io.Reader, room int) (*docs.Upload, error) {
	size := a.Size()
	if size > q.Limits.Attachment {
		return nil, &web.Error{Status: 413, Name: "attachment_too_large", Reason: a.Name}
	}
	counted := &counter{Reader: io.LimitReader(part, size+1)}
	u, err := q.receive(a, counted, room)
	switch {
	case err != nil:
		return u, err
	case counted.n < size:
		return u, web.BadRequest("attachment shorter than expected")
	case counted.n > size:
		return u, web.BadRequest("attachment longer than expected")
	}
	return u, nil
}

type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// sendRelated answers with a document and the attachments that are marked to follow.
func (q *request) sendRelated(d *docs.Document, s shown) error {
	r := q.related(d, s)
	q.W.Header().Set("Content-Length", strconv.FormatInt(r.length(), 10))
	q.Begin(http.StatusOK, r.contentType())
	if q.Method == http.MethodHead {
		return nil
	}
	return r.write(q.W)
}

// related is a document as multipart/related: the document as JSON, then the attachments.
type related struct {
	q        *request
	boundary string
	json     []byte
	parts    []relatedPart
}

type relatedPart struct {
	header     string
	attachment *docs.Attachment
}

func (q *request) related(d *docs.Document, s shown) *related {
	r := &related{q: q, boundary: hex.EncodeToString(random(16))}
	r.json = d.AppendJSON(nil, docs.Format{Revisions: s.revisions, Encodings: true})
	for i := range d.Attachments {
		a := &d.Attachments[i]
		if a.Content != docs.Follows {
			continue
		}
		name := strings.ReplaceAll(headerText(a.Name), `"`, "_")
		header := fmt.Sprintf("\r\nContent-Disposition: attachment; filename=\"%s\"\r\n", name)
		header += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d", headerText(a.Type), a.Size())
		if a.Encoding != "" {
			header += "\r\nContent-Encoding: " + a.Encoding
		}
		r.parts = append(r.parts, relatedPart{header + "\r\n\r\n", a})
	}
	return r
}

// headerText makes text safe inside a header.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, s)
}

func (r *related) contentType() string { return `multipart/related; boundary="` + r.boundary + `"` }

func (r *related) head() string {
	return "--" + r.boundary + "\r\nContent-Type: application/json\r\n\r\n"
}

func (r *related) delimiter() string { return "\r\n--" + r.boundary }

func (r *related) length() int64 {
	n := int64(len(r.head()) + len(r.json) + len(r.delimiter()) + len("--"))
	for _, p := range r.parts {
		n += int64(len(p.header)+len(r.delimiter())) + p.attachment.Size()
	}
	return n
}

func (r *related) write(w io.Writer) error {
	if _, err := io.WriteString(w, r.head()+string(r.json)+r.delimiter()); err != nil {
		return err
	}
	for _, p := range r.parts {
		if _, err := io.WriteString(w, p.header); err != nil {
			return err
		}
		if _, err := io.Copy(w, r.q.stored(p.attachment)); err != nil {
			return err
		}
		if _, err := io.WriteString(w, r.delimiter()); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "--")
	return err
}
