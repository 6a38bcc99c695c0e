package couch

import (
	"bytes"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"couchrelay/adapters/partheader"
	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// manyFor returns how many documents an answer may have to a question for n. There may be more than n,
// because with latest=true several newer revisions may replace one; the bound stops an answer without end.
func manyFor(n int) int { return 4*n + 100 }

// readParts reads a multipart/mixed answer, which has a part for each revision, and copies each.
func (c *copying) readParts(a *answer, mixed *multipart.Reader) error {
	for {
		// NextRawPart skips what is left of the part before, if the target refused it half-way.
		part, err := mixed.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.readPart(a, part); err != nil && (err != errRefused || len(c.waiting) == 0) {
			return err
		}
	}
}

// readPart copies the revision in a part: a document, one with attachments (multipart/related), or word that
// it is missing.
func (c *copying) readPart(a *answer, part *multipart.Part) error {
	if c.parts--; c.parts < 0 {
		return malformed("answered with many more revisions than it was asked for")
	}
	kind, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if kind == "multipart/related" {
		b := params["boundary"]
		return c.readRelated(a, multipart.NewReader(partheader.NewReader(part, b), b))
	}
	raw, err := readDoc(part)
	if err != nil {
		return err
	}
	return c.element(raw)
}

// element copies a document that nothing follows, or notes a revision from {"missing": rev}.
func (c *copying) element(raw []byte) error {
	if rev := missingRev(raw); rev != "" {
		c.waiting = slices.DeleteFunc(c.waiting, func(asked string) bool { return asked == rev })
		c.out.Revs = append(c.out.Revs, peer.CopiedRev{Rev: rev, Missing: true})
		return nil
	}
	doc, err := c.scan(raw)
	if err == nil && doc.hasAttachments() {
		_, err = readLone(doc)
	}
	if err != nil {
		return err
	}
	return c.put(doc, plain(doc))
}

// readLone reads the attachments of a document that nothing follows, and fails if one says "follows". The
// target would wait for its bytes, or store an empty attachment.
func readLone(doc document) ([]attachment, error) {
	attachments, err := readAttachments(doc.attachments)
	for _, att := range attachments {
		if att.follows {
			return nil, notFollowing(att)
		}
	}
	return attachments, err
}

// notFollowing returns the error for an attachment whose bytes are announced and not sent.
func notFollowing(att attachment) error {
	return malformedf("attachment %q is announced but does not follow", clip(att.name, 100))
}

// readRelated copies the revision in a multipart/related part: a document and the attachments that follow it,
// which go on to the target as they come.
func (c *copying) readRelated(a *answer, related *multipart.Reader) error {
	part, err := related.NextRawPart()
	if err == io.EOF {
		return malformed("answered a part without a document")
	}
	if err != nil {
		return err
	}
	raw, err := readDoc(part)
	if err != nil {
		return err
	}
	doc, err := c.scan(raw)
	if err != nil {
		return err
	}
	attachments, err := readAttachments(doc.attachments)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	alone := &fetcher{copying: c, ctx: ctx, rev: doc.rev}
	defer alone.close()
	oneByOne, sent := slices.ContainsFunc(attachments, breaksHeader), map[string]bool{}
	for _, att := range attachments {
		sent[att.name] = sent[att.name] || att.follows
	}
	open := func(att attachment) (io.Reader, error) {
		if oneByOne {
			return alone.open(att)
		}
		part, err := related.NextRawPart()
		switch {
		case err == io.EOF:
			err = notFollowing(att)
		case err == nil && isOfAnother(part, att, sent):
			oneByOne = true
			return alone.open(att)
		}
		return part, err
	}
	interrupt := func() {
		a.cancel(errRefused)
		cancel()
	}
	return c.putRelated(doc, attachments, open, interrupt)
}

// breaksHeader reports whether the header of an attachment's part is unreadable: CouchDB writes the name and the type
// there as they are, also with a line end in them. Where the bytes begin is then unknown, so all attachments are
// fetched one by one.
func breaksHeader(att attachment) bool {
	return att.follows && (strings.Contains(att.name, "\r\n") || strings.Contains(att.contentType, "\r\n"))
}

// isOfAnother reports whether a part names another attachment than the expected one. Couchbase's Sync Gateway sends
// attachments in any order; they are then fetched one by one, since the target wants them in the order of the document.
// A name that no attachment of the document has proves nothing. Neither does the expected name as CouchDB writes it,
// without escaping quotes: read by the rules of MIME, it may be the name of another attachment. sent has the names of
// the attachments whose bytes are in the answer.
func isOfAnother(part *multipart.Part, att attachment, sent map[string]bool) bool {
	said := part.Header.Get("Content-Disposition")
	_, params, _ := mime.ParseMediaType(said)
	name := params["filename"]
	return name != att.name && said != `attachment; filename="`+att.name+`"` && sent[name]
}

// readDoc reads a part that is JSON, of up to maxDoc. Whether it is, shows when it is scanned. An answer that breaks
// off behind the JSON has brought it.
func readDoc(part io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(part, maxDoc+1))
	raw = bytes.TrimSpace(raw)
	switch {
	case err == nil && len(raw) > maxDoc:
		err = errTooLarge
	case err == nil && len(raw) == 0:
		err = malformed("answered an empty part")
	case err != nil && jsontext.Value(raw).IsValid(lenient...):
		err = nil
	}
	return raw, err
}

// missingRev returns the revision in {"missing": rev}, empty for any other value. A document may have a
// member "missing" too, but never as its only one.
func missingRev(raw []byte) (rev string) {
	s := newStream(bytes.NewReader(raw))
	s.allow(len(raw) + 1)
	if s.PeekKind() != jsontext.KindBeginObject {
		return ""
	}
	only := true
	_ = s.object(func(name string) (err error) {
		if name == "missing" {
			rev, _, err = s.text()
			return err
		}
		only = false
		return malformed("it is something else")
	})
	if !only {
		return ""
	}
	return rev
}
