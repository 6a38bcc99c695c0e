package couch

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// heartbeats is how many heartbeats a feed without rows is asked for within the endpoint's timeout, after
	// which a silent connection counts as dead.
	heartbeats = 3
	// slowest is the longest interval between two heartbeats. Proxies often cut a connection that is silent
	// for a minute.
	slowest = 20 * time.Second
)

// maxRows bounds the rows that one read returns, in bytes of memory, but for a single larger one: a read asks for
// thousands.
const maxRows = 8 << 20

// slowRead bounds how long a read waits for more rows once it has the first. A filter may let few rows
// through; those that have come should be copied, rather than be lost when the run ends.
const slowRead = time.Second

// localPrefix begins the ids of documents that are not replicated. A row of one would have the target write it, over a
// checkpoint say.
const localPrefix = "_local/"

// readChanges continues the feed that the previous read left open if it stopped at op.Since; otherwise, or if
// that connection has broken since, it opens a new one.
//
// A feed that broke before this read got a row of it is no failure of this read. Had the previous read waited
// longer, it would have reported the break itself, along with its rows; and a feed may stay open for hours
// before the next read, in which any proxy may close it. A break behind new rows is reported: those rows go
// to the core with the failure, and the next read starts behind them.
func (p *Pair) readChanges(ctx context.Context, op peer.ReadChanges) peer.Reply {
	if f := p.takeFeed(); f != nil && f.last == op.Since && f.wait == op.Wait {
		reply := p.readFeed(ctx, op, f)
		if got := reply.Result.(peer.Changes); !cutOff(reply.Failure) || len(got.Rows)+got.Skipped > 0 {
			return reply
		}
	} else if f != nil {
		f.close()
	}
	f, failure := p.openFeed(ctx, op)
	if failure != nil {
		return peer.Reply{Failure: failure}
	}
	return p.readFeed(ctx, op, f)
}

// cutOff reports whether a failure means that the connection ended or went silent.
func cutOff(f *peer.Failure) bool {
	return f != nil && (f.Kind == peer.Broken || f.Kind == peer.TimedOut)
}

// readFeed reads a part of a feed. It leaves the feed for the next read unless the feed has ended, with or
// without a failure, or ctx ends during the read: that cancels the feed's request.
func (p *Pair) readFeed(ctx context.Context, op peer.ReadChanges, f *feed) peer.Reply {
	unhook := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	reply := f.read(op.Limit)
	switch got := reply.Result.(peer.Changes); {
	case !unhook():
		f.close()
	case reply.Failure == nil && !got.End:
		p.leaveFeed(f)
	}
	return reply
}

// takeFeed takes the open feed out of the pair, nil if there is none. The caller owns it, so that two reads
// never have the same feed.
func (p *Pair) takeFeed() *feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.feed
	p.feed = nil
	return f
}

// leaveFeed keeps a feed for the next read. Until then its connection is not read, beyond the one row that
// the feed's goroutine has in hand, so backpressure holds up the server. A feed is closed instead if the pair
// has been closed, or if another read has left one.
func (p *Pair) leaveFeed(f *feed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.feed != nil {
		f.close()
		return
	}
	p.feed = f
}

// openFeed asks the source for changes and starts reading them. The feed outlives this operation, so its
// request has a context of its own; ctx ends it only until openFeed returns. A source that refuses POST,
// which a filter by document ids needs, or as long a list of them, is asked again for all changes. Rows are chosen
// here in any case: releases of Sync Gateway, for one, take the parameters of a POST from its body alone, and answer
// with all documents.
func (p *Pair) openFeed(ctx context.Context, op peer.ReadChanges) (*feed, *peer.Failure) {
	long, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer unhook()
	f := &feed{
		cancel: cancel, wait: op.Wait, pending: -1, last: op.Since,
		rows: make(chan row), closing: make(chan struct{}),
	}
	filtered := p.filter.Kind != spec.DocIDs || !p.noDocIDs.Load()
	a, failure := p.source.ask(long, p.changesRequest(op, filtered), http.StatusOK)
	if filtered && p.filter.Kind == spec.DocIDs && takesNoList(failure) {
		a, failure = p.source.ask(long, p.changesRequest(op, false), http.StatusOK)
		if failure == nil {
			p.noDocIDs.Store(true)
		}
	}
	if failure != nil {
		return nil, failure
	}
	f.answer, f.stream = a, newStream(a)
	f.chooses, f.only = p.filter.Kind == spec.DocIDs, p.filter.DocIDs
	go f.pump()
	return f, nil
}

// takesNoList reports whether a server answered that it takes no POST, or a proxy before it, as one that lets clients
// read only does with 401 or 403, or that this one is too long: nginx takes 1 MB unless it is told otherwise.
func takesNoList(f *peer.Failure) bool {
	return f != nil && f.Kind == peer.Status && slices.Contains([]int{401, 403, 405, 413}, f.Status)
}

// changesRequest returns the request for all changes after op.Since or, with op.Wait, for the next ones to
// come. Without the filter rows are chosen here, so the server must not count them towards a limit.
func (p *Pair) changesRequest(op peer.ReadChanges, filtered bool) request {
	r := request{method: http.MethodGet, path: "_changes", unhurried: true}
	// CouchDB's heartbeats are newlines, sent while a long poll waits or a filter lets nothing through. A
	// proxy that compresses would hold them back.
	r.header = append(r.header, peer.Param{Name: "Accept-Encoding", Value: "identity"})
	kind, beat := "normal", max(1, min(p.source.timeout/heartbeats, slowest).Milliseconds())
	if op.Wait {
		kind = "longpoll"
	}
	params := []peer.Param{
		{Name: "feed", Value: kind}, {Name: "heartbeat", Value: strconv.FormatInt(beat, 10)},
		{Name: "style", Value: p.style}, {Name: "since", Value: queryText(op.Since)},
	}
	if !filtered {
		r.query = encodeQuery(params...)
		return r
	}
	if op.Wait {
		params = append(params, peer.Param{Name: "limit", Value: strconv.Itoa(op.Limit)})
	}
	r.query = encodeQuery(slices.Concat(p.filter.ChangesParams(), params)...)
	switch p.filter.Kind {
	case spec.DocIDs:
		return r.posting(docIDsBody(p.filter.DocIDs))
	case spec.Selector:
		return r.posting(append(append([]byte(`{"selector":`), p.filter.Selector...), '}'))
	}
	return r
}

// posting returns the request as a POST of JSON.
func (r request) posting(body []byte) request {
	r.method, r.header = http.MethodPost, append(r.header, jsonBody)
	return r.withBody(body)
}

func docIDsBody(ids []string) []byte {
	body := []byte(`{"doc_ids":[`)
	for i, id := range ids {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendQuoted(body, id)
	}
	return append(body, "]}"...)
}

// appendQuoted appends a JSON string. Texts are valid UTF-8, since other bytes were replaced when they were
// read; so quoting cannot fail.
func appendQuoted(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// feed is an answer with changes that several reads share. A goroutine (pump) reads the answer and hands over
// its rows one by one on an unbuffered channel, so it is one row ahead of the reads. Therefore a read can
// stop waiting for a slow server (see slowRead) without losing the row that is on its way.
//
// The goroutine ends with the answer, or when close or cancel ends the feed. It is the only one that reads
// the answer, and it ends the answer too.
type feed struct {
	*stream // over answer
	answer  *answer
	cancel  context.CancelCauseFunc // ends the request, with the reason
	wait    bool                    // it is a long poll
	chooses bool                    // only rows of documents in only are returned
	only    []string                // ids, sorted by bytes
	rows    chan row                // from the goroutine to the reads; closed at the end of the answer
	closing chan struct{}           // closed by close: no read takes rows any more

	// Only the goroutine uses these until it has closed rows. From then on reads may see how the feed ended.
	inRows  bool          // in the array of results: its next row or its end comes next
	hasRows bool          // the array of results has begun, and may have ended
	row     int           // number of rows read, for messages
	lastSeq peer.Seq      // the member last_seq, empty until it is read
	pending int64         // the member pending, -1 until it is read
	failure *peer.Failure // by which the answer ended, nil if it is whole

	// Only the read that took the feed out of the pair uses these.
	last  peer.Seq // of the last row returned, at first the feed's since; a read from there may continue the feed
	begun bool     // a row was returned
	ahead *row     // received from rows and not returned yet; nil if there is none
}

// row is a row of a feed, with the memory in bytes that it takes.
type row struct {
	peer.Change
	size int
}

// pump reads the answer to its end, or until the feed is closed. It is the body of the feed's goroutine.
func (f *feed) pump() {
	defer close(f.rows)
	defer f.answer.close()
	if err := f.pass(); err != nil {
		f.failure = f.answer.broken(err)
		return
	}
	f.answer.finish()
}

// pass sends the rows to the reads as they come, and returns nil at the end of a whole answer.
func (f *feed) pass() error {
	for {
		if !f.inRows {
			if err := f.members(); err != nil || !f.inRows {
				return err
			}
		}
		if f.PeekKind() == jsontext.KindEndArray {
			f.inRows = false
			if _, err := f.ReadToken(); err != nil {
				return err
			}
			continue
		}
		next, err := f.readRow()
		if err != nil {
			return err
		}
		select {
		case f.rows <- next:
		case <-f.closing:
			return context.Canceled
		}
	}
}

// close ends the feed, wherever it is, and returns when its goroutine is done with the answer. The caller
// must own the feed, and calls close once.
func (f *feed) close() {
	f.cancel(nil)
	close(f.closing)
	for range f.rows { // until the goroutine closes rows
	}
}

// read returns up to limit rows, and fewer if they are large (maxRows) or come slowly (slowRead). Rows that
// are skipped count as well. Only a read that has to see how the answer ends goes on when it is full: that of
// a long poll, which ends right behind its rows, so that no second read is needed for its last_seq.
//
// The reply's LastSeq is the sequence up to which all changes are in this reply or an earlier one, empty if
// this feed has returned nothing yet.
func (f *feed) read(limit int) peer.Reply {
	got := peer.Changes{Pending: -1}
	var enough <-chan time.Time
	for size := 0; size < maxRows; {
		full := len(got.Rows)+got.Skipped >= limit
		if full && !f.wait {
			break
		}
		if !f.peek(enough) {
			break
		}
		next := f.ahead
		if next == nil {
			return f.ended(got)
		}
		if full {
			break
		}
		if enough == nil && !f.wait {
			timer := f.answer.endpoint.client.clock.Timer(slowRead)
			defer timer.Stop()
			enough = timer.C
		}
		f.ahead, f.begun, f.last = nil, true, next.Seq
		_, wanted := slices.BinarySearch(f.only, next.ID)
		switch {
		case next.ID == "", strings.HasPrefix(next.ID, localPrefix):
			got.Skipped++
		case wanted || !f.chooses:
			got.Rows = append(got.Rows, next.Change)
			size += next.size
		}
	}
	if f.begun {
		got.LastSeq = f.last
	}
	return peer.Reply{Result: got}
}

// peek waits for the next row and puts it into ahead, nil at the end of the answer. It reports whether one of
// both came before enough fired.
func (f *feed) peek(enough <-chan time.Time) bool {
	if f.ahead != nil {
		return true
	}
	select {
	case next, more := <-f.rows:
		if more {
			f.ahead = &next
		}
		return true
	case <-enough:
		return false
	}
}

// ended returns the reply of a read that met the answer's end, with the rows before it. A whole answer tells
// where the next one starts; behind one that broke off, the next read starts at its last row.
func (f *feed) ended(got peer.Changes) peer.Reply {
	if got.End = f.failure == nil; got.End {
		got.LastSeq, got.Pending = f.lastSeq, f.pending
	}
	if got.LastSeq == "" && (f.begun || got.End) {
		got.LastSeq = f.last
	}
	return peer.Reply{Result: got, Failure: f.failure}
}

// members reads the members of the answer up to the rows (inRows is then set), or behind them to the answer's
// end.
func (f *feed) members() error {
	f.allow(maxItem)
	if f.StackDepth() == 0 {
		if err := f.begin(jsontext.KindBeginObject, "an object"); err != nil {
			return err
		}
	}
	for f.PeekKind() != jsontext.KindEndObject {
		name, err := f.ReadToken()
		if err != nil {
			return err
		}
		switch name.String() {
		case "results":
			f.inRows, f.hasRows = true, true
			return f.begin(jsontext.KindBeginArray, "an array")
		case "last_seq":
			f.lastSeq, err = f.seq()
		case "pending":
			f.pending, err = f.count()
		default:
			err = f.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if _, err := f.ReadToken(); err != nil {
		return err
	}
	if !f.hasRows {
		return malformed("answered JSON without results, so it is not a changes feed")
	}
	return f.end()
}

// seq reads a sequence, empty if the value is none.
func (s *stream) seq() (peer.Seq, error) {
	raw, err := s.ReadValue()
	return seqOf(raw), err
}

// count reads a number of changes, -1 if the value is none.
func (s *stream) count() (int64, error) {
	raw, err := s.ReadValue()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		return -1, nil
	}
	return n, nil
}

// readRow reads a row. A broken row fails the whole answer: its sequence would otherwise be passed, and its
// change lost. Rows without a document (an id of "") are left to the caller.
func (f *feed) readRow() (row, error) {
	f.allow(maxLeaves)
	r := rowReader{stream: f.stream}
	if f.PeekKind() == jsontext.KindBeginObject {
		if err := f.object(r.member); err != nil {
			return row{}, err
		}
	} else if err := f.SkipValue(); err != nil {
		return row{}, err
	}
	if problem := r.problem(); problem != "" {
		return row{}, malformedf("changes row %d (id %q) %s", f.row, clip(r.ID, 60), problem)
	}
	if r.removed { // CouchDB's replicator leaves out the first revision of such a row, too
		r.Revs = r.Revs[min(1, len(r.Revs)):]
	}
	f.row++
	return row{r.Change, sizeOf(r.ID, string(r.Seq)) + sizeOf(r.Revs...)}, nil
}

// rowReader collects the members of a row.
type rowReader struct {
	*stream
	peer.Change
	hasID      bool // the id is a string
	hasChanges bool // the changes are an array
	badRev     bool // an element of the changes has no revision
	removed    bool // the row has "removed":true
}

func (r *rowReader) member(name string) (err error) {
	switch name {
	case "seq":
		r.Seq, err = r.seq()
	case "id":
		r.ID, r.hasID, err = r.text()
	case "changes":
		if r.PeekKind() != jsontext.KindBeginArray {
			return r.SkipValue()
		}
		r.hasChanges = true
		return r.array(r.rev)
	case "removed":
		r.removed = r.PeekKind() == jsontext.KindTrue
		return r.SkipValue()
	default:
		err = r.SkipValue()
	}
	return err
}

// rev reads an element of a row's changes, {"rev": ...}.
func (r *rowReader) rev(int) error {
	if r.PeekKind() != jsontext.KindBeginObject {
		r.badRev = true
		return r.SkipValue()
	}
	text := ""
	err := r.object(func(name string) (err error) {
		if name != "rev" {
			return r.SkipValue()
		}
		text, _, err = r.text()
		return err
	})
	r.badRev = r.badRev || text == ""
	r.Revs = append(r.Revs, text)
	return err
}

// problem returns what is wrong with a row that was read to its end, empty if nothing is.
func (r *rowReader) problem() string {
	switch {
	case r.Seq == "":
		return "has no seq"
	case !r.hasID:
		return "has no id that is a string"
	case !r.hasChanges:
		return "has no list of changes"
	case r.badRev:
		return "has a change without rev"
	}
	return ""
}
