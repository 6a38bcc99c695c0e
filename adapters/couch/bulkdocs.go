package couch

import (
	"context"
	"io"
	"net/http"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// writeDocs writes kept documents in one request. The bodies are sent from where they are kept, not copied
// into one. The answer lists refusals; some servers list the documents that they wrote as well.
func (p *Pair) writeDocs(ctx context.Context, op peer.WriteDocs) (peer.Written, *peer.Failure) {
	r := request{method: http.MethodPost, path: "_bulk_docs", header: []peer.Param{jsonBody, delayCommit}}
	docs := p.bodies(op.Docs)
	if docs == nil {
		return peer.Written{}, p.target.failure(r, peer.Cancelled, "a document to write is no longer kept")
	}
	pieces := bulkDocsBody(docs)
	for _, piece := range pieces {
		r.size += int64(len(piece))
	}
	r.open = func() io.Reader { return &pieceReader{pieces: pieces} }
	if op.Gzip {
		r = r.gzipBody()
	}
	// 202 means that fewer nodes of the target's cluster than its quorum have the documents by now; the
	// cluster brings them to the others. 417 means that some documents were refused.
	a, f := p.target.ask(ctx, r,
		http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusExpectationFailed)
	if f != nil {
		return peer.Written{}, f
	}
	s := newStream(a)
	var w peer.Written
	err := s.array(func(i int) error {
		s.allow(maxItem)
		if i == len(docs) {
			return malformed("answered about more documents than it was sent")
		}
		refusal, err := s.verdict()
		if refusal.Error != "" {
			refusal.Error, refusal.Reason = p.target.words(refusal.Error), p.target.words(refusal.Reason)
			w.Refused = append(w.Refused, refusal)
		}
		return err
	})
	if err == nil {
		err = s.end()
	}
	if err == nil && a.StatusCode == http.StatusExpectationFailed && len(w.Refused) == 0 {
		err = malformed("answered that it refused documents, but not which")
	}
	if err != nil {
		defer a.close()
		return peer.Written{}, a.broken(err)
	}
	a.finish()
	return w, nil
}

// bulkDocsBody returns the pieces that make up the body of a request. The documents among them are not
// copied.
func bulkDocsBody(docs [][]byte) [][]byte {
	pieces := make([][]byte, 0, 2*len(docs)+2)
	pieces = append(pieces, []byte(`{"new_edits":false,"docs":[`))
	comma := []byte{','}
	for i, doc := range docs {
		if i > 0 {
			pieces = append(pieces, comma)
		}
		pieces = append(pieces, doc)
	}
	return append(pieces, []byte(`]}`))
}

// verdict reads the server's answer for one document. The refusal has an empty Error if the document was
// written. An object that says neither is malformed: taken for a success, it could lose the document.
func (s *stream) verdict() (r peer.Refusal, err error) {
	if s.PeekKind() != jsontext.KindBeginObject {
		return r, malformed("answered something else than an object for a document")
	}
	written := false
	err = s.object(func(name string) (err error) {
		switch name {
		case "ok":
			written = written || s.PeekKind() == jsontext.KindTrue
			err = s.SkipValue()
		case "id":
			r.ID, _, err = s.text()
		case "rev":
			r.Rev, _, err = s.text()
		case "error":
			is := false
			if r.Error, is, err = s.text(); !is || r.Error == "" {
				r.Error = "error"
			}
		case "reason":
			r.Reason, _, err = s.text()
		default:
			err = s.SkipValue()
		}
		return err
	})
	if err == nil && r.Error == "" && !written && r.Rev == "" {
		err = malformed("answered neither that a document was written nor why not")
	}
	return r, err
}

// pieceReader reads the concatenation of pieces.
type pieceReader struct {
	pieces [][]byte // those not read to their end
	at     int      // offset in the first of pieces
}

func (r *pieceReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.pieces) > 0 {
		copied := copy(p[n:], r.pieces[0][r.at:])
		n += copied
		if r.at += copied; r.at == len(r.pieces[0]) {
			r.pieces, r.at = r.pieces[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
