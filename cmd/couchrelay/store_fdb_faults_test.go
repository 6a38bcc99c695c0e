//go:build fdb && fdbctest

package main

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/fdb"
	"couchrelay/adapters/fdb/fdbctest"
	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/prng"
	"couchrelay/sim/fakefdb"
)

// newClusterRig is a rig on a cluster that the test can make go away and fail.
func newClusterRig(t *testing.T) (*rig, *fdbctest.Cluster) {
	cluster, path := fdbtest.NewCluster(t)
	r := &rig{t: t, log: &syncBuffer{}, keyPrefix: "test"}
	r.open = func() store {
		o := fdb.Options{Logger: slog.New(slog.NewTextHandler(r.log, nil)),
			Probe: 5 * time.Millisecond, Patience: 500 * time.Millisecond}
		db, err := fdb.Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	r.source, r.target = r.sandbox(), r.sandbox()
	r.start(config.Default())
	return r, cluster
}

// TestEveryTransactionIsIdempotent: a service does its work exactly once although its commits conflict, get
// lost, or happen with an unknown result and are repeated.
func TestEveryTransactionIsIdempotent(t *testing.T) {
	r, cluster := newClusterRig(t)
	r.fill(50)
	random, faults := prng.New(1), map[fakefdb.Fault]int{}
	var mu sync.Mutex
	cluster.Decide(func(op fakefdb.Op) fakefdb.Outcome {
		if op.Kind != fakefdb.Commit || random.Intn(2) == 0 {
			return fakefdb.Outcome{}
		}
		list := []fakefdb.Fault{fakefdb.UnknownLanded, fakefdb.UnknownLanded,
			fakefdb.UnknownDropped, fakefdb.Conflict}
		fault := list[random.Intn(len(list))]
		mu.Lock()
		defer mu.Unlock()
		faults[fault]++
		return fakefdb.Outcome{Fault: fault}
	})
	const jobs = 10
	for i := range jobs {
		body := fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true}`, r.source.url+"db",
			fmt.Sprintf("%scopy%d", r.target.url, i))
		answer := r.want(201, "PUT", fmt.Sprint("_replicator/r", i), body)
		if answer["ok"] != true {
			t.Errorf("answer %v", answer)
		}
	}
	for i := range jobs {
		id := fmt.Sprint("r", i)
		r.await("completion of "+id, func() bool { return r.docState(id) == "completed" })
		doc := r.want(200, "GET", "_replicator/"+id, "")
		if stats, _ := doc["_replication_stats"].(object); stats["docs_written"] != 50.0 {
			t.Errorf("document %v", doc)
		}
	}
	if listed := r.want(200, "GET", "_scheduler/docs", ""); listed["total_rows"] != float64(jobs) {
		t.Errorf("%v documents listed", listed["total_rows"])
	}
	mu.Lock()
	defer mu.Unlock()
	if faults[fakefdb.UnknownLanded] == 0 || faults[fakefdb.UnknownDropped] == 0 {
		t.Errorf("faults %v", faults)
	}
}

// TestClusterGoesAwayAndComesBack: the service logs it, loses nothing and continues by itself.
func TestClusterGoesAwayAndComesBack(t *testing.T) {
	r, cluster := newClusterRig(t)
	r.fill(20)
	r.want(201, "PUT", "_replicator/before", r.body(`,"continuous":true`))
	r.await("the run", func() bool { return request("GET", r.target.url+"copy/doc19", nil, nil) == nil })
	r.want(200, "GET", "_up", "")
	cluster.Leave()
	r.await("503", func() bool { status, _ := r.call("GET", "_up", ""); return status == 503 })
	up := r.want(503, "GET", "_up", "")
	if reason, _ := up["reason"].(string); up["status"] != "unavailable" ||
		!strings.Contains(reason, "cluster does not answer") {
		t.Errorf("answer %v", up)
	}
	const other = `{"source":"http://127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`
	for _, request := range []string{"GET _replicator/before", "GET _scheduler/jobs", "PUT _replicator/during"} {
		method, path, _ := strings.Cut(request, " ")
		began := time.Now()
		refused := r.want(503, method, path, other)
		if reason, _ := refused["reason"].(string); refused["error"] != "service_unavailable" ||
			!strings.Contains(reason, "cluster does not answer") || time.Since(began) > 20*time.Second {
			t.Errorf("%s after %s: %v", request, time.Since(began), refused)
		}
	}
	r.add(20, 5)
	cluster.Return()
	r.await("the rest", func() bool { return request("GET", r.target.url+"copy/doc24", nil, nil) == nil })
	r.await("200", func() bool { status, _ := r.call("GET", "_up", ""); return status == 200 })
	r.want(200, "GET", "_replicator/before", "")
	r.want(201, "PUT", "_replicator/during", other)
	r.same()
}

// TestOutageEndsRequests: a request that hangs is answered when the cluster is known to be away.
func TestOutageEndsRequests(t *testing.T) {
	r, cluster := newClusterRig(t)
	r.want(200, "GET", "_up", "")
	cluster.Leave()
	defer cluster.Return() // the service cannot stop without it
	began := time.Now()
	refused := r.want(503, "GET", "_replicator", "")
	if reason, _ := refused["reason"].(string); !strings.Contains(reason, "cluster does not answer") ||
		time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), refused)
	}
}

// TestStartWhileClusterIsAway: a node that starts then tells the reason and begins when the cluster is back.
func TestStartWhileClusterIsAway(t *testing.T) {
	r, cluster := newClusterRig(t)
	r.stop()
	cluster.Leave()
	db := r.open()
	defer db.Close()
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	c := config.Default()
	c.Secrets.KeyFile = r.keyFile
	c.KeyPrefix = r.keyPrefix
	svc, err := assemble(db, c, "test", nil, logger)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(svc)
	defer server.Close()
	r.url = server.URL + "/"
	prepared := make(chan error)
	go func() { prepared <- svc.prepare(t.Context()) }()
	r.await("the reason", func() bool {
		reason, _ := r.want(503, "GET", "_up", "")["reason"].(string)
		return strings.Contains(reason, "starting") && strings.Contains(reason, "cluster does not answer")
	})
	cluster.Return()
	if err := <-prepared; err != nil {
		t.Fatal(err)
	}
	r.await("200", func() bool { status, _ := r.call("GET", "_up", ""); return status == 200 })
}

// TestServicesShareACluster: a service that starts leaves the jobs of another alone.
func TestServicesShareACluster(t *testing.T) {
	one, _ := newClusterRig(t)
	one.fill(5)
	one.want(201, "PUT", "_replicator/r", one.body(`,"continuous":true`))
	one.await("the run", func() bool { return one.docState("r") == "running" })
	two := &rig{t: t, log: &syncBuffer{}, keyPrefix: one.keyPrefix, open: one.open, keyFile: one.keyFile,
		source: one.source, target: one.target}
	two.start(config.Default())
	two.want(200, "POST", "_replicate",
		fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true}`, two.source.url+"db",
			two.target.url+"other"))
	one.add(5, 5)
	one.await("the rest", func() bool { return request("GET", one.target.url+"copy/doc9", nil, nil) == nil })
	for _, r := range []*rig{one, two} {
		if log := r.log.String(); strings.Contains(log, "worker_silent") ||
			strings.Contains(log, "lease_lost") {
			t.Errorf("log %s", log)
		}
		if state := r.docState("r"); state != "running" {
			t.Errorf("the document is %s", state)
		}
	}
}

// TestSweepTakesFewRoundTrips: the removal of a deleted database's jobs waits for the cluster a few times for
// dozens of jobs, not a few times for each.
func TestSweepTakesFewRoundTrips(t *testing.T) {
	r, cluster := newClusterRig(t)
	const jobs = 150
	var documents []string
	for i := range jobs {
		documents = append(documents, fmt.Sprintf(
			`{"_id":"r%d","source":"http://127.0.0.1:1/a%d","target":"http://127.0.0.1:1/b","continuous":true}`, i, i))
	}
	r.want(201, "POST", "_replicator/_bulk_docs", `{"docs":[`+strings.Join(documents, ",")+`]}`)
	r.want(200, "DELETE", "_replicator", "")
	if listed := r.want(200, "GET", "_scheduler/jobs", ""); listed["total_rows"] != 0.0 {
		t.Errorf("%v jobs are listed", listed["total_rows"])
	}
	db := r.open()
	defer db.Close()
	keys := jobstore.KeysBelow(tuple.Subspace(tuple.Pack(r.keyPrefix)))
	r.await("the sweep", func() bool {
		rows, err := kv.Run(t.Context(), db, func(tx kv.Tx) ([]kv.KeyValue, error) {
			return tx.GetRange(keys.Dropped.Range(), kv.RangeOptions{})
		})
		return err == nil && len(rows) == 0
	})
	if trips := cluster.RoundTrips("sweep"); trips == 0 || trips > jobs/2 {
		t.Errorf("%d round trips for %d jobs", trips, jobs)
	} else {
		t.Logf("%d round trips", trips)
	}
}

// TestStoreIsEmptiedMeanwhile: nodes do not take a store that somebody has emptied for one without jobs. They answer
// 503 and write nothing, until they are started again.
func TestStoreIsEmptiedMeanwhile(t *testing.T) {
	r, cluster := newClusterRig(t)
	r.fill(20)
	r.want(201, "PUT", "_replicator/before", r.body(`,"continuous":true`))
	r.await("the run", func() bool { return request("GET", r.target.url+"copy/doc19", nil, nil) == nil })
	all := kv.PrefixRange(tuple.Pack("test"))
	err := kv.Do(t.Context(), cluster.DB, func(tx kv.Tx) error { tx.ClearRange(all); return nil })
	if err != nil {
		t.Fatal(err)
	}
	r.await("503", func() bool { status, _ := r.call("GET", "_up", ""); return status == 503 })
	for _, request := range []string{"GET _up", "GET _scheduler/jobs", "PUT _replicator", "PUT _replicator/during"} {
		method, path, _ := strings.Cut(request, " ")
		refused := r.want(503, method, path, r.body(""))
		if reason, _ := refused["reason"].(string); !strings.Contains(reason, "was emptied, or replaced") {
			t.Errorf("%s: %v", request, refused)
		}
	}
	if n := strings.Count(r.log.String(), "msg=store_replaced"); n != 1 {
		t.Errorf("%d lines store_replaced", n)
	}
	r.stop()
	rows, err := kv.Run(t.Context(), cluster.DB, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(all, kv.RangeOptions{})
	})
	if err != nil || len(rows) > 0 {
		t.Errorf("rows %q, %v", rows, err)
	}
	r.start(config.Default())
	r.want(200, "GET", "_up", "")
}
