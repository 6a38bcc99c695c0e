package couch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"couchrelay/core/peer"
)

const (
	// maxRequestLine bounds the line that asks for revisions, in bytes. Servers and proxies take 8 kB;
	// CouchDB's replicator has the same bound.
	maxRequestLine = 7000
	// minRequestLine is the length in bytes below which a line is not halved any more after 414.
	minRequestLine = 200
)

// copying is one CopyDoc while it is carried out, on one goroutine. It streams revisions with their
// attachments from the source to the target: no attachment is ever in memory as a whole, and backpressure of
// the target holds up the source.
//
// It holds one slot of the source all the time, and one of the target during each PUT. No copying waits for a
// slot of the source while it holds one of the target, so copyings cannot deadlock.
type copying struct {
	pair    *Pair
	ctx     context.Context
	op      peer.CopyDoc
	line    int      // bytes that a request line may have, at most maxRequestLine; halved after 414
	left    []string // revisions of op not yet asked for
	alone   bool     // each is asked for by itself, since one of them cannot be read
	waiting []string // revisions that the present request asked for and nothing answers yet
	parts   int      // revisions that the present answer may still have before it counts as endless
	scanner scanner
	out     peer.Copied // the result so far
}

// copyDoc copies revisions of one document. A failure comes with the result so far: what it lists is at the
// target or refused by it, and need not be asked for again.
func (p *Pair) copyDoc(ctx context.Context, op peer.CopyDoc) peer.Reply {
	c := &copying{pair: p, ctx: ctx, op: op, line: maxRequestLine, left: op.Revs}
	if err := p.source.admit(ctx); err != nil {
		return peer.Reply{Failure: p.source.failed(ctx, c.request(0, 0), err)}
	}
	defer p.source.leave()
	for len(c.left) > 0 {
		if f := c.fetch(); f != nil {
			return peer.Reply{Result: c.out, Failure: f}
		}
	}
	return peer.Reply{Result: c.out}
}

// request asks for the first revs of the revisions left. It names the first since of the revisions that the
// target has, so that the source sends only attachments that are newer than these.
func (c *copying) request(revs, since int) request {
	params := []peer.Param{
		{Name: "open_revs", Value: string(appendStrings(nil, c.left[:revs]))},
		{Name: "revs", Value: "true"},
		{Name: "latest", Value: "true"},
	}
	if since > 0 {
		known := string(appendStrings(nil, c.op.Since[:since]))
		params = append(params, peer.Param{Name: "atts_since", Value: known})
	}
	return request{
		method: http.MethodGet, path: escapeID(c.op.ID), query: encodeQuery(params...), admitted: true,
		header: []peer.Param{{Name: "Accept", Value: "multipart/mixed"}},
	}
}

// fit returns the largest request that the line has room for, and how many revisions it asks for. Revisions
// go first; the rest of the line is for those that the target has, which only save attachments. One revision
// is asked for even if it does not fit.
func (c *copying) fit() (r request, revs int) {
	revs = fill(min(len(c.left), c.line), func(n int) bool { return c.length(c.request(n, 0)) <= c.line })
	if revs = max(revs, 1); c.alone {
		revs = 1
	}
	since := fill(min(len(c.op.Since), c.line), func(n int) bool { return c.length(c.request(revs, n)) <= c.line })
	return c.request(revs, since), revs
}

// length returns the length in bytes of a request's line.
func (c *copying) length(r request) int { return lineLength(c.pair.source.base, r) }

// lineLength returns the length in bytes of the line of a GET below a base.
func lineLength(from *url.URL, r request) int {
	base := len(from.RequestURI())
	return len("GET ?&") + base + len(r.path) + len(r.query) + len(" HTTP/1.1\r\n")
}

// isTooLong reports whether a server did not take a request for the length of its line. CouchDB answers 400 then, and
// no word.
func isTooLong(f *peer.Failure, line int) bool {
	silent := f.Status == http.StatusBadRequest && f.Error == "" && f.Reason == "" && line > maxRequestLine
	return f.Kind == peer.Status && (silent || f.Status == http.StatusRequestURITooLong)
}

// hasLongHeader reports whether a server did not take a request for the length of its line and headers together. A
// shorter line may help. If it does not, the headers alone may be too long, which says nothing about this document.
func hasLongHeader(f *peer.Failure) bool {
	return f.Kind == peer.Status && f.Status == http.StatusRequestHeaderFieldsTooLarge
}

// fill returns the largest n up to limit that fits. If n fits, so must all smaller ones.
func fill(limit int, fits func(n int) bool) int {
	low, high := 0, limit
	for low < high {
		middle := (low + high + 1) / 2
		if fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// fetch asks the source once, for as many of the revisions left as one request line has room for, and copies
// what it answers.
func (c *copying) fetch() *peer.Failure {
	r, revs := c.fit()
	a, f := c.pair.source.ask(c.ctx, r, http.StatusOK)
	if f != nil {
		if isTooLong(f, c.length(r)) || hasLongHeader(f) {
			return c.shrink(f, c.length(r))
		}
		return f
	}
	defer a.close()
	c.waiting, c.left, c.parts = slices.Clone(c.left[:revs]), c.left[revs:], manyFor(revs)
	kind, params, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err == nil && strings.HasPrefix(kind, "multipart/") {
		err = c.readParts(a, multipart.NewReader(a, params["boundary"]))
	} else {
		err = c.readArray(a)
	}
	switch {
	case err == nil:
		a.finish()
	case err == errRefused && len(c.waiting) == 0:
	case isTooDeep(err):
		c.passDeep()
		return nil
	default:
		return a.broken(err)
	}
	// The answer is whole, so a revision that it did not mention is missing at the source.
	for _, rev := range c.waiting {
		c.out.Revs = append(c.out.Revs, peer.CopiedRev{Rev: rev, Missing: true})
	}
	return nil
}

// passDeep goes on behind a revision that is nested too deep to be read: it counts as refused. Which one it is
// shows when each is asked for by itself.
func (c *copying) passDeep() {
	if len(c.waiting) > 1 {
		c.left, c.alone = append(c.waiting, c.left...), true
		return
	}
	for _, rev := range c.waiting {
		c.out.Revs = append(c.out.Revs, peer.CopiedRev{Rev: rev, Refused: &peer.Refusal{
			ID: c.op.ID, Rev: rev, Status: http.StatusRequestEntityTooLarge, Error: "document_too_large",
			Reason: "the source has it nested too deep to be read",
		}})
	}
}

// shrink makes the next request shorter after 414 or 431. If it cannot be shorter, the answer is the copying's
// failure.
func (c *copying) shrink(f *peer.Failure, sent int) *peer.Failure {
	shortest := c.length(c.request(1, 0))
	if c.line = min(c.line, sent) / 2; sent > shortest && c.line >= minRequestLine {
		return nil
	}
	if !hasLongHeader(f) {
		f.Kind = peer.Oversized
	}
	return f
}

// errRefused says that the target answered for a revision before it had all of it. The source's bytes behind
// that point are of no use.
var errRefused = errors.New("the target took no more")

// heard notes that a document has come. It answers for its own revision and for all in its history: with
// latest=true a source sends a newer revision for one that it replaces.
func (c *copying) heard(doc document) {
	c.waiting = slices.DeleteFunc(c.waiting, doc.lineage())
}

// scan returns the document whose body is raw, and checks that it is the one asked for.
func (c *copying) scan(raw []byte) (document, error) {
	doc, err := c.scanner.scan(raw)
	if isTooDeep(err) {
		doc, err = c.scanner.scan(shallow(raw))
		doc.raw = raw
	}
	if err == nil && doc.id != c.op.ID {
		err = malformedf("answered document %q instead", clip(doc.id, 100))
	}
	return doc, err
}

// body is a document on its way to the target.
type body struct {
	contentType string
	size        int64     // bytes that from gives, exact
	from        io.Reader // read once, by net/http
	// interrupt cancels the request to the source that from reads, so that a Read which waits for the source
	// returns. It is nil when from has all its bytes in memory.
	interrupt func()
}

// plain returns the body of a document that no attachments follow.
func plain(doc document) body {
	return body{contentType: jsonBody.Value, size: int64(len(doc.raw)), from: bytes.NewReader(doc.raw)}
}

// putRelated writes a revision with the attachments that follow it. open returns the bytes of an attachment
// when its turn comes, which is in the order of the list; interrupt cancels a wait for them (see body).
func (c *copying) putRelated(
	doc document, attachments []attachment, open func(attachment) (io.Reader, error), interrupt func(),
) error {
	raw, changed := doc.raw, false
	pouch := c.pair.target.pouch.Load()
	var follow []attachment
	for i := range attachments {
		att := &attachments[i]
		if !att.follows {
			continue
		}
		if att.encoding == "gzip" && att.length >= 0 && pouch {
			att.inflate, att.size = true, att.length
		}
		if pouch && strings.Contains(att.name, `\`) {
			return c.refuse(doc, http.StatusUnsupportedMediaType, "attachment_name",
				"PouchDB's server cannot be told the name of an attachment with a backslash")
		}
		if pouch {
			att.filename = pouchName(att.name)
		}
		changed = changed || att.stub || att.inflate
		follow = append(follow, *att)
	}
	if len(follow) == 0 {
		return c.put(doc, plain(doc))
	}
	if changed {
		raw = rewrite(doc, attachments)
	}
	b := relate(raw, follow, open)
	b.interrupt = interrupt
	return c.put(doc, b)
}

// refuse notes that a revision, which the source sends, cannot be shown to the target.
func (c *copying) refuse(doc document, status int, word, reason string) error {
	c.heard(doc)
	c.out.Revs = append(c.out.Revs, peer.CopiedRev{Rev: doc.rev, Refused: &peer.Refusal{
		ID: doc.id, Rev: doc.rev, Status: status, Error: word, Reason: reason,
	}})
	return errRefused
}

// put writes a revision to the target and notes the outcome in out. Its error is one of three:
//
//   - what reading the body met, if the source broke off: the target's answer then means nothing;
//   - a failedWith, if the request to the target failed, or its answer is about the server (see outcome);
//   - errRefused, if the target answered before it had the whole body. The outcome is noted, and the source's
//     answer has bytes left that belong to this revision.
//
// net/http may still read the body when the target has answered. So put returns only after up.stop, from
// where on the caller may read the source's answer itself.
func (c *copying) put(doc document, b body) error {
	target := c.pair.target
	up := &upload{from: b.from}
	a, f := target.send(c.ctx, request{
		method: http.MethodPut, path: escapeID(doc.id), query: "new_edits=false",
		header: []peer.Param{
			{Name: "Content-Type", Value: b.contentType}, {Name: "Accept", Value: "application/json"},
		},
		size: b.size, stream: up,
	})
	if broke := up.broke.Load(); f != nil && broke != nil {
		return broke.err
	}
	var refusal *peer.Refusal
	if f == nil {
		refusal, f = c.outcome(a, doc)
		c.heard(doc)
	}
	// up.stop waits for a Read of the source that is in progress. If more revisions are to come in this
	// answer, it has to be waited for, up to the source's timeout; otherwise the answer is of no use any more
	// and is cut.
	cut := up.sent.Load() < b.size && (f != nil || len(c.waiting) == 0)
	if cut && b.interrupt != nil {
		b.interrupt()
	}
	up.stop()
	sent := up.sent.Load()
	c.out.Bytes += sent
	if f != nil {
		return failedWith{f}
	}
	c.out.Revs = append(c.out.Revs, peer.CopiedRev{Rev: doc.rev, Refused: refusal})
	if cut || sent < b.size {
		return errRefused
	}
	return nil
}

// outcome reads the target's answer for one revision and ends it. Both results are nil when the revision was
// written. A status that concerns the document is a refusal; one that concerns the server is a failure, and
// says nothing about the revision.
func (c *copying) outcome(a *answer, doc document) (*peer.Refusal, *peer.Failure) {
	switch a.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		return nil, a.written(doc)
	}
	f := a.refused()
	if isTooLong(f, lineLength(c.pair.target.base, a.request)) {
		f.Status, f.Error, f.Reason = http.StatusRequestURITooLong, "uri_too_long", "the id is too long for a URL"
	}
	refusal := &peer.Refusal{ID: doc.id, Rev: doc.rev, Status: f.Status, Error: f.Error, Reason: f.Reason}
	switch s := f.Status; {
	case refusal.Vague() && c.pair.target.pouch.Load(): // its own troubles have texts, too
		return nil, f
	case refusal.Thrown():
		return refusal, nil
	case s < 400, s >= 500, s == http.StatusRequestTimeout, s == http.StatusTooManyRequests:
		return nil, f
	}
	return refusal, nil
}

// written reads the answer of a server whose status says that it wrote a document, and checks that the body
// says so too (see done): {"ok":true,"id":"...","rev":"..."}, or from PouchDB's server, with new_edits=false,
// an empty list of refusals. An id or revision in it must be the document's: a proxy that decodes %2F in paths, or
// drops the query, has had the server write another document, or a revision of its own.
func (a *answer) written(doc document) *peer.Failure {
	var body json.RawMessage
	if f := a.readJSON(maxSmall, &body); f != nil {
		return f
	}
	var said struct {
		OK  any `json:"ok"`
		ID  any `json:"id"`
		Rev any `json:"rev"`
	}
	var refused []any
	err := json.Unmarshal(body, &said)
	id, _ := said.ID.(string)
	rev, _ := said.Rev.(string)
	if err == nil && (said.OK == true || rev != "") {
		if id != "" && id != doc.id || rev != "" && !strings.EqualFold(rev, doc.rev) {
			const another = "answered that it wrote document %q, revision %s instead"
			return a.broken(malformedf(another, clip(id, 100), clip(rev, 60)))
		}
		return nil
	}
	if json.Unmarshal(body, &refused) == nil && refused != nil && len(refused) == 0 {
		return nil
	}
	problem := malformedf("answered %d, but not that the document was written: %s", a.StatusCode, gist(body))
	return a.broken(problem)
}
