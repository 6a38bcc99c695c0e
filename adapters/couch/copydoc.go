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
	"slices"
	"strings"

	"couchrelay/core/peer"
)

const (
	// maxRequestLine bounds the line that asks for revisions, in characters: servers and proxies take
	// 8 kB (CouchDB's replicator uses the same number).
	maxRequestLine = 7000
	// minRequestLine is where halving after 414 ends.
	minRequestLine = 200
)

// copying is one CopyDoc while it is carried out. It holds one slot of the source all the time and one
// of the target for each PUT; as nobody waits for the source while holding the target, these cannot
// block each other for ever.
type copying struct {
	pair    *Pair
	ctx     context.Context
	op      peer.CopyDoc
	line    int      // characters that a request line may have
	left    []string // revisions not yet asked for
	waiting []string // revisions asked for that nothing was heard of yet
	parts   int      // that the present answer may still have
	scanner scanner
	out     peer.Copied
}

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

// request asks for the first revs of what is left, with attachments that are newer than the first
// since of what the target has.
func (c *copying) request(revs, since int) request {
	params := []peer.Param{
		{Name: "open_revs", Value: string(appendStrings(nil, c.left[:revs]))},
		{Name: "revs", Value: "true"},
		{Name: "latest", Value: "true"},
	}
	if since > 0 {
		params = append(params, peer.Param{Name: "atts_since", Value: string(appendStrings(nil, c.op.Since[:since]))})
	}
	return request{
		method: http.MethodGet, path: escapeID(c.op.ID), query: encodeQuery(params...), admitted: true,
		header: []peer.Param{{Name: "Accept", Value: "multipart/mixed"}},
	}
}

// fit finds the largest request that the line has room for: revisions first, then what the target
// has. A single revision is asked for whatever its length.
func (c *copying) fit() (r request, revs int) {
	revs = fill(len(c.left), func(n int) bool { return c.length(c.request(n, 0)) <= c.line })
	revs = max(revs, 1)
	since := fill(len(c.op.Since), func(n int) bool { return c.length(c.request(revs, n)) <= c.line })
	return c.request(revs, since), revs
}

func (c *copying) length(r request) int {
	return len("GET ?&") + len(c.pair.source.base.RequestURI()) + len(r.path) + len(r.query) + len(" HTTP/1.1\r\n")
}

// fill is the largest n up to limit that fits; what fits n fits all below.
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

// fetch asks the source once and hands on what it answers.
func (c *copying) fetch() *peer.Failure {
	r, revs := c.fit()
	a, f := c.pair.source.ask(c.ctx, r, http.StatusOK)
	if f != nil {
		if f.Kind == peer.Status && f.Status == http.StatusRequestURITooLong {
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
	default:
		return a.broken(err)
	}
	// Whatever the source did not speak of did not arrive.
	for _, rev := range c.waiting {
		c.out.Revs = append(c.out.Revs, peer.CopiedRev{Rev: rev, Missing: true})
	}
	return nil
}

// shrink makes the next request shorter after 414.
func (c *copying) shrink(f *peer.Failure, sent int) *peer.Failure {
	shortest := c.length(c.request(1, 0))
	if c.line = min(c.line, sent) / 2; sent > shortest && c.line >= minRequestLine {
		return nil
	}
	f.Kind = peer.Oversized
	return f
}

// errRefused ends the source's answer for a revision that the target did not want to the end.
var errRefused = errors.New("the target took no more")

// heard takes the revisions that a document answers for off those that are waited for.
func (c *copying) heard(doc document) {
	c.waiting = slices.DeleteFunc(c.waiting, doc.lineage())
}

// scan looks at a document and checks that it is the one asked for.
func (c *copying) scan(raw []byte) (document, error) {
	doc, err := c.scanner.scan(raw)
	if err == nil && doc.id != c.op.ID {
		err = malformedf("answered document %q instead", clip(doc.id, 100))
	}
	return doc, err
}

// body is a document on its way to the target.
type body struct {
	contentType string
	size        int64 // in bytes, exact
	from        io.Reader
	// interrupt ends the request that from reads from, for when its rest is not needed and nobody wants
	// to wait for it. Nil when from never waits.
	interrupt func()
}

func plain(doc document) body {
	return body{contentType: jsonBody.Value, size: int64(len(doc.raw)), from: bytes.NewReader(doc.raw)}
}

// putRelated writes a revision with the attachments that are to follow it. open gives their bytes, one
// after the other; interrupt ends a wait for these.
func (c *copying) putRelated(
	doc document, attachments []attachment, open func(attachment) (io.Reader, error), interrupt func(),
) error {
	raw, changed := doc.raw, false
	var follow []attachment
	for i := range attachments {
		att := &attachments[i]
		if !att.follows {
			continue
		}
		if att.encoding == "gzip" && att.length >= 0 && c.pair.target.keepsEncoded.Load() {
			att.inflate, att.size = true, att.length
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

// put writes a revision to the target and notes the outcome. Its error is a failedWith when the target
// is the reason, errRefused when the target said no before it had everything, and else the source's.
func (c *copying) put(doc document, b body) error {
	target := c.pair.target
	up := &upload{from: b.from}
	a, f := target.send(c.ctx, request{
		method: http.MethodPut, path: escapeID(doc.id), query: "new_edits=false",
		header: []peer.Param{{Name: "Content-Type", Value: b.contentType}, {Name: "Accept", Value: "application/json"}},
		size:   b.size, stream: up,
	})
	if broke := up.broke.Load(); f != nil && broke != nil {
		return broke.err
	}
	var refusal *peer.Refusal
	if f == nil {
		refusal, f = c.outcome(a, doc)
		c.heard(doc)
	}
	// net/http may still read what comes from the source. If more documents follow, that has to be
	// waited for, for as long as the source may keep us waiting; if not, it is cut off.
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

// outcome reads the target's answer for one revision and ends it. Statuses that speak of the server
// and not of the document are failures.
func (c *copying) outcome(a *answer, doc document) (*peer.Refusal, *peer.Failure) {
	switch a.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		return nil, a.written()
	}
	f := a.refused()
	refusal := &peer.Refusal{ID: doc.id, Rev: doc.rev, Status: f.Status, Error: f.Error, Reason: f.Reason}
	switch s := f.Status; {
	case refusal.Thrown():
		return refusal, nil
	case s < 400, s >= 500, s == http.StatusRequestTimeout, s == http.StatusTooManyRequests:
		return nil, f
	}
	return refusal, nil
}

// written reads the answer to a document that was taken, as the server says: {"ok":true,"id":"...","rev":"..."}.
// PouchDB's server answers new_edits=false with the list of what it refused, which is empty.
func (a *answer) written() *peer.Failure {
	var body json.RawMessage
	if f := a.readJSON(maxSmall, &body); f != nil {
		return f
	}
	var said struct {
		OK  any `json:"ok"`
		Rev any `json:"rev"`
	}
	var refused []any
	err := json.Unmarshal(body, &said)
	if rev, _ := said.Rev.(string); err == nil && (said.OK == true || rev != "") {
		return nil
	}
	if json.Unmarshal(body, &refused) == nil && refused != nil && len(refused) == 0 {
		return nil
	}
	return a.broken(malformedf("answered %d, but not that the document was written: %s", a.StatusCode, gist(body)))
}
