package couch

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// readArray reads the answer of a server that knows no multipart, [{"ok": doc}, {"missing": rev}], and copies
// its revisions. Their attachments are stubs, whatever the request said, and are fetched one by one.
func (c *copying) readArray(a *answer) error {
	s := newStream(a)
	err := s.array(func(int) error {
		if c.parts--; c.parts < 0 {
			return malformed("answered with many more revisions than it was asked for")
		}
		s.allow(maxDoc)
		raw, err := s.ReadValue()
		if err != nil {
			return err
		}
		// The attachments that a refusal leaves unread come in other answers, so this one goes on.
		if err = c.arrayElement(raw); err == errRefused {
			err = nil
		}
		return err
	})
	if err == nil {
		err = s.end()
	}
	return err
}

// arrayElement copies the revision in an element, and does not keep raw, which the next element overwrites. Attachments
// that came with a revision which the target has stay stubs.
func (c *copying) arrayElement(raw []byte) error {
	inner := okMember(raw)
	if inner == nil {
		if missingRev(raw) == "" {
			return malformed("answered neither a document nor that it is missing")
		}
		return c.element(raw)
	}
	doc, err := c.scan(inner)
	if err != nil {
		return err
	}
	attachments, err := readLone(doc)
	if err != nil {
		return err
	}
	known := doc.newestOf(c.op.Since)
	for i := range attachments {
		att := &attachments[i]
		att.follows = att.stub && (att.revpos > known || att.revpos < 1)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	fetcher := &fetcher{copying: c, ctx: ctx, rev: doc.rev}
	err = c.putRelated(doc, attachments, fetcher.open, cancel)
	fetcher.close()
	return err
}

// okMember returns the document in {"ok": doc}, nil for any other value.
func okMember(raw []byte) (doc []byte) {
	s := newStream(bytes.NewReader(raw))
	s.allow(len(raw) + 1)
	if s.PeekKind() != jsontext.KindBeginObject {
		return nil
	}
	_ = s.object(func(name string) error {
		v, err := s.ReadValue()
		if name == "ok" && v.Kind() == jsontext.KindBeginObject {
			doc = v.Clone()
		}
		return err
	})
	return doc
}

// fetcher gets the attachments of a revision from the source, one request each. The requests use the slot
// that the copying holds, so at most one is in flight.
type fetcher struct {
	copying *copying
	ctx     context.Context // ends when the target has refused the revision
	rev     string
	answer  *answer // with the attachment opened last, nil before the first and after close
}

// open ends the previous attachment and asks for the next. The fetcher itself is the reader of its bytes.
func (f *fetcher) open(att attachment) (io.Reader, error) {
	f.close()
	encoding := "identity"
	if att.encoding != "" {
		encoding = att.encoding
	}
	a, failure := f.copying.pair.source.ask(f.ctx, request{
		method: http.MethodGet, path: escapeID(f.copying.op.ID) + "/" + escape(att.name), admitted: true,
		query: encodeQuery(peer.Param{Name: "rev", Value: f.rev}),
		header: []peer.Param{
			{Name: "Accept", Value: "*/*"},
			{Name: "Accept-Encoding", Value: encoding}, // the bytes as they are stored
		},
	}, http.StatusOK)
	if failure != nil {
		return nil, failedWith{failure}
	}
	f.answer = a
	return f, nil
}

// Read reads the attachment that was opened last.
func (f *fetcher) Read(p []byte) (int, error) {
	n, err := f.answer.Read(p)
	if err != nil && err != io.EOF {
		err = failedWith{f.answer.broken(err)}
	}
	return n, err
}

// close ends the attachment opened last, if there is one.
func (f *fetcher) close() {
	if f.answer != nil {
		f.answer.finish()
		f.answer = nil
	}
}
