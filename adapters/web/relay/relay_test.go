package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/login"
	"couchrelay/adapters/web/webtest"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// testHost is the process of a service under test.
type testHost struct{}

func (testHost) NodeName() string        { return "n" }
func (testHost) Roles() node.Roles       { return node.AllRoles }
func (testHost) MaintenanceMode() string { return "false" }

func (testHost) Config(context.Context) map[string]map[string]Setting { return nil }
func (testHost) ReloadConfig(context.Context) error                   { return nil }
func (testHost) ChangeConfig(context.Context, ConfigChange) (map[string]Setting, error) {
	return nil, nil
}

func init() { web.Patience = time.Minute }

// newService is a service whose jobs nobody runs.
func newService(t *testing.T, change ...func(o *Options)) *webtest.Site {
	t.Helper()
	o := Options{
		DB: fakefdb.New(),
		Store: jobstore.New(tuple.Subspace("service"),
			jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1})),
		Clock: clock.New(), Host: testHost{},
	}
	for _, c := range change {
		c(&o)
	}
	return webtest.New(t, New(o))
}

// withAdmin gives a service the admin adm with the password secret.
func withAdmin(o *Options) {
	l, err := login.New(login.Options{
		DB: o.DB, Users: o.Store.Docs, Secret: o.Store.Keys.Secret, Clock: o.Clock,
	}, map[string]string{"adm": "secret"}, config.Default().Auth)
	if err != nil {
		panic(err)
	}
	o.Login = l
}

func basic(name, password string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth(name, password)
	return r.Header.Get("Authorization")
}

// TestListOfDatabasesIsForAdmins: as in CouchDB, ordinary users do not see which databases there are.
func TestListOfDatabasesIsForAdmins(t *testing.T) {
	s := newService(t, withAdmin)
	for i := range 5 {
		s.Want(fmt.Sprintf("PUT /n%d%%2F_replicator", i), 201, `{"ok":true}`, "Authorization", basic("adm", "secret"))
	}
	s.Fails("GET /_all_dbs", 401, "unauthorized", "You are not a server admin.")
	s.Fails("GET /_all_dbs", 401, "unauthorized", "Name or password is incorrect.", "Authorization",
		basic("nobody", "secret"))
	s.Fails("GET /_all_dbs", 401, "unauthorized", "Name or password is incorrect.", "Authorization",
		basic("adm", "wrong"))
	s.Want("GET /_all_dbs?limit=2", 200, `["n0/_replicator","n1/_replicator"]`, "Authorization", basic("adm", "secret"))
}

// TestDocumentsThatDoNotFit: a replication document is refused with the limit, and taken up to that.
func TestDocumentsThatDoNotFit(t *testing.T) {
	s := newService(t)
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	document := func(size int) string {
		return `{"source":"http://h/a","target":"http://h/b","doc_ids":["` + strings.Repeat("x", size-100) + `"]}`
	}

	s.Want("PUT /_replicator/fits "+document(4_900_000), 201, `{"ok":true,"id":"fits","rev":"1-*"}`)
	answer := s.Ask("PUT /_replicator/large " + document(5_000_000))
	if text := s.Text(answer); answer.StatusCode != 413 || !strings.Contains(text, "10000000 bytes") ||
		!strings.Contains(text, "4900000 bytes") {
		t.Errorf("answered %d %s", answer.StatusCode, text)
	}
	answer = s.Ask("POST /_replicate " + document(maxReplicateBody+1000))
	if text := s.Text(answer); answer.StatusCode != 413 || !strings.Contains(text, "8388608 bytes") {
		t.Errorf("answered %d %s", answer.StatusCode, text)
	}
}

// TestBulkOfReplications: thousands of replications come in one request.
func TestBulkOfReplications(t *testing.T) {
	s := newService(t)
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	var list []string
	for i := range 3000 {
		list = append(list, fmt.Sprintf(`{"source":"http://127.0.0.1:5984/source%d",`+
			`"target":"http://127.0.0.1:5984/target%d","continuous":true}`, i, i))
	}
	answer := s.Ask(`POST /_replicator/_bulk_docs {"docs":[` + strings.Join(list, ",") + `]}`)
	if text := s.Text(answer); answer.StatusCode != 201 || strings.Count(text, `"ok":true`) != len(list) {
		t.Errorf("answered %d %.200s", answer.StatusCode, text)
	}
	if text := s.Text(s.Ask("GET /_scheduler/jobs?limit=1")); !strings.Contains(text, `"total_rows":3000,`) {
		t.Errorf("jobs: %.200s", text)
	}
}

// TestMalformedQueries: what cannot be read is refused, never left out.
func TestMalformedQueries(t *testing.T) {
	s := newService(t)
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	for _, query := range []string{"limit=%zz", "limit=1;skip=1", "%=1", "states=%e"} {
		for _, path := range []string{
			"/_scheduler/jobs", "/_scheduler/docs", "/_scheduler/docs/_replicator", "/_scheduler/nodes",
			"/_active_tasks", "/_membership", "/_node/_local", "/_up", "/_replicator", "/_all_dbs",
		} {
			s.Fails("GET "+path+"?"+query, 400, "bad_request", "malformed query string")
		}
	}
	for _, path := range []string{"/_scheduler/jobs?limit=", "/_scheduler/docs?skip="} {
		name := path[len(path)-6:]
		s.Fails("GET "+path, 400, "query_parse_error", strings.Trim(name, "?=")+" must be an integer")
	}
}

// backend is a host without the role api_frontend.
type backend struct{ testHost }

func (backend) Roles() node.Roles { return node.Replication }

// TestNodesWithoutRole: a node without the role api_frontend answers operators, and nothing else.
func TestNodesWithoutRole(t *testing.T) {
	everywhere := []string{"/", "/_up", "/_membership", "/_scheduler/nodes", "/_scheduler/follow", "/_node/{node}",
		"/_node/{node}/{part...}", rekeyPath, checkPath, backupPath,
		configPath, configPath + "/_reload", configPath + "/{section}",
		configPath + "/{section}/{key...}", "/_node/{node}/_stats", "/_node/{node}/_stats/{metric...}",
		"/_node/{node}/_system", "/_node/{node}/_prometheus"}
	store := jobstore.New(tuple.Subspace("service"), jobstore.DefaultConfig(repid.Server{}))
	s := &service{Options: Options{DB: fakefdb.New(), Store: store, Clock: clock.New(), Host: backend{}}}
	withAdmin(&s.Options)
	for _, route := range s.routes() {
		err := route.Access(&web.Request{Request: httptest.NewRequest("GET", "/", nil)})
		answer, refused := errors.AsType[*web.Error](err)
		misdirected := refused && answer.Status == http.StatusMisdirectedRequest
		if misdirected == slices.Contains(everywhere, route.Path) {
			t.Errorf("%s %s: %v", route.Method, route.Path, err)
		}
	}
}

// TestDeletionOfManyJobs: the answer to a deletion does not wait until the jobs are gone, and none of them is
// listed or counted from then on.
func TestDeletionOfManyJobs(t *testing.T) {
	var held atomic.Bool
	s := newService(t, func(o *Options) { o.DB = sweepless{o.DB, &held} })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	const hosted = "couchrelay hosts replicator databases only: _replicator and names that end in /_replicator; and " +
		"_users"
	s.Fails("PUT /other", 403, "forbidden", hosted)
	s.Fails("PUT /other/_replicator", 403, "forbidden", hosted+"; a slash in the name of a database is %2F in the path")
	s.Want("PUT /other%2F_replicator", 201, `{"ok":true}`)
	document := func(i int) string {
		return fmt.Sprintf(`{"_id":"r%d","source":"http://h/a%d","target":"http://h/b"}`, i, i)
	}
	for i := range 3 {
		s.Ask("POST /_replicator " + document(i))
	}
	s.Ask("POST /other%2F_replicator " + document(7))
	held.Store(true)
	s.Want("DELETE /_replicator", 200, `{"ok":true}`)
	for _, path := range []string{"/_scheduler/jobs", "/_scheduler/docs?database=*", "/_scheduler/jobs?limit=0"} {
		answer := s.Ask("GET " + path)
		body, _ := io.ReadAll(answer.Body)
		if !strings.HasPrefix(string(body), `{"total_rows":1,`) || strings.Contains(string(body), `"_replicator"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
	held.Store(false)
}

// TestSweepEnds: a sweep ends with the last of the jobs.
func TestSweepEnds(t *testing.T) {
	store := jobstore.New(tuple.Subspace("service"), jobstore.DefaultConfig(repid.Server{}))
	s := &service{Options: Options{DB: fakefdb.New(), Store: store, Clock: clock.NewMock()}}
	ended := make(chan struct{})
	go func() { defer close(ended); s.sweepAll(t.Context()) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it goes on though nothing is left")
	}
}

// TestSweepPauses: between two batches of a sweep the store has as long to itself as a batch took.
func TestSweepPauses(t *testing.T) {
	pauses := pausing{clock.NewMock(), make(chan time.Duration, 10)}
	s := newService(t, func(o *Options) {
		o.DB, o.Clock = slowSweeps{o.DB, pauses}, pauses
		for i := range 100 { // more databases than a batch empties
			err := kv.Do(t.Context(), o.DB, func(tx kv.Tx) error { o.Store.Drop(tx, tuple.UUID{byte(i)}); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Want("DELETE /_replicator", 200, `{"ok":true}`)
	select {
	case got := <-pauses.asked:
		if got != batchTime {
			t.Errorf("a pause of %s after a batch of %s", got, batchTime)
		}
	case <-time.After(20 * time.Second):
		t.Error("no pause")
	}
}

// TestOneSweep: of databases that are deleted one after the other one sweep removes the jobs, with those of databases
// that are deleted meanwhile.
func TestOneSweep(t *testing.T) {
	var held, begun atomic.Int64
	var store Options
	s := newService(t, func(o *Options) { o.DB = countedSweeps{o.DB, &held, &begun}; store = *o })
	held.Store(1)
	for i := range 20 {
		s.Want(fmt.Sprintf("PUT /db%d%%2F_replicator", i), 201, `{"ok":true}`)
		s.Want(fmt.Sprintf("DELETE /db%d%%2F_replicator", i), 200, `{"ok":true}`)
	}
	held.Store(0)
	for range 20_000 {
		left, err := kv.Run(t.Context(), store.DB, func(tx kv.Tx) (jobstore.Dropped, error) {
			return store.Store.Keys.DroppedDBs(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
		if begun.Load() > 5 {
			t.Fatalf("%d sweeps, and %d databases are left", begun.Load(), len(left))
		}
	}
	if n := begun.Load(); n == 0 || n > 5 {
		t.Errorf("%d sweeps", n)
	}
}

// countedSweeps is a store that counts the transactions of sweeps, which wait while held is not 0.
type countedSweeps struct {
	kv.Database
	held, begun *atomic.Int64
}

func (s countedSweeps) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	if o.Tag == "sweep" {
		s.begun.Add(1)
	}
	for o.Tag == "sweep" && s.held.Load() != 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return s.Database.Begin(ctx, o)
}

// pausing is a clock that tells of pauses, which are over at once.
type pausing struct {
	*clock.Mock
	asked chan time.Duration
}

func (p pausing) After(d time.Duration) <-chan time.Time {
	p.asked <- d
	over := make(chan time.Time, 1)
	over <- time.Time{}
	return over
}

const batchTime = 200 * time.Millisecond

// slowSweeps is a store in which a batch of a sweep takes batchTime.
type slowSweeps struct {
	kv.Database
	clock pausing
}

func (s slowSweeps) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	if o.Tag == "sweep" {
		s.clock.Add(batchTime)
	}
	return s.Database.Begin(ctx, o)
}

// sweepless is a store in which sweeps wait while they are held.
type sweepless struct {
	kv.Database
	held *atomic.Bool
}

func (s sweepless) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	for o.Tag == "sweep" && s.held.Load() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return s.Database.Begin(ctx, o)
}
