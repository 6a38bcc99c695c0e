package couch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"couchrelay/core/peer"
)

// maxRead bounds a document that ReadDocs takes.
const maxRead = 16 << 20

// readDocs reads the winning revisions of documents in one request. Of a document that is too large it reads the
// revision alone.
func (p *Pair) readDocs(ctx context.Context, op peer.ReadDocs) (peer.DocsRead, *peer.Failure) {
	got, f, large := p.readRows(ctx, op, true)
	if large && len(got.Docs) == 0 {
		got, f, _ = p.readRows(ctx, peer.ReadDocs{IDs: op.IDs[:1]}, false)
		for i := range got.Docs {
			got.Docs[i].TooLarge = !got.Docs[i].Deleted
		}
	}
	return got, f
}

// readRows is one request of readDocs. A document that is too large, or nested too deep, ends it; large reports that.
func (p *Pair) readRows(ctx context.Context, op peer.ReadDocs, bodies bool) (
	got peer.DocsRead, f *peer.Failure, large bool,
) {
	r := request{method: http.MethodPost, path: "_all_docs"}
	if bodies {
		r.query = "include_docs=true"
	}
	r = r.posting(append(appendStrings([]byte(`{"keys":`), op.IDs), '}'))
	a, f := p.source.ask(ctx, r, http.StatusOK)
	if f != nil {
		return got, f, false
	}
	s := newStream(a)
	size, found := 0, false
	err := s.object(func(name string) error {
		if name != "rows" {
			return s.SkipValue()
		}
		found = true
		return s.array(func(i int) error {
			if i >= len(op.IDs) {
				return malformed("answered about more documents than it was asked for")
			}
			s.allow(maxRead)
			raw, err := s.ReadValue()
			if err != nil {
				return err
			}
			doc, err := readRow(raw, op.IDs[i])
			if err != nil {
				return err
			}
			got.Docs = append(got.Docs, doc)
			if size += len(raw); bodies && size >= op.Budget {
				return errBudget
			}
			return nil
		})
	})
	if err == nil {
		err = s.end()
	}
	switch {
	case errors.Is(err, errBudget):
		a.close()
		return got, nil, false
	case errors.Is(err, errTooLarge), isTooDeep(err):
		a.close()
		return got, nil, true
	case err == nil && (!found || len(got.Docs) < len(op.IDs)):
		err = malformed("answered about fewer documents than it was asked for")
	}
	if err != nil {
		defer a.close()
		return peer.DocsRead{}, a.broken(err), false
	}
	a.finish()
	return got, nil, false
}

// readRow reads a row of _all_docs about a document.
func readRow(raw []byte, id string) (peer.DocRead, error) {
	var row struct {
		Key   any             `json:"key"`
		Error any             `json:"error"`
		Value json.RawMessage `json:"value"`
		Doc   json.RawMessage `json:"doc"`
	}
	if json.Unmarshal(raw, &row) != nil || row.Key != id {
		return peer.DocRead{}, malformedf("answered something else than a row about document %q", clip(id, 60))
	}
	doc := peer.DocRead{ID: id}
	if row.Error == "not_found" {
		return doc, nil
	}
	var value struct {
		Rev     string `json:"rev"`
		Deleted bool   `json:"deleted"`
	}
	if json.Unmarshal(row.Value, &value) != nil || value.Rev == "" {
		return doc, malformedf("answered no revision of document %q", clip(id, 60))
	}
	doc.Rev, doc.Deleted = value.Rev, value.Deleted
	if len(row.Doc) > 0 && row.Doc[0] == '{' && !doc.Deleted {
		doc.Body = row.Doc
		var own struct {
			Rev string `json:"_rev"`
		}
		if json.Unmarshal(row.Doc, &own) == nil && own.Rev != "" {
			doc.Rev = own.Rev // it may be read a moment later
		}
	}
	return doc, nil
}

// editDocs writes new revisions of documents in one request.
func (p *Pair) editDocs(ctx context.Context, op peer.EditDocs) (peer.Edited, *peer.Failure) {
	r := request{method: http.MethodPost, path: "_bulk_docs", header: []peer.Param{jsonBody}}
	pieces := [][]byte{[]byte(`{"docs":[`)}
	for i, d := range op.Docs {
		if i > 0 {
			pieces = append(pieces, []byte{','})
		}
		pieces = append(pieces, d.Body)
	}
	pieces = append(pieces, []byte(`]}`))
	for _, piece := range pieces {
		r.size += int64(len(piece))
	}
	r.open = func() io.Reader { return &pieceReader{pieces: pieces} }
	a, f := p.source.ask(ctx, r, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	if f != nil {
		return peer.Edited{}, f
	}
	var got peer.Edited
	s := newStream(a)
	err := s.array(func(i int) error {
		s.allow(maxItem)
		if i == len(op.Docs) {
			return malformed("answered about more documents than it was sent")
		}
		verdict, err := s.verdict()
		if err == nil && verdict.ID != op.Docs[i].ID {
			return malformedf("answered about document %q in the place of another one", clip(verdict.ID, 60))
		}
		got.Docs = append(got.Docs, peer.EditedDoc{
			ID: verdict.ID, Rev: verdict.Rev,
			Error: p.source.words(verdict.Error), Reason: p.source.words(verdict.Reason),
		})
		return err
	})
	if err == nil {
		err = s.end()
	}
	if err == nil && len(got.Docs) < len(op.Docs) {
		err = malformed("answered about fewer documents than it was sent")
	}
	if err != nil {
		defer a.close()
		return peer.Edited{}, a.broken(err)
	}
	a.finish()
	return got, nil
}
