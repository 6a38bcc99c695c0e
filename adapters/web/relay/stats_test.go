package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/metrics"
	"couchrelay/adapters/web/webtest"
	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestStats: a node tells CouchDB's numbers of jobs where CouchDB's clients look for them, and says what there is when
// they ask for more.
func TestStats(t *testing.T) {
	s, o, work := taken(t)
	do(t, o.DB, func(tx kv.Tx) error {
		owned := o.Store.Owned(tx, work["a"].JobID, work["a"].Lock, instant.Of(o.Clock.Now()))
		return owned.Crash(replication.Trouble{Error: "db_not_found", Reason: "why"}, nil, jobstore.Turn{}, 1)
	})
	running := `{"value":3,"type":"gauge","desc":"jobs that run, on all nodes"}`
	s.Want("GET /_node/_local/_stats/couch_replicator/jobs/running", 200, running)
	s.Want("GET /_node/_local/_stats/couch_replicator/jobs/running/value", 200, `3`)
	s.Want("GET /_node/n/_stats/couchrelay/jobs/crashing/value", 200, `1`)
	s.Want("GET /_node/n/_stats/couchdb/httpd_request_methods/PUT/value", 200, `5`)
	jobs := show(s, "GET /_node/n/_stats/couch_replicator/jobs")
	for name, n := range map[string]float64{"running": 3, "crashed": 1, "pending": 0, "total": 4, "starts": 0} {
		if one, _ := jobs[name].(map[string]any); one["value"] != n {
			t.Errorf("%s: %v, want %v", name, one, n)
		}
	}
	s.Fails("GET /_node/_local/_stats/couchdb/nothing/at/all", 404, "not_found",
		"there is no statistic couchdb/nothing; see /_node/_local/_stats")
	s.Fails("GET /_node/_local/_stats/couch_replicator/jobs/running/value/x", 404, "not_found",
		"there is no statistic couch_replicator/jobs/running/value/x; see /_node/_local/_stats")
	s.Fails("GET /_node/other/_stats", 404, "not_found", "no such node: other; see /_membership")

	families, kind := scrape(t, s, "")
	for name, n := range map[string]float64{
		"couchdb_couch_replicator_jobs_running": 3, "couchdb_couch_replicator_jobs_crashed": 1,
		"couchdb_couch_replicator_jobs_total": 4, "couchrelay_store_up": 1, "couchrelay_holds": 0,
	} {
		if f := families[name]; f == nil || f.Metric[0].GetGauge().GetValue() != n {
			t.Errorf("%s is %v, want %v", name, f, n)
		}
	}
	if !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("metrics are %s", kind)
	}
	if _, kind := scrape(t, s, "application/openmetrics-text; version=1.0.0"); !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("metrics are %s, which has other names for some", kind)
	}
	system := show(s, "GET /_node/_local/_system")
	memory, _ := system["memory"].(map[string]any)
	if heap, _ := memory["heap"].(float64); system["uptime"] == nil || heap < 1000 || system["process_count"] == 0.0 {
		t.Errorf("the process: %v", system)
	}
	s.Fails("GET /_node/_local/_versions", 501, "not_implemented", "of a node there are its state (/_node/NAME), "+
		"_config, _stats, _system, _prometheus, _rekey, _check and _backup; see also /_scheduler/nodes")
}

// scrape reads metrics, which must be such as Prometheus takes.
func scrape(t *testing.T, s *webtest.Site, accept string) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	answer := s.Ask("GET /_node/_local/_prometheus", "Accept", accept)
	text, kind := s.Text(answer), answer.Header.Get("Content-Type")
	if answer.StatusCode != 200 {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text + "\n"))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return families, kind
}

// TestScrapeWithoutStore: while the store is away metrics are told all the same, but those of what it has.
func TestScrapeWithoutStore(t *testing.T) {
	available, leave := context.WithCancelCause(context.Background())
	s := newService(t, func(o *Options) {
		o.Available = func() context.Context { return available }
		o.Present = func(context.Context) metrics.State {
			return metrics.State{Lags: map[string]host.Lag{"a/_replicator": {Runs: 2, Changes: 7, Behind: time.Minute}}}
		}
	})
	if families, _ := scrape(t, s, ""); families["couchrelay_jobs"] == nil {
		t.Error("jobs are not told")
	}
	leave(fmt.Errorf("%w: gone", kv.ErrUnavailable))
	families, _ := scrape(t, s, "")
	if up := families["couchrelay_store_up"]; up == nil || up.Metric[0].GetGauge().GetValue() != 0 {
		t.Errorf("the store: %v", up)
	}
	if lag := families["couchrelay_lag_seconds"]; lag == nil || lag.Metric[0].GetGauge().GetValue() != 60 {
		t.Errorf("the lag: %v", lag)
	}
	for _, unknown := range []string{"couchrelay_jobs", "couchdb_couch_replicator_jobs_running", "couchrelay_nodes"} {
		if f := families[unknown]; f != nil {
			t.Errorf("%s is told: %v", unknown, f)
		}
	}
}

// TestScrapesWithoutLogin: the handler of [prometheus] port asks for no login, and has nothing else.
func TestScrapesWithoutLogin(t *testing.T) {
	var handler http.Handler
	s := newService(t, withAdmin, func(o *Options) { handler = NewScrapes(*o) })
	s.Fails("GET /_node/_local/_prometheus", 401, "unauthorized",
		"You are not a server admin or read-only metrics user")
	for path, status := range map[string]int{
		"/_node/_local/_prometheus": 200, "/_node/n/_prometheus": 200, "/_node/other/_prometheus": 404,
		"/_node/_local/_stats": 404, "/_all_dbs": 404, "/": 404, "/_up": 404,
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestScrapesAreBounded: clients that do not read their metrics hold a bounded number of answers and nothing else; when
// they are gone there is room again.
func TestScrapesAreBounded(t *testing.T) {
	var stuck atomic.Bool
	stuck.Store(true)
	release, waiting := make(chan struct{}), make(chan struct{}, maxScrapes)
	s := newService(t, func(o *Options) {
		o.Present = func(context.Context) (none metrics.State) {
			if stuck.Load() {
				waiting <- struct{}{}
				<-release
			}
			return none
		}
	})
	var all sync.WaitGroup
	for range maxScrapes {
		all.Go(func() { _, _ = http.Get(s.URL + "/_node/_local/_prometheus") })
	}
	for range maxScrapes {
		<-waiting
	}
	stuck.Store(false)
	s.Fails("GET /_node/_local/_prometheus", 503, "busy", "too many clients are reading metrics")
	s.Want("GET /_up", 200, `{"status":"ok"}`)
	close(release)
	all.Wait()
	if families, _ := scrape(t, s, ""); families["couchrelay_store_up"] == nil {
		t.Error("there is no room afterwards")
	}
}

// TestReadersThatStandStill: a client that reads no answer is left after sendTime, and others get theirs.
func TestReadersThatStandStill(t *testing.T) {
	old := sendTime
	sendTime = time.Second
	s := newService(t)
	slow := httptest.NewUnstartedServer(s.Config.Handler)
	slow.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(1 << 10) // few answers fit
		return ctx
	}
	slow.Start()
	t.Cleanup(func() { slow.Close(); sendTime = old })
	var cut sync.WaitGroup
	for range maxScrapes {
		c, err := net.Dial("tcp", slow.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
		cut.Go(func() {
			defer c.Close()
			const ask = "GET /_node/_local/_prometheus HTTP/1.1\r\nHost: localhost\r\n\r\n"
			_, err := io.WriteString(c, strings.Repeat(ask, 100)) // far more answers than buffers hold
			for end := time.Now().Add(30 * time.Second); err == nil; time.Sleep(50 * time.Millisecond) {
				if _, err = io.WriteString(c, "x"); time.Now().After(end) {
					t.Error("a client that reads nothing is not left")
					return
				}
			}
		})
	}
	cut.Wait()
	if families, _ := scrape(t, s, ""); families["couchrelay_store_up"] == nil {
		t.Error("there are no metrics afterwards")
	}
}

// TestClusterSetup: pages that would set a cluster up are told that this was done.
func TestClusterSetup(t *testing.T) {
	s := newService(t)
	s.Want("GET /_cluster_setup", 200, `{"state":"single_node_enabled"}`)
	s.Fails(`POST /_cluster_setup {"action":"finish_cluster"}`, 501, "not_implemented",
		"nodes that share a store are a cluster, and need no setup")
	if text := s.Text(s.Ask("GET /")); !strings.Contains(text, `"features":["scheduler"]`) {
		t.Errorf("welcome: %s", text)
	}
}
