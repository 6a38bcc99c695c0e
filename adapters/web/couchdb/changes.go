package couchdb

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/mango"
)

// maxFeedWait is how long a feed waits for changes without a sign of life, and the longest that a
// client can ask for.
const maxFeedWait = time.Minute

// feedPoll is how often a waiting feed looks by itself, should its watch be lost.
const feedPoll = 5 * time.Second

// feed is one request for changes on its way.
type feed struct {
	*request
	ask      docs.Query
	kind     string     // normal, longpoll, continuous, eventsource
	left     int64      // rows that may still be sent
	interval int64      // of rows with a sequence; the others have null
	choose   *selection // the function that selects revisions, nil for none
	wait     time.Duration
	beat     bool // after wait the feed sends a sign of life; without beat it ends
	shown    shown
	fields   *mango.Fields // of documents; nil for all
	failed   error         // why the selector could not be applied to a document
	instance tuple.UUID    // of the database at the first page
	sent     int
	alive    time.Time // when something was last sent
}

func (q *request) changes() error {
	f := &feed{request: q, kind: q.Query.Get("feed")}
	for _, read := range []func() error{f.readQuery, f.readWait, f.readFilter, f.readSince} {
		if err := read(); err != nil {
			return err
		}
	}
	return f.run()
}

func (f *feed) readQuery() (err error) {
	switch f.kind {
	case "", "normal":
		f.kind = "normal"
	case "live", "continuous":
		f.kind = "continuous"
	case "longpoll", "eventsource":
	default:
		return web.BadRequest("Supported `feed` types: normal, continuous, live, longpoll, eventsource")
	}
	if f.left, err = f.Number("limit", 1<<60); err != nil {
		return err
	}
	if f.interval, err = f.Number("seq_interval", 1); err != nil || f.interval == 0 {
		return cmp.Or(err, error(web.QueryError("seq_interval must be at least 1")))
	}
	switch f.Query.Get("style") {
	case "", "main_only":
	case "all_docs":
		f.ask.AllDocs = true
	default:
		return web.BadRequest("Supported `style` values: main_only, all_docs")
	}
	for name, value := range map[string]*bool{
		"descending": &f.ask.Descending, "include_docs": &f.ask.Docs, "conflicts": &f.ask.Conflicts,
	} {
		if *value, err = f.switchOf(name, false); err != nil {
			return err
		}
	}
	f.shown, err = f.request.shown()
	return err
}

// readWait reads timeout and heartbeat, both in milliseconds.
func (f *feed) readWait() error {
	f.wait = maxFeedWait
	timeout, err := f.Number("timeout", maxFeedWait.Milliseconds())
	if err != nil {
		return err
	}
	f.wait = min(f.wait, time.Duration(min(timeout, maxFeedWait.Milliseconds()))*time.Millisecond)
	switch beat := f.Query.Get("heartbeat"); beat {
	case "", "false":
	case "true":
		f.wait, f.beat = maxFeedWait, true
	default:
		ms, err := strconv.ParseInt(beat, 10, 64)
		if err != nil || ms <= 0 {
			return web.BadRequest("Invalid heartbeat value. Expecting a positive integer value (in milliseconds).")
		}
		f.wait, f.beat = min(maxFeedWait, time.Duration(min(ms, maxFeedWait.Milliseconds()))*time.Millisecond), true
	}
	return nil
}

// readSince reads where the feed begins. A descending one always begins at the end.
func (f *feed) readSince() (err error) {
	since := f.Query.Get("since")
	if last := f.Header.Get("Last-Event-ID"); last != "" && f.kind == "eventsource" {
		since = last // a browser connects again
	}
	since = strings.Trim(since, `"`) // some clients send it as JSON
	if f.ask.Descending {
		return nil
	}
	if since == "now" {
		f.ask.Since, err = do(f.request, func(_ kv.Tx, db *docs.Database) (docs.Seq, error) {
			info, err := db.Info()
			return info.UpdateSeq, err
		})
		return err
	}
	f.ask.Since, err = docs.ParseSeq(since)
	return err
}
