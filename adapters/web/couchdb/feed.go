package couchdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// feedPage is a page of a feed and the state of the database in the same transaction.
type feedPage struct {
	docs.Page
	instance tuple.UUID
	end      docs.Seq // of the last change
	watch    kv.Watch // nil unless there was nothing to read
}

// run sends the feed page by page and waits in between.
func (f *feed) run() error {
	for {
		if goesOn, err := f.page(); !goesOn || err != nil {
			return err
		}
	}
}

// page sends the next page, and waits for changes if there are none. It reports whether the feed goes on.
func (f *feed) page() (goesOn bool, err error) {
	if f.Began() && locksOut(f.StillMay()) {
		return false, f.end(false) // the client learns why when it comes back
	}
	p, err := f.read()
	if err == nil && p.watch != nil {
		defer p.watch.Cancel() // a store has few
	}
	if f.Began() && (errors.Is(err, docs.ErrNoDatabase) || err == nil && p.instance != f.instance) {
		return false, f.end(false) // the database was deleted under the feed
	}
	if f.Began() && errors.Is(err, kv.ErrUnavailable) && f.waits() {
		return false, f.end(false) // the client comes back with last_seq, as after a time without changes
	}
	if err == nil {
		err = f.cut(&p)
	}
	if err == nil && !f.Began() {
		err = f.start(p)
	}
	if err == nil {
		err = f.send(p.Rows)
	}
	if err != nil {
		return false, err
	}
	f.ask.Since = p.Last
	switch {
	case f.left <= 0, !p.More && !f.waits():
		return false, f.end(p.More)
	case p.watch != nil:
		return f.await(p.watch)
	case f.beat && f.quiet() <= 0: // a long search for rows that the filter selects
		return true, f.giveSign()
	}
	return true, nil
}

// locksOut reports whether an error says that the client may not go on.
func locksOut(err error) bool {
	var e *web.Error
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// waits reports whether the feed goes on when there are no more changes.
func (f *feed) waits() bool {
	return !f.ask.Descending && (f.streams() || f.kind == "longpoll" && f.sent == 0)
}

// streams reports whether the feed goes on after it has sent rows.
func (f *feed) streams() bool { return f.kind == "continuous" || f.kind == "eventsource" }

func (f *feed) read() (feedPage, error) {
	query := f.ask
	query.Limit = int(min(f.left, 1<<20))
	if f.choose != nil {
		query.Limit = 1 << 20 // the function may select few of them
	}
	var p feedPage
	_, err := carry(f.request, sizeOfChange, func(_ kv.Tx, db *docs.Database) (_ []docs.Change, err error) {
		p = feedPage{instance: db.Instance}
		if p.Page, err = db.Changes(query); err != nil {
			return nil, err
		}
		if f.failed != nil {
			return nil, f.failed
		}
		if !f.Began() {
			info, err := db.Info()
			if err != nil {
				return nil, err
			}
			p.end = info.UpdateSeq
		}
		if !p.More && len(p.Rows) == 0 && f.waits() {
			p.watch = db.Watch()
		}
		return p.Rows, nil
	})
	if err != nil {
		return feedPage{}, err
	}
	return p, nil
}

// cut leaves of a page what a function selects, and as many rows as may be sent.
func (f *feed) cut(p *feedPage) (err error) {
	if p.Rows, err = f.selected(p.Rows); err != nil {
		return err
	}
	if int64(len(p.Rows)) > f.left {
		p.Rows, p.More, p.Last = p.Rows[:f.left], true, f.ask.Since
		if f.left > 0 {
			p.Last = p.Rows[f.left-1].Seq
		}
	}
	return nil
}

// start begins the answer.
func (f *feed) start(p feedPage) error {
	f.instance, f.alive = p.instance, f.Clock.Now()
	if f.kind == "normal" && !f.ask.Descending {
		f.ask.Until = p.end // later changes are for the next request
	}
	if f.kind == "eventsource" {
		f.W.Header().Set("Cache-Control", "no-cache")
		f.Begin(http.StatusOK, "text/event-stream")
		return nil
	}
	f.Begin(http.StatusOK, "application/json")
	if f.streams() {
		return nil
	}
	_, err := io.WriteString(f.W, `{"results":[`+"\n")
	return err
}

// send writes rows.
func (f *feed) send(rows []docs.Change) error {
	for _, c := range rows {
		if f.sent > 0 && !f.streams() {
			if _, err := io.WriteString(f.W, ",\r\n"); err != nil {
				return err
			}
		}
		if err := f.row(c); err != nil {
			return err
		}
		f.sent++
		f.left--
	}
	if len(rows) > 0 {
		f.alive = f.Clock.Now()
	}
	return nil
}

// changeRow is a row of a feed; the document may follow.
type changeRow struct {
	Seq     *string   `json:"seq"`
	ID      string    `json:"id"`
	Changes []leafRev `json:"changes"`
	Deleted bool      `json:"deleted,omitzero"`
}

type leafRev struct {
	Rev string `json:"rev"`
}

func (f *feed) row(c docs.Change) error {
	revs := make([]leafRev, len(c.Revs))
	for i, rev := range c.Revs {
		revs[i].Rev = rev.String()
	}
	var seq *string
	if int64(f.sent)%f.interval == 0 {
		seq = new(c.Seq.String())
	}
	row := unclosed(encode(changeRow{seq, c.ID, revs, c.Deleted}))
	if f.kind == "eventsource" {
		row = append([]byte("data: "), row...)
	}
	if c.Doc = f.viewed(f.request, c.Doc); c.Doc != nil {
		f.shown.mark(c.Doc, docs.Inline)
		if _, err := f.W.Write(append(row, `,"doc":`...)); err != nil {
			return err
		}
		if err := f.document(c.Doc); err != nil {
			return err
		}
		row = row[:0]
	}
	row = append(row, '}')
	switch f.kind {
	case "continuous":
		row = append(row, '\n')
	case "eventsource":
		row = fmt.Appendf(row, "\nid: %q\n\n", c.Seq)
	}
	_, err := f.W.Write(row)
	return err
}

// document writes the document of a row, or the fields of it that the client wants.
func (f *feed) document(d *docs.Document) error {
	if f.fields == nil {
		return f.writeDocument(f.W, d, f.shown)
	}
	_, err := f.W.Write(onlyFields(*f.fields, asStubs(d).AppendJSON(nil, docs.Format{})))
	return err
}

// end ends the answer with the place where the next request goes on. more says that there are changes
// behind it.
func (f *feed) end(more bool) error {
	if f.kind == "eventsource" {
		return nil // each event has its sequence
	}
	pending := int64(0)
	if more && !f.ask.Descending {
		var err error
		pending, err = do(f.request, func(_ kv.Tx, db *docs.Database) (int64, error) {
			return db.Pending(f.ask.Since)
		})
		if err != nil {
			return err
		}
	}
	last := encode(struct {
		Seq     string `json:"last_seq"`
		Pending int64  `json:"pending"`
	}{f.ask.Since.String(), pending})
	if !f.streams() {
		last = append([]byte("\n],\n"), last[1:]...)
	}
	_, err := f.W.Write(append(last, '\n'))
	return err
}

// quiet is how long the feed may still be without a sign of life.
func (f *feed) quiet() time.Duration { return f.wait - f.Clock.Since(f.alive) }

func (f *feed) giveSign() error {
	f.alive = f.Clock.Now()
	sign := "\n"
	if f.kind == "eventsource" {
		sign = "event: heartbeat\ndata: \n\n"
	}
	if _, err := io.WriteString(f.W, sign); err != nil {
		return err
	}
	return http.NewResponseController(f.W).Flush()
}

// await waits for a change, or until it is time to look again, and gives signs of life meanwhile: these need no
// look. It reports whether the feed goes on.
func (f *feed) await(w kv.Watch) (goesOn bool, err error) {
	quiet := f.quiet()
	switch {
	case quiet > 0:
		err = http.NewResponseController(f.W).Flush()
	case f.beat:
		quiet, err = f.wait, f.giveSign()
	default:
		return false, f.end(false)
	}
	if err != nil {
		return false, err
	}
	change := make(chan struct{})
	go func() {
		if w.Wait(f.Context()) == nil {
			close(change)
		}
	}()
	look, sign := f.Clock.Timer(feedPoll), f.Clock.Timer(quiet)
	defer look.Stop()
	defer sign.Stop()
	for {
		select {
		case <-f.Context().Done():
			if !errors.Is(context.Cause(f.Context()), kv.ErrUnavailable) {
				return false, f.Context().Err()
			}
		case <-change:
		case <-look.C:
		case <-sign.C:
			if !f.beat {
				break // a last look
			}
			if err := f.giveSign(); err != nil {
				return false, err
			}
			sign.Reset(f.wait)
			continue
		}
		return true, nil
	}
}
