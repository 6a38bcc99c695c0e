package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/core/node"
)

// fleet is several services of this process on one store.
type fleet struct {
	*rig  // its requests go to the node that ask chose last
	db    store
	nodes []*fleetNode
}

// fleetNode is one service of a fleet.
type fleetNode struct {
	svc *service
	url string
	// kill ends the service like a power cut, as far as others can tell; left is closed when its node has
	// ended.
	kill func()
	left chan struct{}
}

// sharedStore is a store that several nodes use.
type sharedStore struct{ store }

func (sharedStore) Exclusive() bool { return false }

func newFleet(t *testing.T) *fleet {
	f := &fleet{rig: &rig{t: t, log: &syncBuffer{}}}
	f.open, f.keyPrefix = newStore(t)
	f.source, f.target = f.sandbox(), f.sandbox()
	f.db = sharedStore{f.open()}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.kill()
		}
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// join starts a node. change, which may be nil, changes its configuration.
func (f *fleet) join(name string, change func(*config.Config)) *fleetNode {
	f.t.Helper()
	c := config.Default()
	c.KeyPrefix, c.Node.StartupJitter = f.keyPrefix, 0
	// As short as a test machine that stalls for a while allows. No test depends on how long they take.
	c.Node.ActivityTimeout, c.Node.PollInterval = 3*time.Second, 200*time.Millisecond
	if change != nil {
		change(&c)
	}
	f.seal(&c)
	ctx, cancel := context.WithCancel(context.Background())
	svc, err := newService(ctx, f.db, c, name, nil,
		slog.New(slog.NewTextHandler(f.log, nil)).With("node", name))
	if err != nil {
		cancel()
		f.t.Fatal(err)
	}
	svc.layers.path = filepath.Join(f.t.TempDir(), "local.ini")
	server := httptest.NewServer(svc)
	n := &fleetNode{svc: svc, url: server.URL + "/", left: make(chan struct{})}
	go func() {
		defer close(n.left)
		svc.loop.Run(ctx)
	}()
	n.kill = sync.OnceFunc(func() {
		server.CloseClientConnections()
		server.Close()
		cancel()
		<-n.left
	})
	f.nodes = append(f.nodes, n)
	f.url = n.url
	return n
}

// ask makes the rig's requests go to a node.
func (f *fleet) ask(n *fleetNode) *rig {
	f.url = n.url
	return f.rig
}

// running returns the number of running jobs by node, as _scheduler/jobs has it.
func (f *fleet) running() map[string]int {
	f.t.Helper()
	on := map[string]int{}
	for _, j := range f.want(200, "GET", "_scheduler/jobs", "")["jobs"].([]any) {
		if job := j.(object); job["state"] == "running" {
			on[job["node"].(string)]++
		}
	}
	return on
}

// members returns the nodes of _scheduler/nodes by name.
func (f *fleet) members() map[string]object {
	f.t.Helper()
	found := map[string]object{}
	for _, n := range f.want(200, "GET", "_scheduler/nodes", "")["nodes"].([]any) {
		found[n.(object)["name"].(string)] = n.(object)
	}
	return found
}

func (f *fleet) putJobs(n int) {
	f.t.Helper()
	for i := range n {
		f.want(201, "PUT", fmt.Sprint("_replicator/r", i),
			fmt.Sprintf(`{"source":%q,"target":"%scopy%d","create_target":true,"continuous":true}`,
				f.source.url+"db", f.target.url, i))
	}
}

func (f *fleet) awaitRunning(what string, wanted func(on map[string]int) bool) {
	f.t.Helper()
	f.await(what, func() bool { return wanted(f.running()) })
}

// awaitCopies awaits a document in the first n copies.
func (f *fleet) awaitCopies(n int, doc string) {
	f.t.Helper()
	for i := range n {
		f.await(fmt.Sprint("copy ", i),
			func() bool {
				return request("GET", fmt.Sprintf("%scopy%d/%s", f.target.url, i, doc),
					nil, nil) == nil
			})
	}
}

// TestFleet: jobs created on one node run on all nodes. The jobs of a killed node and of a drained one
// continue elsewhere.
func TestFleet(t *testing.T) {
	t.Parallel()
	const jobs = 9
	f := newFleet(t)
	f.fill(5)
	capacity := func(n int) func(*config.Config) { return func(c *config.Config) { c.Node.MaxJobs = n } }
	a, b, c := f.join("a", capacity(3)), f.join("b", capacity(3)), f.join("c", capacity(3))
	f.ask(a).want(200, "GET", "_up", "")
	f.putJobs(jobs)
	f.awaitRunning("all nodes to run jobs",
		func(on map[string]int) bool { return on["a"] == 3 && on["b"] == 3 && on["c"] == 3 })
	f.await("the registry to tell", func() bool {
		m := f.members()
		return len(m) == 3 && m["a"]["running"] == 3.0 && m["b"]["running"] == 3.0 && m["c"]["running"] == 3.0
	})
	if m := f.members()["b"]; m["max_jobs"] != 3.0 || m["version"] != version || m["status"] != "up" ||
		fmt.Sprint(m["roles"]) != "[api_frontend replication]" {
		t.Errorf("b is %v", m)
	}

	b.kill()
	f.ask(c)
	f.await("b to be given up", func() bool { return f.members()["b"]["given_up_by"] != nil })
	if b := f.members()["b"]; b["status"] != "lost" || b["running"] != 0.0 || b["given_up"] == nil {
		t.Errorf("b is %v", b)
	}
	if on := f.running(); on["b"] != 0 {
		t.Errorf("jobs run on a dead node: %v", on)
	}
	more := c.svc.config.Node
	more.MaxJobs = jobs
	c.svc.loop.Configure(more)
	f.awaitRunning("c to take over",
		func(on map[string]int) bool { return on["a"]+on["c"] == jobs && on["c"] == 6 })

	a.svc.loop.Drain()
	<-a.left
	f.awaitRunning("c to have all", func(on map[string]int) bool { return len(on) == 1 && on["c"] == jobs })
	answer := f.want(200, "GET", "_membership", "")
	if got := fmt.Sprint(answer["all_nodes"], answer["cluster_nodes"]); got != "[c] [c]" {
		t.Errorf("membership %v", answer)
	}
	f.add(5, 1)
	f.awaitCopies(jobs, "doc5")
}

// TestMaintenanceMode: the node hands its jobs over and stays up, and load balancers hear of it.
func TestMaintenanceMode(t *testing.T) {
	t.Parallel()
	const jobs = 3
	f := newFleet(t)
	f.fill(1)
	a := f.join("a", nil)
	f.putJobs(jobs)
	f.awaitRunning("the jobs", func(on map[string]int) bool { return on["a"] == jobs })
	b := f.join("b", nil)
	const setting = "_node/_local/_config/couchdb/maintenance_mode"

	f.ask(a)
	if old := f.want(200, "PUT", setting, `"true"`); old["text"] != "\"false\"\n" {
		t.Errorf("the old value: %v", old)
	}
	if up := f.want(404, "GET", "_up", ""); up["status"] != "maintenance_mode" {
		t.Errorf("up: %v", up)
	}
	f.awaitRunning("b to have all", func(on map[string]int) bool { return on["b"] == jobs && on["a"] == 0 })
	f.await("the registry to tell", func() bool { return f.members()["a"]["status"] == "maintenance" })
	// The node still answers requests.
	f.want(201, "PUT", "_replicator/more", `{"source":"http://127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`)

	f.ask(b).want(200, "GET", "_up", "")
	f.want(200, "PUT", setting, `"nolb"`)
	if up := f.want(404, "GET", "_up", ""); up["status"] != "nolb" {
		t.Errorf("up: %v", up)
	}
	if on := f.running(); on["b"] < jobs {
		t.Errorf("nolb stops runs: %v", on)
	}
	bad := f.want(400, "PUT", setting, `"maybe"`)
	if reason := bad["reason"].(string); !strings.Contains(reason, "must be one of false, true, nolb") {
		t.Errorf("%v", bad)
	}
	f.want(400, "PUT", setting, `true`)
	f.want(421, "GET", "_node/a/_config/couchdb/maintenance_mode", "")
	f.want(421, "PUT", "_node/a/_config/couchdb/maintenance_mode", `"true"`)
	f.want(404, "GET", "_node/z/_config/replicator", "")
	f.want(200, "GET", "_node/b/_config/replicator", "")
	told := f.want(200, "GET", "_node/_local/_config/replicator", "")
	if told["max_churn"] != "20" || told["activity_timeout_sec"] != "3s" {
		t.Errorf("settings: %v", told)
	}
	if told = f.want(200, "GET", "_node/_local/_config/replicator.shares", ""); len(told) != 0 {
		t.Errorf("shares: %v", told)
	}
	f.want(200, "DELETE", setting, "")
	f.want(200, "GET", "_up", "")

	// A reload of the configuration forgets a change that is not kept.
	if status, _ := f.call("PUT", setting, `"nolb"`, "X-Couch-Persist", "false"); status != 200 {
		t.Errorf("answered %d", status)
	}
	f.want(404, "GET", "_up", "")
	f.want(200, "POST", "_node/_local/_config/_reload", `{}`)
	f.want(200, "GET", "_up", "")
	f.ask(a).want(200, "PUT", setting, `"false"`)
	f.ask(b).want(200, "PUT", setting, `"true"`)
	f.awaitRunning("a to have all again",
		func(on map[string]int) bool { return on["a"] >= jobs && on["b"] == 0 })
}

// TestRolesOfNodes: a frontend without the role replication runs no jobs; a node without the role
// api_frontend answers operators only.
func TestRolesOfNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.fill(3)
	front := f.join("front", func(c *config.Config) { c.Roles = node.APIFrontend })
	f.want(201, "PUT", "_replicator/r", f.body(`,"continuous":true`))
	if state := f.docState("r"); state != "pending" {
		t.Errorf("without a worker the job is %s", state)
	}
	worker := f.join("worker", func(c *config.Config) { c.Roles = node.Replication })
	f.await("the worker to be registered", func() bool { return len(f.members()) == 2 })
	for _, c := range []struct{ method, path, body string }{
		{"GET", "_replicator", ""}, {"PUT", "_replicator/x", "{}"}, {"POST", "_replicate", "{}"},
		{"GET", "_scheduler/jobs", ""},
		{"GET", "_active_tasks", ""}, {"GET", "_all_dbs", ""}, {"PUT", "x%2F_replicator", ""},
		{"GET", "_scheduler/nodes/x", ""},
	} {
		answer := f.want(http.StatusMisdirectedRequest, c.method, c.path, c.body)
		if reason, _ := answer["reason"].(string); answer["error"] != "not_a_frontend" ||
			!strings.Contains(reason, "api_frontend") {
			t.Errorf("%s %s: %v", c.method, c.path, answer)
		}
	}
	for _, path := range []string{"", "_up", "_membership", "_scheduler/nodes", "_node/_local"} {
		f.want(200, "GET", path, "")
	}
	if local := f.want(200, "GET", "_node/_local", ""); local["name"] != "worker" ||
		fmt.Sprint(local["roles"]) != "[replication]" {
		t.Errorf("_local is %v", local)
	}
	f.want(404, "GET", "_node/nobody", "")
	f.ask(front)
	if other := f.want(200, "GET", "_node/worker", ""); other["name"] != "worker" ||
		other["last_seen"] == "" {
		t.Errorf("worker is %v", other)
	}
	// A job that a frontend accepts is run by a worker.
	answer := f.want(200, "POST", "_replicate",
		fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true}`, f.source.url+"db",
			f.target.url+"other"))
	if answer["ok"] != true {
		t.Errorf("%v", answer)
	}
	f.await("the document's job", func() bool { return f.docState("r") == "running" })
	if on := f.running(); len(on) != 1 || on["worker"] != 1 {
		t.Errorf("running on %v", on)
	}
	if m := f.members(); m["front"]["max_jobs"] != 0.0 ||
		fmt.Sprint(m["front"]["roles"]) != "[api_frontend]" {
		t.Errorf("members %v", m)
	}
	worker.kill()
	f.await("the worker to be given up", func() bool { return f.members()["worker"]["given_up_by"] == "front" })
	if state := f.docState("r"); state != "pending" {
		t.Errorf("after the worker's death the job is %s", state)
	}
}

// TestNamesakes: of two nodes with one name the younger takes another.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join("n", nil)
	f.await("the first to be the elder", func() bool { return len(f.members()) == 1 })
	twin := f.join("n", nil)
	f.await("the names to differ", func() bool { return len(f.members()) == 2 })
	local := f.ask(twin).want(200, "GET", "_node/_local", "")["name"].(string)
	if !strings.HasPrefix(local, "n/") || !strings.Contains(f.log.String(), "duplicate_name") {
		t.Errorf("the twin is called %s; log %s", local, f.log)
	}
	names := f.want(200, "GET", "_membership", "")["all_nodes"].([]any)
	if !slices.Contains(names, any("n")) || !slices.Contains(names, any(local)) {
		t.Errorf("members %v", names)
	}
}

// TestOthersShares: a node that starts with other settings of sharing puts them in force, and logs what
// changes.
func TestOthersShares(t *testing.T) {
	f := newFleet(t)
	f.join("a", nil)
	f.join("b", nil)
	if log := f.log.String(); strings.Contains(log, "sharing_changed") {
		t.Errorf("nothing changed, but %s", log)
	}
	f.join("c", func(c *config.Config) {
		c.Replicator.Sharing.Forgetting.Coeff = 250_000
		c.Replicator.Sharing.Shares = map[string]int64{"_replicator": 7}
	})
	log := f.log.String()
	for _, want := range []string{"sharing_changed", "node=c", "usage_coeff: 0.250000, was 0.500000",
		"shares of _replicator: 7, was 100"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
}
