package couch

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// fetchDocs reads documents in one request, and keeps complete bodies under id. A body is complete if its document
// has no attachments, or if op asks for attachments and they came with it. When the budget of op is used up,
// fetchDocs stops reading: documents that it has not seen keep the fate with which a result starts, and the core
// asks for them again. So it is if the answer breaks off behind some of them; if it does so at each attempt, for the
// sake of one document, that one is the first of a later request in the end, which brings nothing and fails.
func (p *Pair) fetchDocs(ctx context.Context, id uint64, op peer.FetchDocs) (peer.Fetched, *peer.Failure) {
	if len(op.Docs) == 0 {
		return peer.Fetched{}, nil
	}
	query := "revs=true&latest=true&att_encoding_info=true&attachments=" + strconv.FormatBool(op.Attachments)
	r := request{method: http.MethodPost, path: "_bulk_get", query: query}.posting(bulkGetBody(op))
	a, f := p.source.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Fetched{}, f
	}
	if kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); strings.HasPrefix(kind, "multipart/") {
		return peer.Fetched{}, a.onlyMultipart()
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
		f := a.broken(err)
		if f.Kind == peer.Cancelled || b.pending.left == len(op.Docs) {
			return peer.Fetched{}, f
		}
	}
	p.keep(id, b.bodies)
	return b.got, nil
}

// onlyMultipart is the failure of a bulk read whose documents came in parts, as of Sync Gateway, whatever the request
// accepts. It has the status of the answer, and no kind that may pass, since the next one would come in parts, too.
func (a *answer) onlyMultipart() *peer.Failure {
	defer a.close()
	f := a.endpoint.failure(a.request, peer.Status, "answered parts where JSON was expected")
	f.Status = a.StatusCode
	return f
}

// bulkGetBody returns the body of a request. It has atts_since only if op asks for attachments: CouchDB sends
// attachments that are newer than atts_since even if the request says attachments=false. All lists of it together are
// bounded, since revisions of one document may each have thousands of possible ancestors.
func bulkGetBody(op peer.FetchDocs) []byte {
	body, room := []byte(`{"docs":[`), maxAncestors
	for i, d := range op.Docs {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendQuoted(append(body, `{"id":`...), d.ID)
		body = appendQuoted(append(body, `,"rev":`...), d.Rev)
		if room -= sizeOf(d.Since...); op.Attachments && len(d.Since) > 0 && room >= 0 {
			body = appendStrings(append(body, `,"atts_since":`...), d.Since)
		}
		body = append(body, '}')
	}
	body = append(body, `],"latest":true,"revs":true,"attachments":`...)
	return append(strconv.AppendBool(body, op.Attachments), '}')
}

// bulkGet matches the documents of an answer to the questions, which are the elements of docs. Servers answer
// in different shapes: CouchDB has one result for each question, in order; PouchDB puts all revisions of a
// document into one result. So each document is matched by its id and revision.
type bulkGet struct {
	*stream // over the answer
	scanner scanner
	docs    []peer.DocRev
	inline  int // bytes of the largest document with attachments inside to take; 0 if not asked for
	most    int // bytes that an element of the answer may have
	budget  int // bytes of bodies that may still be taken; the last body may exceed it
	more    int // elements that the answer may still have before it counts as endless
	pending questions
	bodies  [][]byte     // the bodies taken, by index of docs; nil for all others
	got     peer.Fetched // the result so far; its Docs have the indexes of docs
}

// errBudget ends the reading of an answer when the budget is used up.
var errBudget = errors.New("budget used up")

func newBulkGet(op peer.FetchDocs, s *stream) *bulkGet {
	n := len(op.Docs)
	b := &bulkGet{
		stream: s, docs: op.Docs, most: maxDoc, budget: op.Budget, more: manyFor(n),
		pending: newQuestions(op.Docs), bodies: make([][]byte, n),
		got: peer.Fetched{Docs: make([]peer.FetchedDoc, n)},
	}
	if op.Attachments {
		// The core asks for documents whose sizes the source has told, and their sum fits into the budget. A larger
		// element of the answer is not what was asked for.
		b.inline, b.most = op.Budget, min(maxDoc, op.Budget+maxItem)
	}
	return b
}

// read reads the whole answer, or up to the end of the budget (errBudget).
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

// settle gives the questions that a whole answer left out their fate: asking again would bring no more. It
// must not be called after errBudget, when the rest of the answer is unknown.
func (b *bulkGet) settle() {
	for i, open := range b.pending.open {
		if open {
			b.got.Docs[i].Fate = peer.Unreadable
		}
	}
}

// result reads {"id": ..., "docs": [...]}.
func (b *bulkGet) result() error {
	id := "" // stays empty if the member follows the docs; documents have ids of their own
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

// element is one element of a result: a document, or why there is none.
type element struct {
	doc          jsontext.Value // nil if there is none
	id, rev      string         // the question; rev is empty if the server does not repeat it
	missing      bool           // PouchDB's {"missing": rev}
	word, reason string         // of an error
}

// element reads {"ok": doc}, {"error": {...}} or PouchDB's {"missing": rev} and {"error": word}. An element
// that answers no question is ignored, and so is a document that cannot be read: its question then counts as
// unanswered.
func (b *bulkGet) element(id string) error {
	b.allow(b.most)
	if b.more--; b.more < 0 {
		return malformed("answered with many more documents than it was asked for")
	}
	if b.PeekKind() != jsontext.KindBeginObject {
		return b.SkipValue()
	}
	e := element{id: id}
	if err := b.object(func(name string) error { return b.member(&e, name) }); err != nil {
		return b.passDeep(id, err)
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
	i := b.pending.first(e.id)
	if e.rev != "" {
		i = b.pending.find(e.id, e.rev)
	}
	if i >= 0 {
		b.pending.close(i)
		b.got.Docs[i].Fate = fate
	}
	return nil
}

// passDeep ends the reading at a document that is nested too deep. It can be copied by itself at best, and the
// others are asked for again. All other errors stay as they are.
func (b *bulkGet) passDeep(id string, err error) error {
	i := b.pending.first(id)
	if i < 0 || !isTooDeep(err) {
		return err
	}
	b.pending.close(i)
	b.got.Docs[i].Fate = peer.Unreadable
	return errBudget
}

// member reads a member of an element, or of the object that its error is.
func (b *bulkGet) member(e *element, name string) (err error) {
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

// take keeps a document as the answer to the question for its own revision, or else to one for a revision
// that it replaces (latest=true). A document that answers neither is dropped. It returns errBudget when the
// budget is used up and there are more questions.
func (b *bulkGet) take(doc document) error {
	i := b.pending.find(doc.id, doc.rev)
	if i < 0 {
		start, hashes := doc.history()
		i = b.pending.findIn(doc.id, start, hashes)
	}
	if i < 0 {
		return nil
	}
	b.pending.close(i)
	if doc.hasAttachments() {
		whole, here := b.scanner.measure(doc, b.docs[i].Since)
		if !here || len(doc.raw) > b.inline {
			b.got.Docs[i] = peer.FetchedDoc{Fate: peer.Attachments, Size: whole}
			return nil
		}
	}
	b.bodies[i] = doc.raw
	b.got.Docs[i] = peer.FetchedDoc{Fate: peer.Taken, Size: len(doc.raw), Rev: doc.rev}
	if b.budget -= len(doc.raw); b.budget <= 0 && b.pending.left > 0 {
		return errBudget
	}
	return nil
}
