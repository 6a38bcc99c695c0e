package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestImportTellsOfRequests: requests to the CouchDB's _replicate are in no document, so no import copies them, and a
// take-over stops them. It says which ones, before it does so.
func TestImportTellsOfRequests(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	if said, err := r.shift(couch, true, func(m *move) { m.DryRun = true }); err != nil ||
		strings.Contains(said, "_replicate") {
		t.Errorf("without requests: %v\n%s", err, said)
	}
	body := strings.Replace(couch.body(`,"continuous":true`), "://", "://user:sesame@", 1)
	for i := range 12 {
		couch.want(202, "POST", "_replicate", strings.Replace(body, "/copy", fmt.Sprint("/asked", i), 1))
	}
	for _, flags := range []func(*move){func(m *move) { m.DryRun = true }, nil, takeOver} {
		said, err := r.shift(couch, true, flags)
		if err != nil || !strings.Contains(said, "the CouchDB has 12 jobs of requests to _replicate") ||
			!strings.Contains(said, "/asked") || !strings.Contains(said, "and 2 more") {
			t.Errorf("with requests: %v\n%s", err, said)
		}
		if strings.Contains(said, "sesame") {
			t.Errorf("a password is shown:\n%s", said)
		}
	}
}

// TestTakeOverIsTold: a try of a take-over says what becomes of both sides, and one of a copy alone does not.
func TestTakeOverIsTold(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	const stops = "the CouchDB's max_jobs becomes 0, and is 500; then the jobs run here\n"
	const holds = "the jobs here become held"
	for _, takesOver := range []bool{false, true} {
		try := func(m *move) { m.DryRun, m.TakeOver = true, takesOver }
		if said, err := r.shift(couch, true, try); err != nil || strings.Contains(said, stops) != takesOver {
			t.Errorf("import, take-over %v: %v\n%s", takesOver, err, said)
		}
		// Without a take-over an export is refused: the CouchDB's replicator runs.
		said, err := r.shift(couch, false, try)
		if (err == nil) != takesOver || strings.Contains(said, holds) != takesOver {
			t.Errorf("export, take-over %v: %v\n%s", takesOver, err, said)
		}
	}
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"0"`)
	try := func(m *move) { m.DryRun, m.TakeOver = true, true }
	if said, err := r.shift(couch, true, try); err != nil || strings.Contains(said, "max_jobs becomes") {
		t.Errorf("of a CouchDB that is stopped: %v\n%s", err, said)
	}
}

// TestExportOfPaused: a CouchDB knows no pause and no hold, so it would run what must not run.
func TestExportOfPaused(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	r.fill(1)
	r.want(201, "PUT", "_replicator/still", r.body(`,"paused":true`))
	r.want(201, "PUT", "_replicator/ordered", r.body(`,"continuous":true`))
	order := func(what string) {
		_, view := r.call("GET", "_scheduler/docs/_replicator/ordered", "")
		r.want(200, "POST", fmt.Sprintf("_scheduler/jobs/%s/%s", view["job"], what), "{}")
	}
	order("pause")
	r.await("the pause", func() bool { return r.docState("ordered") == "paused" })
	refused := func(why ...string) {
		t.Helper()
		holds := r.want(200, "GET", "_scheduler/holds", "")["total_rows"]
		said, err := r.shift(couch, false, func(m *move) { m.DryRun = true })
		if err == nil || !strings.Contains(err.Error(), "would run the replications beside this service") {
			t.Errorf("dry run: %v\n%s", err, said)
		}
		_, dry := r.shift(couch, false, func(m *move) { m.DryRun, m.TakeOver = true, true })
		_, err = r.shift(couch, false, takeOver)
		for _, why := range why {
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(said, why) ||
				dry == nil || !strings.Contains(dry.Error(), why) {
				t.Errorf("not %q: %v, in a dry run %v\n%s", why, err, dry, said)
			}
		}
		couch.want(404, "GET", "_replicator/ordered", "")
		if now := r.want(200, "GET", "_scheduler/holds", "")["total_rows"]; now != holds {
			t.Errorf("holds after that: %v", now)
		}
	}
	refused("_replicator/ordered", "_replicator/still")
	order("resume")
	refused("1 job paused (_replicator/still)")
	r.want(200, "DELETE", "_replicator/still?rev="+r.revOf("_replicator/still"), "")
	r.want(201, "POST", "_scheduler/holds", `{"server":"127.0.0.1","reason":"repairs"}`)
	refused("server:127.0.0.1 is held (\"repairs\")")
	r.want(200, "DELETE", "_scheduler/holds/server:127.0.0.1", "")
	if said, err := r.shift(couch, false, takeOver); err != nil {
		t.Errorf("with nothing paused: %v\n%s", err, said)
	}
	couch.want(200, "GET", "_replicator/ordered", "")
}

// TestExportBesideCouchDB: without a take-over the CouchDB would run the replications beside the service, unless it is
// stopped.
func TestExportBesideCouchDB(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	r.fill(1)
	r.want(201, "PUT", "_replicator/own", r.body(`,"continuous":true`))
	const why = "would run the replications beside this service"
	said, err := r.shift(couch, false, nil)
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("export: %v\n%s", err, said)
	}
	if said, err := r.shift(couch, false, func(m *move) { m.DryRun = true }); err == nil ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("dry run: %v\n%s", err, said)
	}
	if said, err := r.shift(couch, false, func(m *move) { m.DryRun, m.TakeOver = true, true }); err != nil {
		t.Errorf("dry run of a take-over: %v\n%s", err, said)
	}
	couch.want(404, "GET", "_replicator/own", "")
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"0"`)
	if said, err := r.shift(couch, false, nil); err != nil {
		t.Errorf("to a CouchDB that is stopped: %v\n%s", err, said)
	}
	couch.want(200, "GET", "_replicator/own", "")
}

// TestImportBehindOtherDocument: a document that loses against one of the same id that is here already would run
// nowhere after a take-over.
func TestImportBehindOtherDocument(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	theirs := couch.revOf("_replicator/steady")
	ours := ""
	for i := 0; ours < theirs; i++ {
		if ours != "" {
			r.want(200, "DELETE", "_replicator/steady?rev="+ours, "")
			r.want(200, "DELETE", "_replicator", "")
			r.want(201, "PUT", "_replicator", "")
		}
		r.want(201, "PUT", "_replicator/steady", r.body(fmt.Sprintf(`,"continuous":true,"attempt":%d`, i)))
		ours = r.revOf("_replicator/steady")
	}
	for _, flags := range []func(*move){nil, func(m *move) { m.DryRun = true }, takeOver} {
		said, err := r.shift(couch, true, flags)
		if !strings.Contains(said, "steady is refused: ") || !strings.Contains(said, ours) {
			t.Errorf("%v\n%s", err, said)
		}
		if err == nil || !strings.Contains(err.Error(), "1 revision refused") {
			t.Errorf("import: %v", err)
		}
	}
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"0"`)
	if said, err := r.shift(couch, false, nil); !leftOut(err) || !strings.Contains(said, "steady is refused: ") {
		t.Errorf("export: %v\n%s", err, said)
	}
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"500"`)
	if got := couch.maxJobs(); got != "500" {
		t.Errorf("the CouchDB's max_jobs is %v", got)
	}
	r.want(200, "DELETE", "_replicator/steady?rev="+ours, "")
	if said, err := r.shift(couch, true, takeOver); err != nil {
		t.Errorf("without that document: %v\n%s", err, said)
	}
	if got := r.revOf("_replicator/steady"); got != theirs {
		t.Errorf("%s runs here, and not %s", got, theirs)
	}
}

// TestExportOfUnknownFields: a replication that a CouchDB cannot run as it is meant is not handed over, and the command
// names it. It also tells which fields the CouchDB ignores.
func TestExportOfUnknownFields(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	r.fill(1)
	r.want(201, "PUT", "_replicator/token", strings.Replace(r.body(`,"continuous":true`), `"source":`,
		`"source":{"url":"http://127.0.0.1:1/x","auth":{"bearer":"sesame"}},"was":`, 1))
	r.want(201, "PUT", "_replicator/heavy", r.body(`,"continuous":true,"weight":200,"on_refusal":"retry"`))
	for _, flags := range []func(*move){func(m *move) { m.DryRun = true }, takeOver, nil} {
		if flags == nil {
			couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"0"`)
		}
		said, err := r.shift(couch, false, flags)
		for _, want := range []string{"token is refused: a CouchDB does not know `source.auth.bearer`",
			"the CouchDB ignores `weight` of _replicator/heavy",
			"the CouchDB ignores `on_refusal` of _replicator/heavy"} {
			if !strings.Contains(said, want) {
				t.Errorf("not %q: %v\n%s", want, err, said)
			}
		}
		if err == nil || !strings.Contains(err.Error(), "1 revision refused") || strings.Contains(said, "sesame") {
			t.Errorf("export: %v\n%s", err, said)
		}
		if holds := r.want(200, "GET", "_scheduler/holds", ""); holds["total_rows"] != 0.0 {
			t.Errorf("held: %v", holds)
		}
	}
	couch.want(404, "GET", "_replicator/token", "")
	couch.want(200, "GET", "_replicator/heavy", "")
	r.want(200, "DELETE", "_replicator/token?rev="+r.revOf("_replicator/token"), "")
	couch.want(200, "PUT", "_node/_local/_config/replicator/max_jobs", `"7"`)
	if said, err := r.shift(couch, false, takeOver); err != nil || !strings.Contains(said, "given back") {
		t.Errorf("without that document: %v\n%s", err, said)
	}
}

// TestRefusalsOfMovesNameTheServer: a move has logins at two servers, and says which one refuses its own, and what.
func TestRefusalsOfMovesNameTheServer(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	wrong := func(url string) string { return strings.Replace(url, ":pass@", ":sesame@", 1) }
	for server, flags := range map[string]func(*move){
		couch.url: func(m *move) { m.CouchDB = wrong(m.CouchDB) },
		r.url:     func(m *move) { m.Server = wrong(m.Server) },
	} {
		_, err := r.shift(couch, true, flags)
		if wants := "GET " + redacted(server) + "/: unauthorized"; err == nil ||
			!strings.Contains(err.Error(), wants) || strings.Contains(err.Error(), "sesame") ||
			exitStatus(err) != refused {
			t.Errorf("want %q: %v", wants, err)
		}
	}
}

// TestTakeOverThatBreaksOff: a take-over that a signal ends, or the CouchDB, while its last checkpoints are waited for
// says that the replications run on no side now.
func TestTakeOverThatBreaksOff(t *testing.T) {
	t.Parallel()
	_, r := pairToMove(t)
	ctx, interrupt := context.WithCancel(t.Context())
	for want, tasks := range map[string]func(http.ResponseWriter){
		"interrupted": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `[{"type":"replication"}]`)
			time.AfterFunc(100*time.Millisecond, interrupt)
		},
		"status 500": func(w http.ResponseWriter) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"error":"timeout","reason":"nodes"}`)
		},
	} {
		cluster := &clusterToMove{uuid: "0123456789abcdef", local: "7",
			jobs: map[string]string{}}
		for _, node := range []string{"a", "b"} {
			cluster.jobs["/_node/"+node+"/_config/replicator/max_jobs"] = "7"
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/_active_tasks" {
				tasks(w)
				return
			}
			cluster.ServeHTTP(w, q)
		}))
		set := func(m *move) {
			m.TakeOver = true
			if want == "interrupted" {
				m.within = ctx
			}
		}
		_, err := r.shift(&rig{url: strings.Replace(server.URL, "://", "://adm:pass@", 1)}, true, set)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "run nowhere") {
			t.Errorf("%s: %v", want, err)
		}
		server.Close()
	}
}
