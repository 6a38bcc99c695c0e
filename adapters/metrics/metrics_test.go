package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/core/host"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/sim/fakefdb"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// readings are the values of all counters and gauges, and the numbers of what histograms and summaries have seen, by
// name and labels: name{label="value"}.
type readings map[string]float64

// read parses what a Meter tells.
func read(t *testing.T, m *Meter, s State) readings {
	t.Helper()
	text, err := m.Text(s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got := readings{}
	for name, f := range families {
		for _, metric := range f.Metric {
			var labels []string
			for _, l := range metric.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			seen := metric.GetHistogram().GetSampleCount() + metric.GetSummary().GetSampleCount()
			got[key] = valueOf(metric) + float64(seen)
		}
	}
	return got
}

// want compares some of them.
func (r readings) want(t *testing.T, want readings) {
	t.Helper()
	for key, n := range want {
		if got, told := r[key]; got != n || !told && n != 0 {
			t.Errorf("%s is %v, want %v", key, got, n)
		}
	}
}

// whole is a State that tells everything there is.
func whole() State {
	return State{
		Store: &Stored{
			Jobs:  map[jobstore.State]int64{jobstore.Running: 3, jobstore.Paused: 1, jobstore.Completed: 9},
			Queue: jobs.Counts{Ready: 5, Waiting: 6, Parked: 7}, Holds: 2, Lost: 1,
			Nodes: []node.Info{{Status: node.Up, MaxJobs: 10, Running: 3},
				{Status: node.Draining, MaxJobs: 10, Running: 2}},
		},
		Lags:    map[string]host.Lag{"": {Runs: 1}, "a/_replicator": {Runs: 2, Changes: 40, Behind: time.Minute}},
		Follows: 4, Certificate: time.Unix(1_800_000_000, 0),
	}
}

// exercised is a Meter each of whose families has a metric.
func exercised() *Meter {
	m := New("1.2.3", time.Now())
	m.Attempted(couch.Attempt{Server: "h", Operation: couch.OfChanges, Status: 500})
	m.Attempted(couch.Attempt{Server: "h", Operation: "database", Status: 200})
	m.Engine.ended(node.Requeue{})
	m.FollowNoted("follow_failed")
	m.service.codes.WithLabelValues("200").Inc()
	m.service.methods.WithLabelValues("GET").Inc()
	m.store.total.WithLabelValues("node", "committed").Inc()
	m.store.conflicts.WithLabelValues("node").Inc()
	m.store.retries.WithLabelValues("node").Inc()
	return m
}

// TestGauges: what a State tells is in the scrape, and what it does not know is not.
func TestGauges(t *testing.T) {
	m := New("1.2.3", time.Now())
	read(t, m, whole()).want(t, readings{
		"couchdb_couch_replicator_jobs_running": 3, "couchdb_couch_replicator_jobs_total": 4,
		`couchrelay_jobs{state="completed"}`: 9, `couchrelay_queue_jobs{standing="ready"}`: 5,
		`couchrelay_queue_jobs{standing="waiting"}`: 6, `couchrelay_queue_jobs{standing="parked"}`: 7,
		"couchrelay_holds": 2, `couchrelay_nodes{status="up"}`: 1, `couchrelay_nodes{status="lost"}`: 1,
		"couchrelay_slots": 10, "couchrelay_slots_used": 3, `couchdb_membership{nodes="cluster_nodes"}`: 3,
		`couchrelay_runs{database="_replicate"}`: 1, `couchrelay_lag_changes{database="a/_replicator"}`: 40,
		`couchrelay_lag_seconds{database="a/_replicator"}`: 60, "couchrelay_followed_databases": 4,
		"couchrelay_certificate_expiry_timestamp_seconds": 1_800_000_000, "couchrelay_store_up": 1,
	})
	for key := range read(t, m, State{}) {
		for _, name := range []string{"couchrelay_jobs", inJobs + "running", "couchrelay_nodes{", "couchrelay_lag",
			"couchrelay_certificate_expiry"} {
			if strings.HasPrefix(key, name) {
				t.Errorf("%s is told, and not known", key)
			}
		}
	}
}

// couchNames are names of CouchDB's that are not what Prometheus advises.
var couchNames = []string{"couchdb_httpd_status_codes", "couchdb_httpd_request_methods", "couchdb_uptime_seconds",
	inJobs + "total"}

// TestNames: names, units and helps are as Prometheus advises, but where CouchDB's are otherwise.
func TestNames(t *testing.T) {
	text, err := exercised().Text(whole(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(string(text))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range problems {
		excused := false
		for _, name := range couchNames {
			excused = excused || p.Metric == name
		}
		if used[p.Metric] = true; !excused {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, name := range couchNames {
		if !used[name] {
			t.Errorf("%s needs no excuse", name)
		}
	}
}

// TestLabelsAreBounded: however many hosts and databases there are, the number of series stays the same, and sums do.
func TestLabelsAreBounded(t *testing.T) {
	m, state := New("1.2.3", time.Now()), State{Lags: map[string]host.Lag{}}
	const many = 3 * maxNames
	for i := range many {
		m.Attempted(couch.Attempt{Server: fmt.Sprintf("host%d", i), Operation: "database", Status: 200})
		state.Lags[fmt.Sprintf("db%d/_replicator", i)] = host.Lag{Runs: 1, Changes: 1}
	}
	m.Attempted(couch.Attempt{Server: strings.Repeat("x", 300), Operation: "database", Status: 200})
	m.Attempted(couch.Attempt{Server: "\xff", Operation: "database", Status: 200})
	m.Attempted(couch.Attempt{Server: "host1", Operation: "database", Status: 200})
	got := read(t, m, state)
	series := map[string]int{}
	sums := map[string]float64{}
	for key, n := range got {
		name, _, _ := strings.Cut(key, "{")
		series[name]++
		sums[name] += n
	}
	for name, sum := range map[string]float64{
		"couchrelay_endpoint_requests_total": many + 3, "couchrelay_server_request_seconds": many + 3,
		"couchrelay_lag_changes": many, "couchrelay_runs": many,
	} {
		if series[name] != maxNames+1 || sums[name] != sum {
			t.Errorf("%s has %d series and the sum %v, want %v", name, series[name], sums[name], sum)
		}
	}
	got.want(t, readings{`couchrelay_endpoint_requests_total{outcome="success",server="host1"}`: 2,
		`couchrelay_endpoint_requests_total{outcome="success",server="other"}`: 2*maxNames + 2})

	later := State{Lags: map[string]host.Lag{"new/_replicator": {Runs: 5}}}
	read(t, m, later).want(t, readings{`couchrelay_runs{database="new/_replicator"}`: 5})
}

// TestOutcomes: each request counts once, by what became of it, and CouchDB's numbers count what CouchDB counts.
func TestOutcomes(t *testing.T) {
	m := New("1.2.3", time.Now())
	for _, a := range []couch.Attempt{
		{Status: 200, Operation: couch.OfChanges}, {Status: 404, Operation: "checkpoint"}, {Status: 401}, {Status: 409},
		{Status: 412}, {Status: 429, Operation: couch.OfChanges}, {Status: 500, Operation: couch.OfChanges},
		{Status: 408}, {Kind: peer.TimedOut, Operation: couch.OfDocuments}, {Kind: peer.Unreachable},
		{Kind: peer.Insecure}, {Kind: peer.Malformed}, {Kind: peer.Cancelled, Operation: couch.OfChanges},
		{Kind: peer.Denied},
	} {
		a.Server = "h"
		m.Attempted(a)
	}
	want := readings{
		"couchdb_couch_replicator_requests_total": 14, "couchdb_couch_replicator_responses_total": 12,
		"couchdb_couch_replicator_responses_failure_total":        7,
		"couchdb_couch_replicator_stream_responses_total":         3,
		"couchdb_couch_replicator_stream_responses_failure_total": 2,
		"couchdb_couch_replicator_changes_read_failures_total":    1,
		`couchrelay_server_request_seconds{server="h"}`:           10,
	}
	for outcome, n := range map[string]float64{"success": 1, "not_found": 1, "denied": 1, "conflict": 1,
		"client_error": 2, "throttled": 1, "server_error": 1, "timeout": 1, "network": 1, "tls": 1, "malformed": 1,
		"cancelled": 1, "other": 1} {
		want[fmt.Sprintf("couchrelay_endpoint_requests_total{outcome=%q,server=\"h\"}", outcome)] = n
	}
	read(t, m, State{}).want(t, want)
	stats, err := m.Stats(State{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	replicator := Below(stats, "couch_replicator")
	for path, n := range map[string]float64{"responses/success": 5, "responses/failure": 7,
		"stream_responses/success": 1} {
		at := replicator
		for name := range strings.SplitSeq(path+"/value", "/") {
			at = Below(at, name)
		}
		if at != n {
			t.Errorf("_stats says %v of %s, want %v", at, path, n)
		}
	}
}

// TestTransactions: transactions count once, by their end; conflicts by the attempt; and what they tally when they have
// committed.
func TestTransactions(t *testing.T) {
	m := New("1.2.3", time.Now())
	db, ctx := m.Store(fakefdb.New()), context.Background()
	add := func(key string, meanwhile func()) error {
		_, err := kv.RunWith(ctx, db, kv.Options{Tag: "node"}, func(tx kv.Tx) (struct{}, error) {
			if _, err := tx.Get([]byte(key)); err != nil {
				return struct{}{}, err
			}
			kv.Tally(tx, jobs.TallyAdded, 2)
			kv.Tally(tx, "unknown", 1)
			tx.Set([]byte(key), []byte("1"))
			meanwhile()
			return struct{}{}, nil
		})
		return err
	}
	times := 0
	err := add("a", func() {
		if times++; times == 1 {
			if err := add("a", func() {}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err != nil || times != 2 {
		t.Fatalf("%v after %d attempts", err, times)
	}
	_, err = kv.RunWith(ctx, db, kv.Options{Tag: "made up"}, func(tx kv.Tx) (struct{}, error) {
		kv.Tally(tx, jobs.TallyAdded, 100)
		return struct{}{}, errors.New("no")
	})
	if err == nil {
		t.Fatal("no error")
	}
	read(t, m, State{}).want(t, readings{
		`couchrelay_store_transactions_total{outcome="committed",tag="node"}`: 2,
		`couchrelay_store_transactions_total{outcome="failed",tag="other"}`:   1,
		`couchrelay_store_conflicts_total{tag="node"}`:                        1,
		"couchrelay_store_commit_seconds":                                     3,
		inJobs + "adds_total":                                                 4, inJobs + "removes_total": 0,
	})
}
