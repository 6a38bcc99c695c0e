package couchdb

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/mango"

	"github.com/go-json-experiment/json/jsontext"
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
	kind     string // normal, longpoll, continuous, eventsource
	left     int64  // rows that may still be sent
	wait     time.Duration
	beat     bool // after wait the feed sends a sign of life; without beat it ends
	shown    shown
	instance tuple.UUID // of the database at the first page
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
	switch f.Query.Get("style") {
	case "", "main_only":
	case "all_docs":
		f.ask.AllDocs = true
	default:
		return web.BadRequest("Supported `style` values: main_only, all_docs")
	}
	f.ask.Descending = f.flag("descending")
	f.ask.Docs, f.ask.Conflicts = f.flag("include_docs"), f.flag("conflicts")
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

// readFilter reads the filter and its arguments, from the query or the body.
func (f *feed) readFilter() error {
	var body []byte
	if f.Method == http.MethodPost && f.ContentLength != 0 {
		var err error
		if body, err = f.jsonBody(); err != nil {
			return err
		}
	}
	members := map[string]jsontext.Value{}
	if len(body) > 0 {
		err := objectMembers(body, func(name string, d *jsontext.Decoder) error {
			value, err := d.ReadValue()
			if members[name] = value.Clone(); err != nil {
				return docs.ErrJSON
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch filter := f.Query.Get("filter"); filter {
	case "":
	case "_design":
		f.ask.ID = func(id string) bool { return strings.HasPrefix(id, "_design/") }
	case "_doc_ids":
		return f.filterIDs(members["doc_ids"])
	case "_selector":
		return f.filterSelector(members["selector"])
	default:
		if strings.HasPrefix(filter, "_") && filter != "_view" {
			return web.BadRequest("unknown builtin filter name")
		}
		return errNotBuilt // a function of a design document
	}
	return nil
}

func (f *feed) filterIDs(list jsontext.Value) error {
	if list == nil {
		list = jsontext.Value(f.Query.Get("doc_ids"))
	}
	var ids []string
	if json.Unmarshal(list, &ids) != nil {
		return web.BadRequest("`doc_ids` filter parameter is not a list of doc ids.")
	}
	f.ask.ID = docs.IDs(ids)
	return nil
}

func (f *feed) filterSelector(raw jsontext.Value) error {
	if raw == nil {
		return web.BadRequest("Selector error: expected a JSON object")
	}
	selector, err := mango.Compile(raw)
	if err != nil {
		return web.BadRequest("%v", err)
	}
	f.ask.Match = func(d *docs.Document) bool {
		if d = f.viewed(f.request, d); d == nil { // else a selector would find out what the client may not see
			return false
		}
		matches, err := selector.Match(d.Body, fieldsOf(d)...)
		return matches && err == nil
	}
	return nil
}

// fieldsOf are the members that a selector sees besides the body's.
func fieldsOf(d *docs.Document) []mango.Field {
	fields := []mango.Field{
		{Name: "_id", Value: docs.AppendQuoted(nil, d.ID)},
		{Name: "_rev", Value: docs.AppendQuoted(nil, d.Rev.String())},
	}
	if d.Deleted {
		fields = append(fields, mango.Field{Name: "_deleted", Value: jsontext.Value("true")})
	}
	return fields
}

// readSince reads where the feed begins. A descending one always begins at the end.
func (f *feed) readSince() (err error) {
	since := f.Query.Get("since")
	if last := f.Header.Get("Last-Event-ID"); f.kind == "eventsource" && last != "" {
		since = last // a browser goes on so
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
