package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are the values of counters and gauges and the counts of histograms, by name and the values of labels:
// name/value/value.
func (r *rig) metrics() map[string]float64 {
	r.t.Helper()
	answer, err := http.Get(r.url + "_node/_local/_prometheus")
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	values := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += "/" + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
				float64(m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount())
		}
	}
	return values
}

// wantMetrics waits until metrics have these values: some events are counted a moment after they are seen.
func (r *rig) wantMetrics(want map[string]float64) {
	r.t.Helper()
	var wrong string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got := r.metrics()
		wrong = ""
		for key, n := range want {
			if value, told := got[key]; value != n || !told {
				wrong += fmt.Sprintf("\n%s is %v, want %v", key, value, n)
			}
		}
		if wrong == "" {
			return
		}
	}
	r.t.Errorf("metrics: %s", wrong)
}

const jobsOf = "couchdb_couch_replicator_jobs_"

// TestMetrics: the numbers of a service are what has happened: a one-shot, refusals, crashes, a continuous job and its
// deletion. After a restart counters begin anew, and gauges are true at once.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(20)
	strict := newValidator(t, r.target.url)
	nobody := fmt.Sprintf("http://127.0.0.1:%d/", freePort(t))
	r.wantMetrics(map[string]float64{jobsOf + "total": 0, jobsOf + "starts_total": 0, "couchrelay_store_up": 1,
		"couchrelay_nodes/up": 1, "couchrelay_slots": 500})

	body := fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true}`, r.source.url+"db", strict.URL+"/copy")
	r.want(201, "PUT", "_replicator/once", body)
	r.await("the one-shot", func() bool { return r.docState("once") == "completed" })
	r.wantMetrics(map[string]float64{
		jobsOf + "adds_total": 1, jobsOf + "removes_total": 1, jobsOf + "starts_total": 1, jobsOf + "crashes_total": 0,
		jobsOf + "total": 0, "couchrelay_jobs/completed": 1, "couchrelay_run_ends_total/none/completed": 1,
		"couchdb_couch_replicator_docs_completed_state_updates_total": 1, "couchrelay_queue_wait_seconds": 1,
		"couchrelay_documents_read_total": 20, "couchrelay_documents_written_total": 18,
		"couchrelay_documents_refused_total": 2, "couchdb_couch_replicator_checkpoints_total": 1,
		"couchdb_couch_replicator_checkpoints_failure_total": 0,
		"couchdb_couch_replicator_workers_started_total":     4,
	})

	r.want(201, "PUT", "_replicator/crash",
		fmt.Sprintf(`{"source":%q,"target":%q,"continuous":true}`, nobody+"db", r.target.url+"copy"))
	r.want(201, "PUT", "_replicator/on", r.body(`,"continuous":true`))
	r.await("the copy", func() bool { return r.metrics()["couchrelay_documents_written_total"] == 20 })
	r.await("the crash", func() bool { return r.docState("crash") == "crashing" })
	host := strings.Trim(strings.TrimPrefix(nobody, "http://"), "/")
	r.wantMetrics(map[string]float64{
		jobsOf + "starts_total": 3, jobsOf + "crashes_total": 1, jobsOf + "running": 1, jobsOf + "crashed": 1,
		jobsOf + "pending": 0, jobsOf + "total": 2, "couchrelay_jobs/running": 1, "couchrelay_jobs/crashing": 1,
		"couchdb_couch_replicator_failed_starts_total": 1, "couchrelay_run_ends_total/network/crashed": 1,
		"couchrelay_queue_jobs/waiting": 1, "couchrelay_runs/_replicator": 1, "couchrelay_lag_changes/_replicator": 0,
		"couchrelay_lag_seconds/_replicator": 0, "couchrelay_slots_used": 1,
	})
	got := r.metrics()
	const requests = "couchrelay_endpoint_requests_total/"
	failed, timed := got[requests+"network/"+host], got["couchrelay_server_request_seconds/"+host]
	dropped := got[requests+"cancelled/"+host] // when the run gave up
	if failed < 1 || failed+dropped != timed {
		t.Errorf("%v requests to a port where nothing listens, %v given up, %v with a time", failed, dropped, timed)
	}

	r.want(200, "DELETE", "_replicator/on?rev="+r.want(200, "GET", "_replicator/on", "")["_rev"].(string), "")
	r.wantMetrics(map[string]float64{jobsOf + "removes_total": 2, jobsOf + "running": 0, jobsOf + "stops_total": 1,
		"couchrelay_run_ends_total/none/halted": 1})
	if code, _ := r.call("GET", "_all_dbs", "", "Authorization", "Basic bm9ib2R5OndpdGg="); code != 401 {
		t.Errorf("a wrong login: %d", code)
	}
	r.wantMetrics(map[string]float64{"couchrelay_logins_refused_total": 1, "couchdb_httpd_status_codes/401": 1})
	if n := r.metrics()["couchrelay_store_transactions_total/committed/node"]; n < 10 {
		t.Errorf("%v transactions of the node", n)
	}

	r.stop()
	r.start(config.Default())
	r.wantMetrics(map[string]float64{
		jobsOf + "adds_total": 0, jobsOf + "starts_total": 0, jobsOf + "crashed": 1, jobsOf + "total": 1,
		"couchrelay_jobs/completed": 1, "couchrelay_documents_written_total": 0,
		"couchrelay_run_ends_total/network/crashed": 0,
	})
}

// freePort is a port on which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestReaderThatStandsStill: clients that ask for metrics again and again and read no answer keep nothing from going
// on: jobs run, others get their metrics, and the service stops in time.
func TestReaderThatStandsStill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(10)
	at := strings.Trim(strings.TrimPrefix(r.url, "http://"), "/")
	for range 8 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
		go func() {
			for range 2000 { // far more answers than buffers hold
				_, err := io.WriteString(c, "GET /_node/_local/_prometheus HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if err != nil {
					return
				}
			}
		}()
	}
	r.want(201, "PUT", "_replicator/once", r.body(""))
	r.await("the one-shot", func() bool { return r.docState("once") == "completed" })
	r.wantMetrics(map[string]float64{"couchrelay_documents_written_total": 10})
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

// TestScrapePort: metrics can be read at [prometheus] port without a login, and nothing else can.
func TestScrapePort(t *testing.T) {
	c := config.Default()
	c.Port, c.Admins["adm"] = 0, "secret"
	c.Beside.Scrapes.Enable, c.Beside.Scrapes.Port = true, 0
	d, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	taken := c
	taken.Beside.Scrapes.Port = d.scrapes.Addr().(*net.TCPAddr).Port
	if _, err := listen(taken); err == nil || !strings.HasPrefix(err.Error(), "[prometheus] port: ") {
		t.Errorf("a port that is taken: %v", err)
	}
}
