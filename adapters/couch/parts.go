package couch

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"slices"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// manyFor bounds how many documents an answer may have when it was asked for n: latest=true lets
// several newer ones come for one that was asked for.
func manyFor(n int) int { return 4*n + 100 }

// readParts reads a multipart/mixed answer: a part for each revision.
func (c *copying) readParts(a *answer, mixed *multipart.Reader) error {
	for {
		// This also reads over what the target did not take of the part before.
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

func (c *copying) readPart(a *answer, part *multipart.Part) error {
	if c.parts--; c.parts < 0 {
		return malformed("answered with many more revisions than it was asked for")
	}
	kind, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if kind == "multipart/related" {
		return c.readRelated(a, multipart.NewReader(part, params["boundary"]))
	}
	raw, err := readDoc(part)
	if err != nil {
		return err
	}
	return c.element(raw)
}

// element deals with a document that nothing follows, or with {"missing": rev}.
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

// readLone reads the attachments of a document that nothing follows. One that says otherwise would have
// the target wait for bytes, or take the attachment for empty.
func readLone(doc document) ([]attachment, error) {
	attachments, err := readAttachments(doc.attachments)
	for _, att := range attachments {
		if att.follows {
			return nil, notFollowing(att)
		}
	}
	return attachments, err
}

func notFollowing(att attachment) error {
	return malformedf("attachment %q is announced but does not follow", clip(att.name, 100))
}

// readRelated reads a part with a document and the attachments that follow it.
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
	open := func(att attachment) (io.Reader, error) {
		part, err := related.NextRawPart()
		if err == io.EOF {
			err = notFollowing(att)
		}
		return part, err
	}
	return c.putRelated(doc, attachments, open, func() { a.cancel(errRefused) })
}

// readDoc reads the JSON of a document.
func readDoc(from io.Reader) ([]byte, error) {
	s := newStream(from)
	s.allow(maxDoc)
	raw, err := s.ReadValue()
	if err == io.EOF {
		return nil, malformed("answered an empty part")
	}
	return raw, err
}

// missingRev is the revision of {"missing": rev}, empty for anything else.
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
