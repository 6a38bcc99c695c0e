package couch

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"

	"github.com/go-json-experiment/json/jsontext"
)

// heartbeats is how many signs of life a feed without rows is asked for within the time after which a
// silent connection counts as dead, and slowest how long the next one may take: proxies often cut after a minute.
const (
	heartbeats = 3
	slowest    = 20 * time.Second
)

// maxRows bounds what one read keeps of a feed, in bytes: a row may have maxItem, and there are thousands.
const maxRows = 8 << 20

// slowRead is how long a read waits for more rows once it has one. A filter may let few through, and what is here
// should be copied, and not be lost when the run ends.
const slowRead = time.Second

// readChanges goes on with the feed that the last read left open, if this one starts where that one
// ended, and else opens one. So it does when the open one has broken off: the last read would have told of
// that together with what it brought, if it had waited longer.
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

func cutOff(f *peer.Failure) bool {
	return f != nil && (f.Kind == peer.Broken || f.Kind == peer.TimedOut)
}

// readFeed reads a part of a feed and leaves it for the next read, unless it has ended.
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

// takeFeed takes the open feed out of the pair, so that one read has it.
func (p *Pair) takeFeed() *feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.feed
	p.feed = nil
	return f
}

// leaveFeed keeps a feed for the next read. While nobody reads, the server has to wait.
func (p *Pair) leaveFeed(f *feed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.feed != nil {
		f.close()
		return
	}
	p.feed = f
}

// openFeed asks for changes. The request outlives the operation, as the feed does.
func (p *Pair) openFeed(ctx context.Context, op peer.ReadChanges) (*feed, *peer.Failure) {
	long, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer unhook()
	f := &feed{cancel: cancel, wait: op.Wait, pending: -1, last: op.Since, rows: make(chan row), left: make(chan struct{})}
	filtered := p.filter.Kind != spec.DocIDs || !p.noDocIDs.Load()
	a, failure := p.source.ask(long, p.changesRequest(op, filtered), http.StatusOK)
	if filtered && p.filter.Kind == spec.DocIDs && failure != nil && failure.Kind == peer.Status && failure.Status == http.StatusMethodNotAllowed {
		p.noDocIDs.Store(true)
		filtered = false
		a, failure = p.source.ask(long, p.changesRequest(op, filtered), http.StatusOK)
	}
	if failure != nil {
		return nil, failure
	}
	f.answer, f.stream = a, newStream(a)
	if !filtered {
		f.only = p.filter.DocIDs
	}
	go f.pump()
	return f, nil
}

// changesRequest asks for all changes, or for the next ones to come. Unfiltered, rows are chosen here,
// which includes counting those of a long poll.
func (p *Pair) changesRequest(op peer.ReadChanges, filtered bool) request {
	r := request{method: http.MethodGet, path: "_changes", unhurried: true}
	// CouchDB shows that it is at work by newlines: while a long poll waits, and while a filter lets nothing
	// through. A proxy that compresses would keep them to itself.
	r.header = append(r.header, peer.Param{Name: "Accept-Encoding", Value: "identity"})
	kind, beat := "normal", max(1, min(p.source.timeout/heartbeats, slowest).Milliseconds())
	if op.Wait {
		kind = "longpoll"
	}
	params := []peer.Param{{Name: "feed", Value: kind}, {Name: "heartbeat", Value: strconv.FormatInt(beat, 10)}}
	params = append(params, peer.Param{Name: "style", Value: p.style}, peer.Param{Name: "since", Value: queryText(op.Since)})
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

// appendQuoted appends a JSON string. What is no UTF-8 was replaced when it was read.
func appendQuoted(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// feed is an answer with changes that is read in several steps. A goroutine reads the answer, one row ahead of those
// who read the feed, so that they need not wait for a server that is slow to find the next one.
type feed struct {
	*stream
	answer *answer
	cancel context.CancelCauseFunc
	wait   bool     // it is a long poll
	only   []string // the documents wanted, in order; nil wants all
	rows   chan row // closed at the end of the answer
	left   chan struct{}

	// Of the goroutine, until rows is closed.
	inRows  bool     // the next to read is a row or the end of all rows
	hasRows bool     // the rows have begun
	row     int      // that is read next
	lastSeq peer.Seq // as the server says
	pending int64
	failure *peer.Failure // how the answer ended

	// Of whoever reads.
	last  peer.Seq // of the last row read, at first where the feed starts
	begun bool     // a row was read
	ahead *row     // that is read next, when it is here
}

// row is a row of a feed with the bytes that are kept of it.
type row struct {
	peer.Change
	size int
}

// pump reads the answer to its end, or until the feed is closed.
func (f *feed) pump() {
	defer close(f.rows)
	defer f.answer.close()
	if err := f.pass(); err != nil {
		f.failure = f.answer.broken(err)
		return
	}
	f.answer.finish()
}

// pass passes the rows on as they come.
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
		case <-f.left:
			return context.Canceled
		}
	}
}

// close ends the feed, read or not. Nobody may be reading it.
func (f *feed) close() {
	f.cancel(nil)
	close(f.left)
	for range f.rows { // until the goroutine is gone
	}
}

// read reads up to limit rows, or fewer when they are large or come slowly. A long poll is read to its end, which
// comes at once.
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
		case next.ID == "":
			got.Skipped++
		case wanted || f.only == nil:
			got.Rows = append(got.Rows, next.Change)
			size += next.size
		}
	}
	if f.begun {
		got.LastSeq = f.last
	}
	return peer.Reply{Result: got}
}

// peek waits for the next row, which is nil at the end of the answer, and says false when it is not here in time.
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

// ended tells how the answer ended.
func (f *feed) ended(got peer.Changes) peer.Reply {
	if got.End = f.failure == nil; got.End {
		got.LastSeq, got.Pending = f.lastSeq, f.pending
	}
	if got.LastSeq == "" && (f.begun || got.End) {
		got.LastSeq = f.last
	}
	return peer.Reply{Result: got, Failure: f.failure}
}

// members reads what stands around the rows: up to them, or to the end of the answer.
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

// seq reads a sequence, empty if there is none.
func (s *stream) seq() (peer.Seq, error) {
	raw, err := s.ReadValue()
	return seqOf(raw), err
}

// count reads a number of changes, -1 if it is something else.
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

func (f *feed) readRow() (row, error) {
	f.allow(maxItem)
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
	if r.removed {
		r.Revs = r.Revs[min(1, len(r.Revs)):]
	}
	f.row++
	return row{r.Change, sizeOf(r.ID, string(r.Seq)) + sizeOf(r.Revs...)}, nil
}

// rowReader is a row while its members are read.
type rowReader struct {
	*stream
	peer.Change
	hasID, hasChanges, badRev, removed bool
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

// rev reads an element of a row's changes.
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

// problem says what is wrong with a row that was read whole.
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
