package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/web/relay"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// couch answers as a CouchDB 3 does, by the texts of its documentation.
type couch struct {
	*httptest.Server
	clock    *clock.Mock
	jobs     func(look int) []string
	tasks    func(look int) string
	docs     []string
	config   map[string]string // answers by path
	requests atomic.Int64
	looks    int
}

var epoch = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func newCouch(t *testing.T) *couch {
	c := &couch{clock: clock.NewMock(), config: map[string]string{}, tasks: func(int) string { return "[]" }}
	c.clock.Set(epoch)
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *couch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	w.Header().Set("Date", c.clock.Now().UTC().Format(http.TimeFormat))
	if user, password, ok := r.BasicAuth(); !ok || user != "adm" || password != "hush" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"unauthorized","reason":"You are not a server admin."}`)
		return
	}
	page := func(list []string, member string) {
		skip, _ := strconv.Atoi(r.URL.Query().Get("skip"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		rows := list[min(skip, len(list)):min(skip+limit, len(list))]
		fmt.Fprintf(w, `{"total_rows":%d,"offset":%d,%q:[%s]}`, len(list), skip, member, strings.Join(rows, ","))
	}
	switch path := r.URL.Path; {
	case path == "/":
		fmt.Fprint(w, `{"couchdb":"Welcome","version":"3.5.0","vendor":{"name":"The Apache Software Foundation"}}`)
	case path == "/_active_tasks":
		c.looks++
		fmt.Fprint(w, c.tasks(c.looks))
	case path == "/_scheduler/jobs":
		page(c.jobs(c.looks), "jobs")
	case strings.HasPrefix(path, "/_scheduler/docs/"):
		page(c.docs, "docs")
	case c.config[path] != "":
		fmt.Fprint(w, c.config[path])
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"not_found","reason":"missing"}`)
	}
}

func (c *couch) login() string { return strings.Replace(c.URL, "http://", "http://adm:hush@", 1) }

// row is a job as /_scheduler/jobs shows it. Times are seconds before the beginning of the capture.
func row(database, doc, id, source, pid string, start int, info string, history ...any) string {
	when := func(ago int) string { return epoch.Add(-time.Duration(ago) * s).Format(time.RFC3339) }
	events := []string{}
	for i := 0; i < len(history); i += 2 {
		events = append(events, fmt.Sprintf(`{"timestamp":%q,"type":%q}`, when(history[i].(int)), history[i+1]))
	}
	return fmt.Sprintf(`{"database":%s,"id":%s,"pid":%s,"source":%q,"target":"http://t/x/","user":null,"doc_id":%s,`+
		`"info":%s,"history":[%s],"node":"n@h","start_time":%q}`,
		database, id, pid, source, doc, info, strings.Join(events, ","), when(start))
}

func info(checked, pending int) string {
	return fmt.Sprintf(`{"revisions_checked":%d,"missing_revisions_found":3,"docs_read":3,"docs_written":3,`+
		`"changes_pending":%d,"doc_write_failures":0,"checkpointed_source_seq":"5-x"}`, checked, pending)
}

// watched runs a capture with names and a watch of a minute, by a clock that goes on whenever it waits.
func (c *couch) watched(t *testing.T) *Capture {
	t.Helper()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				if c.clock.Now().Equal(epoch) {
					c.clock.WaitForAllTimers()
				}
			}
		}
	}()
	got, err := Server(t.Context(), c.login(), Options{Names: true, Watch: time.Minute, Clock: c.clock})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestServerOfCouchDB: two looks at a CouchDB, one minute apart, become a workload; it takes all pages.
func TestServerOfCouchDB(t *testing.T) {
	c := newCouch(t)
	many := []string{}
	for i := range 1100 {
		many = append(many, row(`"shards/80000000-ffffffff/bulk/_replicator.1700000000"`, fmt.Sprintf(`"d%04d"`, i),
			fmt.Sprintf(`"x%d"`, i), "https://bulk.example/db/", "null", 50, "null", 50, "added"))
	}
	c.jobs = func(look int) []string {
		list := []string{
			row(`"_replicator"`, `"live"`, `"aa+continuous"`, "http://a.example:5984/db/", `"<0.1.2>"`, 1000,
				info(100*look, 900-60*look),
				30, "started", 40, "crashed", 100, "started", 110, "added"),
			row("null", "null", `"bb"`, "http://b.example/db/", "null", 1000, info(5, 17), 1000, "added"),
		}
		if look == 1 {
			list = append(list,
				row(`"_replicator"`, `"gone"`, `"cc+continuous"`, "http://a.example:5984/x/", "null", 10, "null"))
		} else {
			list = append(list,
				row(`"_replicator"`, `"late"`, `"dd+continuous"`, "http://a.example:5984/x/", "null", -20, "null"))
		}
		return append(list, many...)
	}
	c.tasks = func(look int) string {
		return fmt.Sprintf(`[{"type":"indexer"},{"type":"replication",`+
			`"replication_id":"aa+continuous","continuous":true,`+
			`"started_on":%d,"revisions_checked":%d,"missing_revisions_found":9,`+
			`"changes_pending":%d,"docs_written":9}]`,
			epoch.Unix()-30, 1200*look, 900-60*look)
	}
	c.docs = []string{
		`{"state":"completed","info":{"revisions_checked":40,"missing_revisions_found":31,"docs_written":30,
			"doc_write_failures":1}}`,
		`{"state":"failed","info":{"error":"x"}}`}
	c.config["/_node/_local/_config/replicator"] = `{"max_jobs":"300","interval":"60000","interval_sec":"60",
		"health_threshold_sec":"90","password":"hush","update_docs":"true"}`
	c.config["/_node/_local/_config/replicator.shares"] = `{"_replicator":"200"}`
	got := c.watched(t)
	jobs := byID(t, got)
	if len(jobs) != 1104 {
		t.Errorf("%d jobs", len(jobs))
	}
	// 1,200 changes were done and 60 fewer wait: 19 a second came, and 20 a second are copied. It ran from 100 s
	// ago to a crash 40 s ago, and from 30 s ago to a minute from now.
	live := jobs["_replicator/live"]
	if !live.Continuous || live.Rate != 19 || live.Speed != 20 || live.Backlog != 840 || live.MTBF != 150*s ||
		live.Submit != 0 {
		t.Errorf("live: %+v", live)
	}
	if b := jobs["bb of "]; b.Continuous || b.Backlog != 17 || got.Workload.Accounts[b.Account].Name != "user:" ||
		b.Server == live.Server {
		t.Errorf("bb: %+v", b)
	}
	if j := jobs["_replicator/gone"]; j.Remove != time.Minute {
		t.Errorf("gone: %+v", j)
	}
	if j := jobs["_replicator/late"]; j.Submit != 20*s || j.Remove != 0 || j.Server != live.Server {
		t.Errorf("late: %+v", j)
	}
	if j := jobs["bulk/_replicator/d0700"]; j.Backlog != 40 ||
		got.Workload.Accounts[j.Account].Name != "bulk/_replicator" {
		t.Errorf("d0700, whose size is that of what completed or tells it: %+v", j)
	}
	if a := got.Workload.Accounts[live.Account]; a.Shares != 200 {
		t.Errorf("%+v", a)
	}
	const ini = "[replicator]\nmax_jobs = 300\ninterval = 60000\nhealth_threshold_sec = 90\n" +
		"[replicator.shares]\n_replicator = 200\n"
	if got.INI() != ini {
		t.Errorf("settings: %s", got.INI())
	}
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "completed (2)") && !strings.Contains(notes,
		"completed (1)") {
		t.Errorf("notes: %s", notes)
	}
	hidden := c.once(t)
	var text bytes.Buffer
	if err := hidden.Workload.WriteTrace(&text); err != nil {
		t.Fatal(err)
	}
	all := text.String() + hidden.INI() + strings.Join(hidden.Notes, "\n")
	for _, secret := range []string{"example", "hush", "adm", "bulk", "live", "127.0.0.1"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is told", secret)
		}
	}
}

// TestEndedBetweenLooks: a one-shot that has completed by the second look is a part of the workload, with its size, and
// none of the documents that are not.
func TestEndedBetweenLooks(t *testing.T) {
	c := newCouch(t)
	c.jobs = func(look int) []string {
		return []string{row(`"_replicator"`, `"once"`, `"aa"`, "http://a.example/db/", "null", 100, "null")}[:2-look]
	}
	c.docs = []string{
		`{"doc_id":"once","state":"completed","info":{"revisions_checked":40}}`,
		`{"doc_id":"long-ago","state":"completed","info":{"revisions_checked":70}}`,
	}
	got := c.watched(t)
	if j := byID(t, got)["_replicator/once"]; j.Backlog != 40 {
		t.Errorf("%+v", j)
	}
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "states completed (1)") {
		t.Errorf("notes: %s", notes)
	}
}

// TestParkedAndWeighted: jobs that want no slot are left out, and noted; one that waits for a replication is not taken
// for the job that runs it. Weights are kept.
func TestParkedAndWeighted(t *testing.T) {
	c := newCouch(t)
	of := func(doc, more string) string {
		text := row(`"_replicator"`, strconv.Quote(doc), `"aa+continuous"`, "http://a.example/db/", "null", 100, "null")
		return strings.Replace(text, `"node":`, more+`,"node":`, 1)
	}
	c.jobs = func(int) []string {
		return []string{
			of("heavy", `"weight":300`), of("usual", `"weight":100`), of("odd", `"weight":5000`),
			of("paused", `"weight":100,"pause":{"by":null,"at":null,"reason":"r"}`),
			of("held", `"held_by":"night"`), of("behind", `"waits_for":"aa+continuous"`),
		}
	}
	got, err := Server(t.Context(), c.login(), Options{Names: true, Clock: c.clock})
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]int64{}
	for id, j := range byID(t, got) {
		weights[id] = j.Weight
	}
	if want := map[string]int64{"_replicator/heavy": 300, "_replicator/usual": 0, "_replicator/odd": 0}; !maps.Equal(
		weights, want) {
		t.Errorf("weights of jobs: %v, want %v", weights, want)
	}
	if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, " 3 jobs that are paused") }) {
		t.Errorf("notes: %q", got.Notes)
	}
}

// once looks once, without names.
func (c *couch) once(t *testing.T) *Capture {
	t.Helper()
	c.looks = 0
	got, err := Server(t.Context(), c.login(), Options{Clock: c.clock})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestErrorsOfServers: a server that cannot be read is an error that says what to do, and has no password.
func TestErrorsOfServers(t *testing.T) {
	c := newCouch(t)
	c.jobs = func(int) []string { return nil }
	answers := func(status int, body string) string {
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if status == http.StatusFound {
				w.Header().Set("Location", "http://elsewhere/")
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(site.Close)
		return site.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	onlyRoot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, `{"express-pouchdb":"Welcome!"}`)
	}))
	t.Cleanup(onlyRoot.Close)
	for _, test := range []struct {
		address, want string
		is            error
	}{
		{"localhost:5984", "the address of a server must be http://HOST:PORT", nil},
		{"ftp://h/", "the address of a server must be http://HOST:PORT", nil},
		{"http://u:hush@h:x/", "the address of a server must be http://HOST:PORT", nil},
		{c.URL, "needs a login: put that of an admin into the address, http://USER:PASSWORD@HOST:PORT", ErrLogin},
		{strings.Replace(c.login(), "hush", "hush2", 1), `needs a login: it refuses user "adm", or the password`,
			ErrLogin},
		{strings.Replace(closed.URL, "://", "://adm:hush@", 1), "connection refused", nil},
		{answers(200, "<html>"), "the answer is not the JSON that is expected", nil},
		{answers(500, `{"error":"e","reason":"r"}`), "answered 500 e r", nil},
		{answers(302, ""), `answered 302, a redirect to "http://elsewhere/"`, nil},
		{onlyRoot.URL, "/_scheduler/jobs: answered 404", nil},
	} {
		_, err := Server(t.Context(), test.address, Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s", test.address, err, test.want)
		}
	}
}

// TestSilentServer: a server that accepts and is silent is given up, and at once when the capture is cancelled.
func TestSilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	address := "http://" + silent.Addr().String()
	if answerTime >= 10*s {
		t.Errorf("it may take %s", answerTime)
	}
	c, err := newClient(address)
	if err != nil {
		t.Fatal(err)
	}
	c.patience = 50 * time.Millisecond
	if _,
		err := c.get(t.Context(), "", nil, nil); !errors.Is(err,
		ErrSilent) || err.Error() != "does not answer within 50ms" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _,
		err := Server(ctx, address, Options{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*s {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// TestCancelledWatch: the wait between the looks ends with its context.
func TestCancelledWatch(t *testing.T) {
	c := newCouch(t)
	c.jobs = func(int) []string { return nil }
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Server(ctx, c.login(), Options{Watch: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// host is what a service asks of its process.
type host struct{}

func (host) NodeName() string        { return "n" }
func (host) Roles() node.Roles       { return node.AllRoles }
func (host) MaintenanceMode() string { return "false" }

func (host) Config(context.Context) map[string]map[string]relay.Setting {
	return map[string]map[string]relay.Setting{
		"replicator":        {"max_jobs": {Value: "7"}, "interval": {Value: "1m30s"}},
		"replicator.shares": {"shop/_replicator": {Value: "300"}},
	}
}

func (host) ReloadConfig(context.Context) error { return nil }
func (host) ChangeConfig(context.Context, relay.ConfigChange) (map[string]relay.Setting, error) {
	return nil, nil
}

// mute is a host that tells no configuration.
type mute struct{ host }

func (mute) Config(context.Context) map[string]map[string]relay.Setting { return nil }

func newRelay(t *testing.T, h relay.Host) *httptest.Server {
	service := httptest.NewServer(relay.New(relay.Options{
		DB: fakefdb.New(), Clock: clock.New(), Host: h,
		Store: jobstore.New(tuple.Subspace("service"),
			jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1})),
	}))
	t.Cleanup(service.Close)
	return service
}

// TestMuteCouchrelay: a note names each setting that the server does not tell.
func TestMuteCouchrelay(t *testing.T) {
	c, err := Server(t.Context(), newRelay(t, mute{}).URL, Options{})
	if err != nil || !slices.ContainsFunc(c.Notes, func(n string) bool {
		return strings.HasPrefix(n, "[replicator] could not be read: answered 404")
	}) {
		t.Errorf("%v: %+v", err, c)
	}
}

// TestServerOfCouchrelay: a couchrelay is read, with its configuration.
func TestServerOfCouchrelay(t *testing.T) {
	service := newRelay(t, host{})
	put := func(path string, body any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, service.URL+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatal(path, answer, err)
		}
		answer.Body.Close()
	}
	put("/_replicator", nil)
	put("/shop%2F_replicator", nil)
	put("/_replicator/one", map[string]any{"source": "http://u:hush@a/x", "target": "http://b/x"})
	put("/shop%2F_replicator/two", map[string]any{"source": "http://a/y", "target": "http://b/y", "continuous": true})
	put("/shop%2F_replicator/four",
		map[string]any{"source": "http://a/p", "target": "http://b/p", "continuous": true, "paused": true})
	put("/shop%2F_replicator/thr%2Bee",
		map[string]any{"source": "http://c/y", "target": "http://b/z", "continuous": true, "filter": "d/f",
			"weight": 300})
	c, err := Server(t.Context(), service.URL, Options{Names: true})
	if err != nil {
		t.Fatal(err)
	}
	jobs := byID(t, c)
	one, two, three := jobs["_replicator/one"], jobs["shop/_replicator/two"], jobs["shop/_replicator/thr+ee"]
	if len(jobs) != 3 || one.Continuous || !two.Continuous || !three.Continuous || one.Account == two.Account ||
		two.Weight != 0 || three.Weight != 300 ||
		one.Server != two.Server || two.Server == three.Server {
		t.Errorf("%+v", jobs)
	}
	want := "[replicator]\nmax_jobs = 7\ninterval = 1m30s\n[replicator.shares]\nshop/_replicator = 300\n"
	if ini := c.INI(); ini != want {
		t.Errorf("%s\nnotes: %q", ini, c.Notes)
	}
}

// TestJobsThatEndMeanwhile: a job that ends between two pages of a couchrelay's list hides none of the others.
func TestJobsThatEndMeanwhile(t *testing.T) {
	service := newRelay(t, host{})
	send := func(method, path string, body any) (answer []struct{ Rev string }) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, bytes.NewReader(text))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		service.Config.Handler.ServeHTTP(w, r)
		if w.Code >= 300 {
			t.Fatal(path, w.Code, w.Body)
		}
		_ = json.Unmarshal(w.Body.Bytes(), &answer) // others are of no interest
		return answer
	}
	send("PUT", "/_replicator", nil)
	var docs []any
	for n := range 2*pageSize + 1 {
		docs = append(docs, map[string]any{"_id": fmt.Sprintf("j%04d", n), "source": "http://a/x",
			"target": fmt.Sprintf("http://b/x%d", n)})
	}
	revs := send("POST", "/_replicator/_bulk_docs", map[string]any{"docs": docs})
	pages := 0
	changing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.Config.Handler.ServeHTTP(w, r)
		if r.URL.Path == "/_scheduler/jobs" {
			if pages++; pages == 1 {
				send("DELETE", "/_replicator/j0000?rev="+revs[0].Rev, nil)
			}
		}
	}))
	defer changing.Close()
	c, err := Server(t.Context(), changing.URL, Options{Names: true})
	if err != nil || len(c.Workload.Jobs) != len(docs) || pages != 3 {
		t.Errorf("%d jobs of %d in %d pages: %v", len(c.Workload.Jobs), len(docs), pages, err)
	}
}
