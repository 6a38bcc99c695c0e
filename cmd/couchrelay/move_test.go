package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/core/spec"
)

// shift imports from couch into r, or exports from r to couch, and returns what it says.
func (r *rig) shift(couch *rig, in bool, flags func(*move)) (string, error) {
	var out bytes.Buffer
	m := move{remote: remote{Server: r.url, Timeout: 10 * time.Second}, CouchDB: couch.url}
	if flags != nil {
		flags(&m)
	}
	err := m.run(&window{to: &out}, in)
	return out.String(), err
}

// restartAs starts a service again with a server uuid and an admin.
func (r *rig) restartAs(uuid string) {
	r.stop()
	c := config.Default()
	c.UUID, c.Admins = uuid, map[string]string{"adm": "pass"}
	if err := c.Check(); err != nil {
		r.t.Fatal(err)
	}
	r.start(c)
	r.url = strings.Replace(r.url, "://", "://adm:pass@", 1)
}

// TestImportAndExport: replications move to another service and back, each goes on from its checkpoint, and at no time
// both sides run them. A couchrelay plays the CouchDB.
func TestImportAndExport(t *testing.T) {
	t.Parallel()
	couch, r := newRig(t), newRig(t)
	couch.restartAs("0123456789abcdef")
	r.restartAs("fedcba9876543210")
	if _, err := r.shift(couch, true, nil); err == nil || !strings.Contains(err.Error(), "restart it") {
		t.Errorf("with another uuid: %v", err)
	}
	r.restartAs("0123456789abcdef")
	couch.fill(20)
	couch.want(201, "PUT", "team%2Ba%2F_replicator", "")
	couch.want(201, "PUT", "team%2Ba%2F_replicator/steady", couch.body(`,"continuous":true`))
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_churn", `"7"`)
	couch.want(200, "PUT", "_node/_local/_config/replicator/worker_processes", `"3"`)
	read := func(r *rig) any {
		_, view := r.call("GET", "_scheduler/docs/team%2Ba%2F_replicator/steady", "")
		info, _ := view["info"].(map[string]any)
		if info["docs_written"] != info["docs_read"] {
			return nil
		}
		return info["docs_read"]
	}
	couch.await("the copy", func() bool { return read(couch) == 20.0 })

	said, err := r.shift(couch, true, func(m *move) { m.DryRun = true })
	if err != nil || !strings.Contains(said, "1 revision to copy") ||
		!strings.Contains(said, "max_churn = 7 (here 20)\n") ||
		!strings.Contains(said, "worker_processes = 3 (here 4), and a restart\n") {
		t.Errorf("dry run: %v\n%s", err, said)
	}
	r.want(404, "GET", "team%2Ba%2F_replicator", "")
	for range 2 {
		if said, err := r.shift(couch, true, nil); err != nil {
			t.Fatalf("import: %v\n%s", err, said)
		}
	}
	var view map[string]any
	r.await("the hold", func() bool { // the job is pending until a node looks at it
		_, view = r.call("GET", "_scheduler/docs/team%2Ba%2F_replicator/steady", "")
		return view["held_by"] == "database:team+a/_replicator"
	})
	if said, err := r.shift(couch, true, takeOver); err != nil || !strings.Contains(said, "taken over") {
		t.Fatalf("taking over: %v\n%s", err, said)
	}
	couch.add(20, 5)
	// By itself it comes back within a minute.
	r.want(200, "POST", fmt.Sprintf("_scheduler/jobs/%s/retry", view["job"]), "{}")
	r.source, r.target = couch.source, couch.target
	r.await("the rest", func() bool { return read(r) == 25.0 })
	r.same()
	// Nothing is held by an import of what runs here already.
	if said, err := r.shift(couch, true, nil); err != nil || strings.Contains(said, "held") {
		t.Errorf("import after the take-over: %v\n%s", err, said)
	}
	if holds := r.want(200, "GET", "_scheduler/holds", ""); holds["total_rows"] != 0.0 {
		t.Errorf("held after the take-over: %v", holds)
	}
	if said, err := r.shift(couch, false, takeOver); err != nil || !strings.Contains(said, "given back") {
		t.Fatalf("export: %v\n%s", err, said)
	}
	couch.add(25, 5)
	couch.await("the end", func() bool { return read(couch) == 30.0 })
	couch.same()

	// Once more there and back: of the first time nothing is left.
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"8"`)
	said, err = r.shift(couch, true, takeOver)
	if err != nil || !strings.Contains(said, "becomes 0, and was 8") || !strings.Contains(said, "taken over") {
		t.Fatalf("taking over again: %v\n%s", err, said)
	}
	if said, err := r.shift(couch, false, takeOver); err != nil || !strings.Contains(said, "given back") {
		t.Fatalf("export again: %v\n%s", err, said)
	}
	maxJobs := func() string {
		code, view := couch.call("GET", "_node/_local/_config/replicator", "")
		return fmt.Sprintf("%d %v", code, view["max_jobs"])
	}
	if got := maxJobs(); got != "200 8" {
		t.Errorf("max_jobs after the second way back: %s", got)
	}
	// An export that no take-over went before leaves max_jobs alone.
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"9"`)
	if said, err := r.shift(couch, false, takeOver); err != nil {
		t.Fatalf("export once more: %v\n%s", err, said)
	}
	if got := maxJobs(); got != "200 9" {
		t.Errorf("max_jobs after an export alone: %s", got)
	}
}

// TestImportThroughFront: where a CouchDB answers for _local, the uuid and the settings are those of the service behind
// the same address.
func TestImportThroughFront(t *testing.T) {
	t.Parallel()
	couch, r := newRig(t), newRig(t)
	couch.restartAs("0123456789abcdef")
	r.restartAs("fedcba9876543210")
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_churn", `"7"`)
	through := func() (string, error) {
		here, err := url.Parse(r.url)
		if err != nil {
			t.Fatal(err)
		}
		there, err := url.Parse(couch.url)
		if err != nil {
			t.Fatal(err)
		}
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			switch {
			case q.URL.Path == "/":
				fmt.Fprint(w, `{"uuid":"0123456789abcdef","vendor":{"name":"The Apache Software Foundation"}}`)
			case strings.HasPrefix(q.URL.Path, "/_node/_local"):
				httputil.NewSingleHostReverseProxy(there).ServeHTTP(w, q)
			default:
				httputil.NewSingleHostReverseProxy(here).ServeHTTP(w, q)
			}
		}))
		defer front.Close()
		return r.shift(couch, true, func(m *move) {
			m.DryRun, m.Server = true, strings.Replace(front.URL, "://", "://adm:pass@", 1)
		})
	}
	said, err := through()
	if err != nil || !strings.Contains(said, "uuid = 0123456789abcdef (here fedcba9876543210)") ||
		!strings.Contains(said, "max_churn = 7") {
		t.Errorf("with another uuid: %v\n%s", err, said)
	}
	r.restartAs("0123456789abcdef")
	if said, err := through(); err != nil || strings.Contains(said, "uuid") {
		t.Errorf("with the same uuid: %v\n%s", err, said)
	}
}

func TestSameSetting(t *testing.T) {
	for _, c := range []struct {
		theirs, ours string
		want         bool
	}{{"5000", "5s", true}, {"100000", "1m40s", true}, {"30000", "5s", false}, {"500", "500", true},
		{"5", "5s", false}, {"0.98", "auto", false}, {"0", "", false}, {"true", "true", true}} {
		if got := sameSetting(c.theirs, c.ours); got != c.want {
			t.Errorf("%s and %s: %t", c.theirs, c.ours, got)
		}
	}
}

func TestMistakesInMoves(t *testing.T) {
	for url, want := range map[string]string{
		"couch":              "must be a URL with an admin",
		"http://couch:5984":  "must be a URL with an admin",
		"http://127.0.0.1:1": "must be a URL with an admin",
		"ftp://adm@couch":    "must be a URL with an admin", // and not --server

		"http://adm@127.0.0.1:1/": "the CouchDB and the service are both http://127.0.0.1:1:",
	} {
		m := move{CouchDB: url, remote: remote{Server: "http://127.0.0.1:1", Timeout: time.Second}}
		if err := m.run(&window{to: &bytes.Buffer{}}, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	m := move{CouchDB: "http://adm:secret@127.0.0.1:1",
		remote: remote{Server: "http://127.0.0.1:2", Timeout: time.Second}}
	err := m.run(&window{to: &bytes.Buffer{}}, true)
	if err == nil || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("a server that is away: %v", err)
	}
}

// pairToMove are a CouchDB, which a couchrelay plays, with a replication, and a service of the same uuid.
func pairToMove(t *testing.T) (couch, r *rig) {
	couch, r = newRig(t), newRig(t)
	couch.restartAs("0123456789abcdef")
	r.restartAs("0123456789abcdef")
	couch.await("its node", func() bool {
		_, view := couch.call("GET", "_membership", "")
		nodes, _ := view["cluster_nodes"].([]any)
		return len(nodes) > 0
	})
	couch.fill(1)
	couch.want(201, "PUT", "_replicator/steady", couch.body(`,"continuous":true`))
	return couch, r
}

func (r *rig) maxJobs() any {
	_, view := r.call("GET", "_node/_local/_config/replicator", "")
	return view["max_jobs"]
}

func takeOver(m *move) { m.TakeOver = true }

// TestTakeOverWithRefusals: a replication that the service refuses would run nowhere after a take-over.
func TestTakeOverWithRefusals(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	r.want(201, "PUT", "_replicator/_design/strict", `{"validate_doc_update":
		"function(doc) { if (doc._id == 'steady' && !doc._deleted) throw({forbidden: 'not here'}); }"}`)
	said, err := r.shift(couch, true, takeOver)
	if err == nil || !strings.Contains(err.Error(), "1 revision refused") || !strings.Contains(said, "not here") {
		t.Errorf("taking over: %v\n%s", err, said)
	}
	if got := couch.maxJobs(); got != "500" {
		t.Errorf("the CouchDB's max_jobs is %v", got)
	}
	couch.want(200, "DELETE", "_replicator/steady?rev="+couch.revOf("_replicator/steady"), "")
	if said, err := r.shift(couch, true, takeOver); err != nil {
		t.Errorf("without that document: %v\n%s", err, said)
	}
}

// TestTakeOverLeavesHolds: a take-over lifts its own holds, and not one that an operator had put on the database.
func TestTakeOverLeavesHolds(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	couch.want(201, "PUT", "team%2Ba%2F_replicator", "")
	r.want(201, "POST", "_scheduler/holds", `{"database":"_replicator","reason":"do not touch"}`)
	said, err := r.shift(couch, true, takeOver)
	if err != nil || !strings.Contains(said, `the jobs stay behind a hold of another reason: "do not touch"`) {
		t.Errorf("taking over: %v\n%s", err, said)
	}
	holds := r.want(200, "GET", "_scheduler/holds", "")
	if holds["total_rows"] != 1.0 || !strings.Contains(fmt.Sprint(holds), "do not touch") {
		t.Errorf("after the take-over %v", holds)
	}
}

// revOf is the revision of a document.
func (r *rig) revOf(path string) string {
	return fmt.Sprint(r.want(200, "GET", path, "")["_rev"])
}

// TestWrittenDuringTakeOver: what users write until the CouchDB's replicator has stopped is taken over, too.
func TestWrittenDuringTakeOver(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	said, err := r.shift(couch, true, couch.takeOverWhile(func() {
		couch.want(201, "PUT", "late%2F_replicator", "")
		couch.want(201, "PUT", "late%2F_replicator/late", couch.body(`,"doc_ids":["doc0"]`))
	}))
	if err != nil {
		t.Fatalf("taking over: %v\n%s", err, said)
	}
	r.want(200, "GET", "late%2F_replicator/late", "")
	if holds := r.want(200, "GET", "_scheduler/holds", ""); holds["total_rows"] != 0.0 {
		t.Errorf("held after the take-over: %v", holds)
	}
}

// TestRefusedDuringTakeOver: if a replication is refused that was written while the CouchDB's replicator stopped, or by
// the CouchDB of an export, the command says that the replications run on no side now, and does the rest when it is
// repeated.
func TestRefusedDuringTakeOver(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	const strict = `{"validate_doc_update":
		"function(doc) { if (doc._id == 'late' && !doc._deleted) throw({forbidden: 'not here'}); }"}`
	refused := func(in bool, set func(*move)) {
		t.Helper()
		nothing := map[bool]string{true: "so nothing is taken over", false: "so nothing is given back"}[in]
		said, err := r.shift(couch, in, set)
		if err == nil || !strings.Contains(err.Error(), "1 revision refused, "+nothing) ||
			!strings.Contains(err.Error(), "run nowhere") {
			t.Errorf("in %v: %v\n%s", in, err, said)
		}
	}
	r.want(201, "PUT", "_replicator/_design/strict", strict)
	refused(true, couch.takeOverWhile(func() {
		couch.want(201, "PUT", "_replicator/late", couch.body(`,"doc_ids":["doc0"]`))
	}))
	couch.want(200, "DELETE", "_replicator/late?rev="+couch.revOf("_replicator/late"), "")
	if said, err := r.shift(couch, true, takeOver); err != nil {
		t.Errorf("without that document: %v\n%s", err, said)
	}
	if holds := r.want(200, "GET", "_scheduler/holds", ""); holds["total_rows"] != 0.0 {
		t.Errorf("held after the take-over: %v", holds)
	}
	couch.want(201, "PUT", "_replicator/_design/strict", strict)
	r.want(200, "DELETE", "_replicator/_design/strict?rev="+r.revOf("_replicator/_design/strict"), "")
	r.want(201, "PUT", "_replicator/late", r.body(`,"doc_ids":["doc0"]`))
	refused(false, takeOver)
}

// takeOverWhile has a take-over of this CouchDB do something else as it stops its replicator.
func (r *rig) takeOverWhile(do func()) func(*move) {
	behind, err := url.Parse(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	behind.User = nil
	forward := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == "PUT" && strings.HasSuffix(q.URL.Path, "/max_jobs") {
			do()
		}
		forward.ServeHTTP(w, q)
	}))
	r.t.Cleanup(front.Close)
	return func(m *move) {
		m.TakeOver, m.CouchDB = true, strings.Replace(front.URL, "://", "://adm:pass@", 1)
	}
}

// TestJobsHere: an export waits for all jobs of documents, also if jobs of requests fill the first page.
func TestJobsHere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.FormValue("cursor") == "" {
			fmt.Fprint(w, `{"jobs":[{"database":null}],"cursor":"next"}`)
		} else {
			fmt.Fprint(w, `{"jobs":[{"database":"_replicator"},{"database":"couch/jobs/_replicator"}]}`)
		}
	}))
	defer server.Close()
	m := move{remote: remote{Server: server.URL, Timeout: time.Minute}}
	if list, err := m.jobsHere("running", []string{"_replicator"}); len(list) != 1 || err != nil {
		t.Errorf("%q, %v", list, err)
	}
}

// TestExportToStoppedCouchDB: an export to a CouchDB whose admin had set max_jobs to 0 fails, and does not say that the
// CouchDB runs the replications.
func TestExportToStoppedCouchDB(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"0"`)
	if said, err := r.shift(couch, true, takeOver); err != nil {
		t.Fatalf("taking over: %v\n%s", err, said)
	}
	said, err := r.shift(couch, false, takeOver)
	if err == nil || !strings.Contains(err.Error(), "max_jobs is 0") {
		t.Errorf("export: %v\n%s", err, said)
	}
}

// TestExportThatBreaksOff: an export that fails once the jobs here are held says that they run on no side now.
func TestExportThatBreaksOff(t *testing.T) {
	t.Parallel()
	_, r := pairToMove(t)
	jobs := map[string]string{"/_node/a/_config/replicator/max_jobs": "7", "/_node/b/_config/replicator/max_jobs": "7"}
	couch := httptest.NewServer(&clusterToMove{uuid: "0123456789abcdef", refuse: "/_replicator", jobs: jobs})
	defer couch.Close()
	said, err := r.shift(&rig{url: strings.Replace(couch.URL, "://", "://adm:pass@", 1)}, false, takeOver)
	if err == nil || !strings.Contains(err.Error(), "run nowhere") {
		t.Errorf("export: %v\n%s", err, said)
	}
	if holds := r.want(200, "GET", "_scheduler/holds", ""); holds["total_rows"] != 1.0 {
		t.Errorf("held: %v", holds)
	}
}

// clusterToMove plays a CouchDB without replications of two nodes that have other settings.
type clusterToMove struct {
	uuid   string
	jobs   map[string]string // max_jobs, by the path
	refuse string            // a path that cannot be changed
	local  string            // max_jobs of the node that is asked
}

func (c *clusterToMove) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var answer any = []string{}
	switch _, is := c.jobs[q.URL.Path]; {
	case q.Method == "PUT" && q.URL.Path == c.refuse:
		w.WriteHeader(500)
		answer = object{"error": "internal"}
	case is && q.Method == "PUT":
		var value string
		_ = json.NewDecoder(q.Body).Decode(&value)
		answer, c.jobs[q.URL.Path] = c.jobs[q.URL.Path], value
	case is:
		answer = c.jobs[q.URL.Path]
	case q.URL.Path == "/":
		answer = object{"uuid": c.uuid}
	case q.URL.Path == "/_membership":
		answer = object{"cluster_nodes": []string{"a", "b"}}
	case q.URL.Path == "/_node/_local/_config/replicator":
		answer = object{"max_jobs": c.local}
	case q.URL.Path == jobsPath, strings.Contains(q.URL.Path, "/_config/"):
		answer = object{}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// TestMoveOfCluster: nodes of a CouchDB differ in max_jobs, and each gets its own back, also after a take-over that
// broke off between them. One that runs no jobs does not make the CouchDB one that is stopped.
func TestMoveOfCluster(t *testing.T) {
	t.Parallel()
	const a, b = "/_node/a/_config/replicator/max_jobs", "/_node/b/_config/replicator/max_jobs"
	for _, before := range []map[string]string{{a: "0", b: "7"}, {a: "9", b: "0"}, {a: "9", b: "7"}} {
		for _, broken := range []string{"", a, b} {
			r := newRig(t)
			r.restartAs("0123456789abcdef")
			c := &clusterToMove{uuid: "0123456789abcdef", jobs: maps.Clone(before), refuse: broken, local: "0"}
			server := httptest.NewServer(c)
			couch := &rig{url: strings.Replace(server.URL, "://", "://adm:pass@", 1)}
			_, err := r.shift(couch, true, takeOver)
			if (err == nil) != (broken == "") || err != nil && !strings.Contains(err.Error(), "run nowhere") {
				t.Errorf("%v, %s broken: %v", before, broken, err)
			}
			c.refuse = ""
			if said, err := r.shift(couch, true, takeOver); err != nil {
				t.Fatalf("%v: %v\n%s", before, err, said)
			}
			if got := r.maxJobs(); got != "500" { // the node that is asked may be the one that is stopped
				t.Errorf("%v: max_jobs of the service is %v", before, got)
			}
			if c.jobs[a]+c.jobs[b] != "00" {
				t.Errorf("%v: after the take-over %v", before, c.jobs)
			}
			if said, err := r.shift(couch, false, takeOver); err != nil || !maps.Equal(c.jobs, before) {
				t.Errorf("%v: given back %v, %v\n%s", before, c.jobs, err, said)
			}
			server.Close()
			r.stop()
		}
	}
}

// TestExportWithFollowed: documents that are followed stay where they are, and their jobs go on here.
func TestExportWithFollowed(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	r.fill(1)
	if err := request("PUT", r.source.url+"jobs", nil, nil); err != nil {
		t.Fatal(err)
	}
	doc := object{"source": r.source.url + "db", "target": r.target.url + "copy", "create_target": true,
		"continuous": true, "owner": "adm"}
	if err := request("PUT", r.source.url+"jobs/one", doc, nil); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Follow["couch"] = config.Follow{URL: spec.Hide(strings.Replace(r.source.url, "://", "://a:b@", 1)),
		Databases: []string{"jobs"}, Trusted: true}
	r.stop()
	c.UUID, c.Admins = "0123456789abcdef", map[string]string{"adm": "pass"}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	r.start(c)
	r.url = strings.Replace(r.url, "://", "://adm:pass@", 1)
	runs := func() bool {
		_, view := r.call("GET", "_scheduler/docs/couch%2Fjobs%2F_replicator/one", "")
		return view["state"] == "running"
	}
	r.await("the job of the followed document", runs)
	r.want(201, "PUT", "_replicator/own", r.body(`,"continuous":true`))
	said, err := r.shift(couch, false, takeOver)
	if err != nil || !strings.Contains(said, "couch/jobs/_replicator: is followed, and stays as it is") {
		t.Fatalf("export: %v\n%s", err, said)
	}
	couch.want(404, "GET", "couch%2Fjobs%2F_replicator", "")
	couch.want(200, "GET", "_replicator/own", "")
	if holds := r.want(200, "GET", "_scheduler/holds", ""); holds["total_rows"] != 1.0 || !runs() {
		t.Errorf("after the export: %v", holds)
	}
}
