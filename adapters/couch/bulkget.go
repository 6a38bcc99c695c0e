package couch

import (
	"context"
	"errors"
	"net/http"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// fetchDocs reads documents and keeps those without attachments.
func (p *Pair) fetchDocs(ctx context.Context, id uint64, op peer.FetchDocs) (peer.Fetched, *peer.Failure) {
	if len(op.Docs) == 0 {
		return peer.Fetched{}, nil
	}
	const query = "revs=true&latest=true&attachments=false"
	r := request{method: http.MethodPost, path: "_bulk_get", query: query}.posting(bulkGetBody(op.Docs))
	a, f := p.source.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Fetched{}, f
	}
	b := newBulkGet(op, newStream(a))
	switch err := b.read(); {
	case err == nil:
		a.finish()
		b.settle()
	case errors.Is(err, errBudget):
		a.close()
	default:
		defer a.close()
		return peer.Fetched{}, a.broken(err)
	}
	p.keep(id, b.bodies)
	return b.got, nil
}

func bulkGetBody(docs []peer.DocRev) []byte {
	body := []byte(`{"docs":[`)
	for i, d := range docs {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendQuoted(append(body, `{"id":`...), d.ID)
		body = appendQuoted(append(body, `,"rev":`...), d.Rev)
		if len(d.Since) > 0 {
			body = appendStrings(append(body, `,"atts_since":`...), d.Since)
		}
		body = append(body, '}')
	}
	return append(body, `],"latest":true,"revs":true,"attachments":false}`...)
}

// bulkGet sorts out what an answer brings. Servers differ: CouchDB has one result for each question,
// in order; PouchDB puts all revisions of a document into one.
type bulkGet struct {
	*stream
	scanner scanner
	docs    []peer.DocRev
	budget  int              // bytes left
	more    int              // elements that the answer may still have
	open    map[string][]int // by document id: what was asked and not answered, in order
	bodies  [][]byte
	got     peer.Fetched
}

// errBudget ends reading when enough has been taken.
var errBudget = errors.New("budget used up")

func newBulkGet(op peer.FetchDocs, s *stream) *bulkGet {
	b := &bulkGet{
		stream: s, docs: op.Docs, budget: op.Budget, more: manyFor(len(op.Docs)), open: make(map[string][]int, len(op.Docs)),
		bodies: make([][]byte, len(op.Docs)), got: peer.Fetched{Docs: make([]peer.FetchedDoc, len(op.Docs))},
	}
	for i, d := range op.Docs {
		b.open[d.ID] = append(b.open[d.ID], i)
	}
	return b
}

func (b *bulkGet) read() error {
	hasResults := false
	err := b.object(func(name string) error {
		if name != "results" {
			return b.SkipValue()
		}
		hasResults = true
		return b.array(func(i int) error {
			b.allow(maxItem)
			if i >= manyFor(len(b.docs)) {
				return malformed("answered with many more documents than it was asked for")
			}
			return b.result()
		})
	})
	switch {
	case err != nil:
		return err
	case !hasResults:
		return malformed("answered JSON without results")
	}
	return b.end()
}

// settle is for a whole answer: what it left out will not come by asking again.
func (b *bulkGet) settle() {
	for _, open := range b.open {
		for _, i := range open {
			b.got.Docs[i].Fate = peer.Unreadable
		}
	}
}

// result reads {"id": ..., "docs": [...]}.
func (b *bulkGet) result() error {
	id := "" // unless it comes behind the docs
	return b.object(func(name string) (err error) {
		switch name {
		case "id":
			id, _, err = b.text()
		case "docs":
			err = b.array(func(int) error { return b.element(id) })
		default:
			err = b.SkipValue()
		}
		return err
	})
}

// said is what one element of a result says.
type said struct {
	doc          jsontext.Value
	id, rev      string // of what there is no document for
	missing      bool
	word, reason string
}

// element reads {"ok": doc}, {"error": {...}} or PouchDB's {"missing": rev} and {"error": word}. What
// answers no question is ignored.
func (b *bulkGet) element(id string) error {
	b.allow(maxDoc)
	if b.more--; b.more < 0 {
		return malformed("answered with many more documents than it was asked for")
	}
	if b.PeekKind() != jsontext.KindBeginObject {
		return b.SkipValue()
	}
	e := said{id: id}
	if err := b.object(func(name string) error { return b.member(&e, name) }); err != nil {
		return err
	}
	if e.doc != nil {
		doc, err := b.scanner.scan(e.doc)
		if err != nil {
			return nil
		}
		return b.take(doc)
	}
	fate := peer.Unreadable
	if e.missing || e.word == "not_found" && e.reason == "missing" {
		fate = peer.Missing
	}
	if i := b.find(e.id, func(asked string) bool { return e.rev == "" || asked == e.rev }); i >= 0 {
		b.close(e.id, i)
		b.got.Docs[i].Fate = fate
	}
	return nil
}

func (b *bulkGet) member(e *said, name string) (err error) {
	switch name {
	case "ok":
		var doc jsontext.Value
		doc, err = b.ReadValue()
		e.doc = doc.Clone()
	case "missing":
		e.missing = true
		e.rev, _, err = b.text()
	case "error":
		if b.PeekKind() == jsontext.KindBeginObject {
			return b.object(func(name string) error { return b.member(e, name) })
		}
		e.word, _, err = b.text()
	case "reason":
		e.reason, _, err = b.text()
	case "id":
		e.id, _, err = b.text()
	case "rev":
		e.rev, _, err = b.text()
	default:
		err = b.SkipValue()
	}
	return err
}

// take keeps a document under the question that it answers: the one for its revision, or else one for
// a revision that it replaces.
func (b *bulkGet) take(doc document) error {
	i := b.find(doc.id, func(rev string) bool { return rev == doc.rev })
	if i < 0 {
		i = b.find(doc.id, doc.lineage())
	}
	if i < 0 {
		return nil
	}
	b.close(doc.id, i)
	if doc.hasAttachments() {
		b.got.Docs[i] = peer.FetchedDoc{Fate: peer.Attachments}
		return nil
	}
	b.bodies[i] = doc.raw
	b.got.Docs[i] = peer.FetchedDoc{Fate: peer.Taken, Size: len(doc.raw), Rev: doc.rev}
	if b.budget -= len(doc.raw); b.budget <= 0 && len(b.open) > 0 {
		return errBudget
	}
	return nil
}

// find returns the first open question for a document whose revision fits, -1 if there is none.
func (b *bulkGet) find(id string, fits func(rev string) bool) int {
	for _, i := range b.open[id] {
		if fits(b.docs[i].Rev) {
			return i
		}
	}
	return -1
}

// close takes a question off the open ones.
func (b *bulkGet) close(id string, i int) {
	left := b.open[id][:0]
	for _, other := range b.open[id] {
		if other != i {
			left = append(left, other)
		}
	}
	if b.open[id] = left; len(left) == 0 {
		delete(b.open, id)
	}
}
