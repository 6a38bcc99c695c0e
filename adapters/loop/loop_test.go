package loop

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// sink is a log in memory.
type sink struct{ bytes.Buffer }

func (*sink) Close() error { return nil }

// rig is a loop on a store in memory.
type rig struct {
	*Loop
	t   *testing.T
	log *sink
}

var instance = tuple.UUID{1}

// newRig starts a loop, which ends with the test.
func newRig(t *testing.T) *rig {
	wall := clock.New()
	noTLS := func(name string) (*tls.Config, error) {
		if name != "" {
			return nil, errors.New("no section [tls " + name + "]")
		}
		return &tls.Config{}, nil
	}
	client := couch.New(couch.Options{Version: "x", Clock: wall, TLS: noTLS})
	t.Cleanup(client.Close)
	settings := node.DefaultSettings()
	settings.StartupJitter, settings.PollInterval = 0, 10*time.Millisecond
	log := &sink{}
	store := jobstore.New(tuple.Subspace(tuple.Pack("test")), jobstore.DefaultConfig(repid.Server{UUID: "u"}))
	r := &rig{t: t, log: log, Loop: New(Options{
		Clock: wall, DB: fakefdb.New(), Store: store, Client: client, Logger: slog.New(slog.DiscardHandler),
		Log:  eventlog.NewWriter(log, "test", 0, slog.New(slog.DiscardHandler)),
		Node: node.Config{Settings: settings, Name: "n", Roles: node.AllRoles, Worker: "w", Exclusive: true},
	})}
	r.do(func(tx kv.Tx) error { return store.Docs.Create(tx, "_replicator", instance, r.now()) })
	return r
}

// run runs the loop until the node has left, or the context ends.
func (r *rig) run(ctx context.Context) (left <-chan struct{}) {
	go r.Run(ctx)
	return r.ended
}

func (r *rig) now() instant.Time { return instant.Of(r.Clock.Now()) }

func (r *rig) do(f func(kv.Tx) error) {
	r.t.Helper()
	if err := kv.Do(r.t.Context(), r.DB, f); err != nil {
		r.t.Fatal(err)
	}
}

// put writes a replication document, with body a JSON object.
func (r *rig) put(id, body string) {
	r.t.Helper()
	r.do(func(tx kv.Tx) error {
		db, err := r.Store.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := docs.ParseDocument(fmt.Appendf(nil, `{"_id":%q,%s`, id, body[1:]),
			docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil {
			doc.Rev = old.Rev
		}
		written, err := r.Store.WriteDocs(tx, db, []docs.Edit{{Document: *doc}},
			jobstore.Writer{Admin: true}, r.now())
		if err == nil && written[0].Err != nil {
			err = written[0].Err
		}
		return err
	})
}

// await waits until the job of a document is in a state, and returns its record.
func (r *rig) await(id string, state jobstore.State) (rec *jobstore.Record) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r.do(func(tx kv.Tx) (err error) {
			rec, err = r.Store.Record(tx, jobstore.DocumentJobs(instance)+id)
			return err
		})
		if rec != nil && rec.State == state {
			return rec
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s does not become %s: %+v", id, state, rec)
		}
	}
}

// awaited fails the test if a channel is not closed soon.
func awaited(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
}

// idle is a server whose databases are empty, and whose long polls wait until their clients are gone.
// asked is closed at the first poll, gone when that ends.
func idle(t *testing.T) (server *httptest.Server, asked, gone chan struct{}) {
	asked, gone = make(chan struct{}), make(chan struct{})
	server = answers(t, map[string]string{
		"/db/":                 `{"update_seq":0,"instance_start_time":"0"}`,
		"/_ensure_full_commit": `{"ok":true,"instance_start_time":"0"}`,
	})
	rest := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_changes") && r.URL.Query().Get("feed") == "longpoll":
			close(asked)
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(gone)
		case strings.HasSuffix(r.URL.Path, "/_changes"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"results":[],"last_seq":0,"pending":0}`)
		case r.Method == http.MethodPut:
			_, _ = io.WriteString(w, `{"ok":true,"rev":"0-1"}`)
		default:
			rest.ServeHTTP(w, r)
		}
	})
	return server, asked, gone
}

// TestLoop: jobs run to their ends. A job whose pair cannot be made crashes with the reason, a run whose job
// is taken away gives up its requests, and a drained node leaves. A replay of the log comes to the same
// decisions.
func TestLoop(t *testing.T) {
	server, asked, gone := idle(t)
	r := newRig(t)
	var lines bytes.Buffer // only Run's goroutine writes into it
	r.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	left := r.run(t.Context())
	pair := func(more string) string {
		return fmt.Sprintf(`{"source":"%s/db","target":"%s/db"%s}`, server.URL, server.URL, more)
	}
	r.put("once", pair(""))
	r.put("refused", `{"source":{"url":"https://127.0.0.1:1/db","tls":"none"},"target":"http://127.0.0.1:1/db"}`)
	r.await("once", jobstore.Completed)
	rec := fmt.Sprintf("%+v", r.await("refused", jobstore.Crashing))
	if !strings.Contains(rec, "invalid_replication: source endpoint: no section") {
		t.Errorf("refused: %s", rec)
	}
	r.put("live", pair(`,"continuous":true`))
	awaited(t, "a long poll", asked)
	if n := r.Numbers(t.Context()); len(n) != 1 {
		t.Errorf("numbers of the run: %v", n)
	}
	settings := r.Options.Node.Settings
	settings.MaxJobs = 7
	r.Configure(settings)
	r.put("live", `{"_deleted":true}`)
	awaited(t, "the end of a request of a run that was killed", gone)
	if r.Name() != "n" {
		t.Errorf("it is called %q", r.Name())
	}
	r.Drain()
	awaited(t, "the node to leave", left)
	if len(r.links) > 0 {
		t.Errorf("%d links are left", len(r.links))
	}
	for _, want := range []string{
		`msg=started job=01000000000000000000000000000000|once database=_replicator document=once replication=`,
		`msg=completed job=01000000000000000000000000000000|once`, "msg=crashed", "class=", "error=",
	} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, lines.String())
		}
	}
	r.Drain() // once the loop has ended this returns at once
	if err := r.Log.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := eventlog.Replay(&r.log.Buffer, nil)
	if err != nil || report.Cut || report.Runs != 2 || report.Events < 30 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestLoopKilled: when its context ends a loop drops everything at once.
func TestLoopKilled(t *testing.T) {
	server, asked, gone := idle(t)
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := r.run(ctx)
	r.put("live", fmt.Sprintf(`{"source":"%s/db","target":"%s/db","continuous":true}`,
		server.URL, server.URL))
	awaited(t, "a long poll", asked)
	cancel()
	awaited(t, "the loop to end", left)
	awaited(t, "the end of its requests", gone)
}

// TestLooksAfterTheEnd: once the loop has ended, questions are answered at once.
func TestLooksAfterTheEnd(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := r.run(ctx)
	cancel()
	awaited(t, "the loop to end", left)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if n := r.Numbers(t.Context()); len(n) > 0 {
			t.Errorf("numbers of runs: %v", n)
		}
	}()
	awaited(t, "an answer", looked)
}

// TestFailedTransaction: the node is told why a transaction failed, and not only that it did.
func TestFailedTransaction(t *testing.T) {
	r := newRig(t)
	r.ctx = t.Context()
	go r.ask(node.Ask{ID: 7, Request: node.Record{Held: node.Held{JobID: "gone"}}})
	if done, is := (<-r.events).(node.Done); !is || done.ID != 7 || done.Fault != node.Canceled || done.Text == "" {
		t.Errorf("answered %+v", done)
	}
}

// doubtful is a store that answers its first commit, which succeeds, with an unknown result, and calls told then.
type doubtful struct {
	kv.Database
	told func()
}

func (d *doubtful) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return doubtfulTx{d.Database.Begin(ctx, o), d}
}

type doubtfulTx struct {
	kv.Transaction
	*doubtful
}

func (tx doubtfulTx) Commit() error {
	err := tx.Transaction.Commit()
	if told := tx.told; told != nil && err == nil {
		tx.told = nil
		told()
		return &kv.Error{Code: kv.CommitUnknownResult}
	}
	return err
}

// TestOneMoment: all attempts of a request are of one moment, so that a repetition finds what the first has written.
func TestOneMoment(t *testing.T) {
	r := newRig(t)
	r.ctx = t.Context()
	wall := clock.NewMock()
	r.Clock = wall
	ask := func(q node.Request) {
		t.Helper()
		go r.ask(node.Ask{Request: q})
		if done := (<-r.events).(node.Done); done.Fault != node.Committed {
			t.Fatal(done)
		}
	}
	r.put("a", `{"source":"http://127.0.0.1:1/db","target":"http://127.0.0.1:1/db"}`)
	ask(node.Join{Worker: "w"})
	r.DB = &doubtful{r.DB, func() { wall.Add(time.Second) }}
	ask(node.Accept{Worker: "w", Node: "n", Demand: jobs.Demand{Max: 1}})
	if rec := r.await("a", jobstore.Running); len(rec.History) != 2 {
		t.Errorf("added and started once: %+v", rec.History)
	}
}

// metered counts how often it is told of what runs have done.
type metered struct {
	Meter
	told int
}

func (m *metered) Tallied(replication.Tally) { m.told++ }

// TestConfigure: the node gets the settings, and each event has what runs have done counted.
func TestConfigure(t *testing.T) {
	r, m := newRig(t), &metered{}
	r.Meter, r.ctx = m, t.Context()
	settings := r.Options.Node.Settings
	settings.MaxJobs = 7
	r.Configure(settings)
	ev := <-r.events
	if got, is := ev.(node.Configure); !is || got.Settings != settings {
		t.Errorf("the event is %+v", ev)
	}
	if r.handle(ev); m.told != 1 {
		t.Errorf("told %d times", m.told)
	}
}

// TestRename: the loop tells the name that the node gave itself.
func TestRename(t *testing.T) {
	r := newRig(t)
	if r.perform(node.Rename{Name: "other"}); r.Name() != "other" {
		t.Errorf("it is called %q", r.Name())
	}
}

// TestLevelsOfNotes: what calls for a look is a warning; errors of requests are none while the store is known to be
// away, and their end is no news then.
func TestLevelsOfNotes(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.ctx = t.Context()
	var away error
	r.Away = func() error { return away }
	for _, c := range []struct {
		what  string
		away  error
		level string
	}{
		{"lease", nil, "INFO"},
		{"store_error", nil, "WARN"},
		{"store_back", io.EOF, "INFO"}, // since the error was told
		{"store_error", io.EOF, "DEBUG"},
		{"lease_lost", io.EOF, "WARN"},
		{"store_back", nil, "DEBUG"},
		{"worker_silent", nil, "WARN"},
	} {
		away = c.away
		log.Reset()
		r.perform(node.Note{What: c.what})
		if want := "level=" + c.level + " msg=" + c.what; !strings.Contains(log.String(), want) {
			t.Errorf("%q, want %s", log.String(), want)
		}
	}
	log.Reset()
	if r.perform(node.Note{What: "crashed", Job: "j", Text: "nxdomain: y", Class: "nxdomain"}); !strings.Contains(
		log.String(), `msg=crashed job=j class=network error=nxdomain detail="nxdomain: y"`) {
		t.Errorf("a crash: %q", log.String())
	}
	away, r.Away = io.EOF, nil
	log.Reset()
	r.perform(node.Note{What: "store_error"})
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a store that cannot tell: %q", log.String())
	}
}
