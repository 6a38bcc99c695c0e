package couchdb

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/adapters/web/webtest"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// filled is a site with four changes: a, a conflicted c, a design document, a deleted d.
func filled(t *testing.T, change ...func(o *Options)) *site {
	s := newSite(t, change...)
	for _, doc := range []string{
		`"_id":"a","_rev":"1-a","n":1`, `"_id":"c","_rev":"2-c","n":2`, `"_id":"c","_rev":"2-b","n":3`,
		`"_id":"_design/e","_rev":"1-e"`, `"_id":"d","_rev":"2-d","_deleted":true`,
	} {
		s.Want(`POST /db/_bulk_docs {"new_edits":false,"docs":[{`+doc+`}]}`, 201, `[]`)
	}
	return s
}

const (
	rowA = `{"seq":S,"id":"a","changes":[{"rev":"1-a"}]}`
	rowC = `{"seq":S,"id":"c","changes":[{"rev":"2-c"}]}`
	rowE = `{"seq":S,"id":"_design/e","changes":[{"rev":"1-e"}]}`
	rowD = `{"seq":S,"id":"d","changes":[{"rev":"2-d"}],"deleted":true}`
)

func results(pending string, rows ...string) string {
	return `{"results":[` + "\n" + strings.Join(rows, ",\r\n") + "\n],\n" + `"last_seq":S,"pending":` + pending + `}`
}

func TestChangesNormal(t *testing.T) {
	s := filled(t)
	for query, want := range map[string]string{
		"": results("0", rowA, rowC, rowE, rowD),
		"?style=all_docs&limit=2": results("2", rowA,
			`{"seq":S,"id":"c","changes":[{"rev":"2-c"},{"rev":"2-b"}]}`),
		"?limit=0":                         results("4"),
		"?since=now":                       results("0"),
		"?since=0&limit=1&seq_interval=10": results("3", rowA),
		"?descending=true&limit=2":         results("0", rowD, rowE),
		"?filter=_design":                  results("0", rowE),
		"?filter=_doc_ids&doc_ids=%5B%22d%22,%22a%22%5D": results("0", rowA, rowD),
		"?include_docs=true&limit=1": results("3",
			strings.TrimSuffix(rowA, "}")+`,"doc":{"_id":"a","_rev":"1-a","n":1}}`),
		"?include_docs=true&filter=_doc_ids&doc_ids=%5B%22d%22%5D": results("0",
			strings.TrimSuffix(rowD, "}")+`,"doc":{"_id":"d","_rev":"2-d","_deleted":true}}`),
	} {
		s.Want("GET /db/_changes"+query, 200, want)
	}
	s.Want("GET /db/_changes?limit=2", 200, results("2", rowA, rowC))
	s.Want("GET /db/_changes?limit=1&since=$seq", 200, results("1", rowE))
	s.Want("GET /db/_changes?limit=1&since=$seq&descending=true", 200, results("0", rowD)) // from the end on
	s.Want("GET /db/_changes?limit=3", 200, results("1", rowA, rowC, rowE))
	s.Want(`GET /db/_changes?since=%22$seq%22`, 200, results("0", rowD)) // as JSON
	s.Want(`POST /db/_changes?filter=_doc_ids {"doc_ids":["c"]}`, 200, results("0", rowC))
	s.Want(`POST /db/_changes?filter=_selector {"selector":{"n":{"$gt":1}}}`, 200, results("0", rowC))
	s.Want(`POST /db/_changes?filter=_selector&style=all_docs {"selector":{"n":3}}`, 200,
		results("0", `{"seq":S,"id":"c","changes":[{"rev":"2-b"}]}`))
	s.Want(`POST /db/_changes?filter=_selector {"selector":{"_id":"a"}}`, 200, results("0", rowA))
	s.Want(`POST /db/_changes?filter=_selector {"selector":{"_deleted":true}}`, 200, results("0", rowD))
	s.Want(`POST /db/_changes?filter=_selector&include_docs=true {"selector":{"_id":"a"},"fields":["n","x"]}`, 200,
		results("0", strings.TrimSuffix(rowA, "}")+`,"doc":{"n":1}}`))
	s.Fails(`POST /db/_changes?filter=_selector {"selector":{},"fields":"n"}`, 400, "bad_request",
		"`fields` must be an array of strings")
	s.Want(`POST /db/_changes?limit=1 {}`, 200, results("3", rowA))
	s.Want(`POST /db/_changes?limit=1`, 200, results("3", rowA))
}

func TestChangesRefused(t *testing.T) {
	s := newSite(t)
	for query, reason := range map[string]string{
		"?feed=x":                    "Supported `feed` types: normal, continuous, live, longpoll, eventsource",
		"?style=x":                   "Supported `style` values: main_only, all_docs",
		"?since=x":                   "Malformed sequence supplied in 'since' parameter.",
		"?since=99-x":                "Malformed sequence supplied in 'since' parameter.",
		"?heartbeat=x":               "Invalid heartbeat value. Expecting a positive integer value (in milliseconds).",
		"?heartbeat=0":               "Invalid heartbeat value. Expecting a positive integer value (in milliseconds).",
		"?filter=_nope":              "unknown builtin filter name",
		"?filter=_doc_ids":           "`doc_ids` filter parameter is not a list of doc ids.",
		"?filter=_doc_ids&doc_ids=3": "`doc_ids` filter parameter is not a list of doc ids.",
		"?filter=_selector":          "Selector error: expected a JSON object",
	} {
		s.Fails("GET /db/_changes"+query, 400, "bad_request", reason)
	}
	s.Fails("GET /db/_changes?limit=x", 400, "query_parse_error", "limit must be an integer")
	s.Fails("GET /db/_changes?timeout=-1", 400, "query_parse_error", "timeout not in range of [0,infinity]")
	s.Fails("GET /db/_changes?filter=d/f", 501, "not_implemented", "this server runs no functions of design documents")
	for _, name := range []string{"descending", "include_docs", "conflicts"} {
		s.Fails("GET /db/_changes?"+name+"=x", 400, "query_parse_error", name+" must be true or false")
	}
	s.Fails("GET /db/_changes?seq_interval=0", 400, "query_parse_error", "seq_interval must be at least 1")
	s.Fails("GET /db/_changes?filter=f", 400, "bad_request", "`filter` must be of the form `designname/filtername`")
	s.Fails("GET /db/_changes?filter=d/f/x", 400, "bad_request", "`filter` must be of the form `designname/filtername`")
	s.Fails("GET /db/_changes?filter=_view", 400, "bad_request", "`view` filter parameter is not provided.")
	s.Fails("GET /db/_changes?filter=_view&view=d", 400, "bad_request",
		"`view` must be of the form `designname/viewname`")
	s.Fails(`POST /db/_changes?filter=_selector {"selector":{"a":{"$foo":1}}}`, 400, "bad_request",
		"Invalid operator: $foo")
	s.Fails(`POST /db/_changes {`, 400, "bad_request", "invalid UTF-8 JSON")
	s.Fails(`POST /db/_changes {}`, 415, "bad_content_type", "Content-Type must be application/json", "Content-Type",
		"text/plain")
}

// lines reads a feed line by line.
func (s *site) lines(query string) (next func() string, cancel func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/db/_changes"+query, nil)
	if err != nil {
		s.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	scanner := bufio.NewScanner(answer.Body)
	s.Cleanup(func() { cancel(); answer.Body.Close() })
	return func() string {
		if !scanner.Scan() {
			return "END"
		}
		return webtest.Plain(scanner.Text())
	}, cancel
}

// expect compares lines.
func (s *site) expect(next func() string, want ...string) {
	s.Helper()
	for _, w := range want {
		if got := next(); got != w {
			s.Fatalf("got %s, want %s", got, w)
		}
	}
}

// stopped is a clock that stands still: feeds have only their watches.
func stopped(o *Options) { o.Clock = clock.NewMock() }

func TestChangesLongpoll(t *testing.T) {
	s := filled(t, stopped)
	s.Want("GET /db/_changes?feed=longpoll&limit=1", 200,
		results("3", rowA)) // it does not wait when there is something
	next, _ := s.lines("?feed=longpoll&since=now")
	s.expect(next, `{"results":[`)
	s.Want("PUT /db/new {}", 201, `{"ok":true,"id":"new","rev":"1-*"}`)
	s.expect(next, `{"seq":S,"id":"new","changes":[{"rev":"1-*"}]}`, "],", `"last_seq":S,"pending":0}`, "END")
	// What the filter leaves out does not end it.
	next, _ = s.lines("?feed=longpoll&since=now&filter=_doc_ids&doc_ids=%5B%22w%22%5D")
	s.expect(next, `{"results":[`)
	s.Want("PUT /db/v {}", 201, `{"ok":true,"id":"v","rev":"1-*"}`)
	s.Want("PUT /db/w {}", 201, `{"ok":true,"id":"w","rev":"1-*"}`)
	s.expect(next, `{"seq":S,"id":"w","changes":[{"rev":"1-*"}]}`, "],", `"last_seq":S,"pending":0}`, "END")
}

func TestChangesContinuous(t *testing.T) {
	s := filled(t, stopped)
	next, cancel := s.lines("?feed=continuous&style=main_only")
	s.expect(next, rowA, rowC, rowE, rowD)
	s.Want("PUT /db/new {}", 201, `{"ok":true,"id":"new","rev":"1-*"}`)
	s.expect(next, `{"seq":S,"id":"new","changes":[{"rev":"1-*"}]}`)
	cancel()
	next, _ = s.lines("?feed=live&limit=3")
	s.expect(next, rowA, rowC, rowE, `{"last_seq":S,"pending":2}`, "END")
	next, _ = s.lines("?feed=continuous&since=now&include_docs=true")
	s.Want(`PUT /db/doc {"x":1}`, 201, `{"ok":true,"id":"doc","rev":"1-*"}`)
	s.expect(next, `{"seq":S,"id":"doc","changes":[{"rev":"1-*"}],"doc":{"_id":"doc","_rev":"1-*","x":1}}`)
	s.Want("DELETE /db", 200, `{"ok":true}`)
	s.expect(next, `{"last_seq":S,"pending":0}`, "END")
}

// TestChangesEventSource: the feed is what browsers read as server-sent events, and goes on where they say.
func TestChangesEventSource(t *testing.T) {
	s := filled(t, stopped)
	answer := s.Ask("GET /db/_changes?feed=eventsource&timeout=0")
	events := strings.SplitAfter(s.Text(answer)+"\n", "\n\n")
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" || len(events) != 5 || events[4] != "" ||
		answer.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("%s %q", kind, events)
	}
	for i, row := range []string{rowA, rowC, rowE, rowD} {
		if want := "data: " + row + "\nid: " + last(t, events[i]) + "\n\n"; events[i] != want {
			t.Errorf("%q, want %q", events[i], want)
		}
	}
	s.Want("GET /db/_changes?feed=eventsource&timeout=0&since=0", 200, strings.TrimSuffix(events[3], "\n"),
		"Last-Event-ID", last(t, events[2]))
	s.Want("GET /db/_changes?timeout=0&limit=1", 200, results("3", rowA), "Last-Event-ID", last(t, events[2]))

	next, _ := s.lines("?feed=eventsource&since=now")
	s.Want("PUT /db/new {}", 201, `{"ok":true,"id":"new","rev":"1-*"}`)
	s.expect(next, `data: {"seq":S,"id":"new","changes":[{"rev":"1-*"}]}`)
	next, _ = newSite(t).lines("?feed=eventsource&heartbeat=10")
	s.expect(next, "event: heartbeat", "data: ", "")
}

// last is the id of an event, which is JSON.
func last(t *testing.T, event string) string {
	t.Helper()
	_, id, found := strings.Cut(strings.TrimSpace(event), "\nid: ")
	if !found || !strings.HasPrefix(id, `"`) {
		t.Fatalf("%q", event)
	}
	return id
}

// TestChangesLockedOut: a feed ends before its next row once the client may not read the database any more.
func TestChangesLockedOut(t *testing.T) {
	var locked atomic.Bool
	s := filled(t, stopped, func(o *Options) {
		o.Access = func(q *web.Request) error {
			if locked.Load() && q.Method == "GET" {
				return web.Forbidden("You are not allowed to access this db.")
			}
			return nil
		}
	})
	next, _ := s.lines("?feed=continuous")
	s.expect(next, rowA, rowC, rowE, rowD)
	locked.Store(true)
	s.Want("PUT /db/x {}", 201, `{"ok":true,"id":"x","rev":"1-*"}`)
	s.expect(next, `{"last_seq":S,"pending":0}`, "END")
}

// TestChangesRecreated: a feed does not go on in another database of the same name.
func TestChangesRecreated(t *testing.T) {
	var o Options
	s := filled(t, stopped, func(opts *Options) { o = *opts })
	next, _ := s.lines("?feed=continuous&since=now")
	err := kv.Do(t.Context(), o.Store, func(tx kv.Tx) error {
		db, err := o.Docs.Open(tx, "db")
		if err != nil {
			return err
		}
		if err := o.Docs.Delete(tx, "db", db.Instance); err != nil {
			return err
		}
		return o.Docs.Create(tx, "db", tuple.UUID{9}, 9)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Want("PUT /db/x {}", 201, `{"ok":true,"id":"x","rev":"1-*"}`)
	s.expect(next, `{"last_seq":S,"pending":0}`, "END")
}

// TestChangesWhileWriting: a normal feed ends where the database was when it began.
func TestChangesWhileWriting(t *testing.T) {
	var s *site
	var busy atomic.Bool
	write := func() { s.Text(s.Ask("POST /db {}")) }
	server := New(Options{Store: fakefdb.New(), Docs: docs.New(tuple.Subspace("docs"))})
	s = &site{webtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && busy.Load() {
			w = interrupted{w, write}
		}
		server.ServeHTTP(w, r)
	}))}
	s.Want("PUT /db", 201, `{"ok":true}`)
	many(s, 250)
	busy.Store(true)
	text := s.Text(s.Ask("GET /db/_changes?include_docs=true"))
	busy.Store(false)
	if rows := strings.Count(text, `"changes"`); rows != 250 {
		t.Errorf("%d rows, want 250", rows)
	}
}

// interrupted is an answer during which something happens for every part that is sent.
type interrupted struct {
	http.ResponseWriter
	happen func()
}

func (i interrupted) Write(p []byte) (int, error) {
	i.happen()
	return i.ResponseWriter.Write(p)
}

// many writes documents 0, 1 ... n-1 of revision 1-x.
func many(s *site, n int) {
	var edits []string
	for i := range n {
		edits = append(edits, fmt.Sprintf(`{"_id":"%d","_rev":"1-x"}`, i))
	}
	s.Want(`POST /db/_bulk_docs {"new_edits":false,"docs":[`+strings.Join(edits, ",")+`]}`, 201, `[]`)
}

// TestChangesTime moves the clock: feeds give signs of life, or end.
func TestChangesTime(t *testing.T) {
	mock := clock.NewMock()
	s := filled(t, func(o *Options) { o.Clock = mock })
	var ticking sync.WaitGroup
	stop := make(chan struct{})
	ticking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				mock.Add(time.Second)
			}
		}
	})
	t.Cleanup(func() { close(stop); ticking.Wait() })
	next, cancel := s.lines("?feed=continuous&since=now&heartbeat=30000")
	s.expect(next, "", "")
	cancel()
	next, cancel = s.lines("?feed=longpoll&since=now&heartbeat=true")
	s.expect(next, `{"results":[`, "", "")
	cancel()
	next, _ = s.lines("?feed=continuous&since=now&timeout=20000")
	s.expect(next, `{"last_seq":S,"pending":0}`, "END")
	s.Want("GET /db/_changes?feed=longpoll&since=now", 200, results("0"))
	s.Want("GET /db/_changes?feed=longpoll&since=now&timeout=0", 200, results("0"))
}

// begun is a store that counts transactions.
type begun struct {
	kv.Database
	n *atomic.Int64
}

func (b begun) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	b.n.Add(1)
	return b.Database.Begin(ctx, o)
}

// TestSignsReadNothing: a sign of life a millisecond does not have the store read as often, and changes come as ever.
func TestSignsReadNothing(t *testing.T) {
	var transactions atomic.Int64
	s := filled(t, func(o *Options) { o.Store = begun{o.Store, &transactions} })
	next, _ := s.lines("?feed=continuous&since=now&heartbeat=1")
	before := transactions.Load()
	s.expect(next, slices.Repeat([]string{""}, 200)...)
	if n := transactions.Load() - before; n > 50 {
		t.Errorf("%d transactions for 200 signs of life", n)
	}
	s.Want(`PUT /db/z {}`, 201, `{"ok":true,"id":"z","rev":"1-*"}`)
	line := next()
	for line == "" {
		line = next()
	}
	if !strings.Contains(line, `"id":"z"`) {
		t.Error(line)
	}
}

// watching is a store that counts the watches that have not ended.
type watching struct {
	kv.Database
	open *atomic.Int64
}

type watchingTx struct {
	kv.Transaction
	open *atomic.Int64
}

type counted struct {
	kv.Watch
	end func()
}

func (w watching) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return watchingTx{w.Database.Begin(ctx, o), w.open}
}

func (tx watchingTx) Watch(keys ...[]byte) kv.Watch {
	tx.open.Add(1)
	return counted{tx.Transaction.Watch(keys...), sync.OnceFunc(func() { tx.open.Add(-1) })}
}

func (w counted) Cancel() {
	w.end()
	w.Watch.Cancel()
}

// TestWatchesEnd: no feed leaves a watch behind, of which a store has 10,000, also if it ends before it waits.
func TestWatchesEnd(t *testing.T) {
	var open atomic.Int64
	s := newSite(t, func(o *Options) { o.Store = watching{o.Store, &open} })
	for _, feed := range []string{"longpoll", "continuous"} {
		for _, query := range []string{"&limit=0", "&timeout=1", "&since=now&limit=0"} {
			reply := s.Ask("GET /db/_changes?feed=" + feed + query)
			if reply.Body.Close(); reply.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", feed+query, reply.Status)
			}
		}
	}
	for range 2000 {
		if open.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d watches are left", open.Load())
}
