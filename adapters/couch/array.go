package couch

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// readArray reads the answer of a server that knows no multipart: [{"ok": doc}, {"missing": rev}]. Its
// attachments are stubs, whatever was asked for, and are fetched one by one.
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
		// What the target did not take came in answers of its own, so this one goes on.
		if err = c.arrayElement(raw.Clone()); err == errRefused {
			err = nil
		}
		return err
	})
	if err == nil {
		err = s.end()
	}
	return err
}

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

// okMember is the document in {"ok": doc}, nil for anything else.
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

// fetcher gets the attachments of a revision by a request each, under the slot that the copying holds.
type fetcher struct {
	copying *copying
	ctx     context.Context
	rev     string
	now     *answer // that is being read
}

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
	f.now = a
	return f, nil
}

// Read reads the attachment that was opened last.
func (f *fetcher) Read(p []byte) (int, error) {
	n, err := f.now.Read(p)
	if err != nil && err != io.EOF {
		err = failedWith{f.now.broken(err)}
	}
	return n, err
}

func (f *fetcher) close() {
	if f.now != nil {
		f.now.finish()
		f.now = nil
	}
}
