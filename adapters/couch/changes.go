package couch

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"couchrelay/core/peer"
	"couchrelay/core/repdoc"
)

// heartbeats is how many signs of life an idle long poll is asked for within the time after which a
// silent connection counts as dead.
const heartbeats = 3

func (p *Pair) readChanges(ctx context.Context, op peer.ReadChanges) peer.Reply {
	if p.filter.Kind == repdoc.DocIDs && !p.noDocIDs.Load() {
		reply := p.feed(ctx, op, p.changesRequest(op, true), nil)
		if reply.Failure == nil || reply.Failure.Kind != peer.Status || reply.Failure.Status != http.StatusMethodNotAllowed {
			return reply
		}
		p.noDocIDs.Store(true)
	}
	if p.filter.Kind == repdoc.DocIDs {
		return p.feed(ctx, op, p.changesRequest(op, false), p.filter.DocIDs)
	}
	return p.feed(ctx, op, p.changesRequest(op, true), nil)
}

// changesRequest asks for changes. Unfiltered, it asks without filter and limit: rows are then chosen
// and counted here.
func (p *Pair) changesRequest(op peer.ReadChanges, filtered bool) request {
	r := request{method: http.MethodGet, path: "_changes", unhurried: true}
	params := []peer.Param{{Name: "feed", Value: "normal"}}
	if op.Wait {
		beat := max(1, p.source.timeout.Milliseconds()/heartbeats)
		params = []peer.Param{{Name: "feed", Value: "longpoll"}, {Name: "heartbeat", Value: strconv.FormatInt(beat, 10)}}
		// A proxy that compresses would keep the heartbeats to itself.
		r.header = append(r.header, peer.Param{Name: "Accept-Encoding", Value: "identity"})
	}
	params = append(params, peer.Param{Name: "style", Value: p.style}, peer.Param{Name: "since", Value: queryText(op.Since)})
	if !filtered {
		r.query = encodeQuery(params...)
		return r
	}
	params = append(params, peer.Param{Name: "limit", Value: strconv.Itoa(op.Limit)})
	r.query = encodeQuery(slices.Concat(p.filter.ChangesParams(), params)...)
	switch p.filter.Kind {
	case repdoc.DocIDs:
		return r.posting(docIDsBody(p.filter.DocIDs))
	case repdoc.Selector:
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

// feed reads an answer with changes. only lists the wanted documents in order, nil wants all.
func (p *Pair) feed(ctx context.Context, op peer.ReadChanges, r request, only []string) peer.Reply {
	a, f := p.source.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Reply{Failure: f}
	}
	c := &changes{stream: newStream(a), limit: op.Limit, only: only}
	c.got = peer.Changes{Pending: -1}
	err := c.read()
	if err == errEnough {
		c.got.LastSeq = c.last
		a.close()
		return peer.Reply{Result: c.got}
	}
	if err != nil {
		c.got.LastSeq = ""
		defer a.close()
		return peer.Reply{Result: c.got, Failure: a.broken(err)}
	}
	a.finish()
	if c.got.LastSeq == "" {
		c.got.LastSeq = c.last
	}
	if c.got.LastSeq == "" {
		c.got.LastSeq = op.Since
	}
	return peer.Reply{Result: c.got}
}

// changes reads the body of one answer.
type changes struct {
	*stream
	limit int
	only  []string
	last  peer.Seq // of the last row
	got   peer.Changes
}

// errEnough ends an answer that has more rows than were asked for.
var errEnough = errors.New("enough rows")

func (c *changes) read() error {
	hasResults := false
	err := c.object(func(name string) (err error) {
		switch name {
		case "results":
			hasResults = true
			return c.array(c.row)
		case "last_seq":
			c.got.LastSeq, err = c.seq()
		case "pending":
			c.got.Pending, err = c.count()
		default:
			err = c.SkipValue()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasResults:
		return malformed("answered JSON without results, so it is not a changes feed")
	}
	return c.end()
}

// seq reads a sequence, empty if there is none.
func (c *changes) seq() (peer.Seq, error) {
	raw, err := c.ReadValue()
	if err != nil || raw.Kind() == jsontext.KindNull {
		return "", err
	}
	return seqOf(raw), nil
}

// count reads a number of changes, -1 if it is something else.
func (c *changes) count() (int64, error) {
	raw, err := c.ReadValue()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		return -1, nil
	}
	return n, nil
}

// row reads one row. Rows before one that is no row count.
func (c *changes) row(i int) error {
	if c.limit > 0 && len(c.got.Rows)+c.got.Skipped == c.limit {
		return errEnough
	}
	c.allow(maxItem)
	row := rowReader{changes: c}
	if c.PeekKind() == jsontext.KindBeginObject {
		if err := c.object(row.member); err != nil {
			return err
		}
	} else if err := c.SkipValue(); err != nil {
		return err
	}
	if problem := row.problem(); problem != "" {
		return malformedf("changes row %d (id %q) %s", i, clip(row.ID, 60), problem)
	}
	if row.removed {
		row.Revs = row.Revs[min(1, len(row.Revs)):]
	}
	c.last = row.Seq
	_, wanted := slices.BinarySearch(c.only, row.ID)
	switch {
	case row.ID == "":
		c.got.Skipped++
	case wanted || c.only == nil:
		c.got.Rows = append(c.got.Rows, row.Change)
	}
	return nil
}

// rowReader is a row while its members are read.
type rowReader struct {
	changes *changes
	peer.Change
	hasID, hasChanges, badRev, removed bool
}

func (r *rowReader) member(name string) (err error) {
	switch name {
	case "seq":
		r.Seq, err = r.changes.seq()
	case "id":
		r.ID, r.hasID, err = r.changes.text()
	case "changes":
		if r.changes.PeekKind() != jsontext.KindBeginArray {
			return r.changes.SkipValue()
		}
		r.hasChanges = true
		return r.changes.array(r.rev)
	case "removed":
		r.removed = r.changes.PeekKind() == jsontext.KindTrue
		return r.changes.SkipValue()
	default:
		err = r.changes.SkipValue()
	}
	return err
}

// rev reads an element of a row's changes.
func (r *rowReader) rev(int) error {
	if r.changes.PeekKind() != jsontext.KindBeginObject {
		r.badRev = true
		return r.changes.SkipValue()
	}
	text := ""
	err := r.changes.object(func(name string) (err error) {
		if name != "rev" {
			return r.changes.SkipValue()
		}
		text, _, err = r.changes.text()
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
