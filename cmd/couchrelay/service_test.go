package main

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

func TestDocumentRunsAndCompletes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(250)
	r.want(201, "PUT", "_replicator/r", r.body(""))
	r.await("completion", func() bool { return r.docState("r") == "completed" })
	r.same()
	doc := r.want(200, "GET", "_replicator/r", "")
	stats, _ := doc["_replication_stats"].(object)
	if doc["_replication_state"] != "completed" || stats["docs_written"] != 250.0 ||
		doc["_replication_state_time"] == nil {
		t.Errorf("document %v", doc)
	}
	view := r.want(200, "GET", "_scheduler/docs/_replicator/r", "")
	if view["id"] != nil || view["error_count"] != 0.0 || view["source"] != r.source.url+"db/" {
		t.Errorf("view %v", view)
	}
	if jobs := r.want(200, "GET", "_scheduler/jobs", ""); jobs["total_rows"] != 0.0 {
		t.Errorf("jobs %v", jobs)
	}
}

func TestOneShotRequestWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(20)
	answer := r.want(200, "POST", "_replicate", r.body(""))
	history, _ := answer["history"].([]any)
	if answer["ok"] != true || answer["session_id"] == nil || len(history) != 1 {
		t.Errorf("answer %v", answer)
	}
	r.same()
	if again := r.want(200, "POST", "_replicate", r.body("")); again["no_changes"] != true {
		t.Errorf("again %v", again)
	}
	if answer := r.want(200, "POST", "_replicate",
		r.body(`,"use_checkpoints":false,"doc_ids":["doc1"]`)); answer["use_checkpoints"] != false {
		t.Errorf("without checkpoints %v", answer)
	}
}

func TestContinuousAndCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(5)
	answer := r.want(202, "POST", "_replicate", r.body(`,"continuous":true`))
	id, _ := answer["_local_id"].(string)
	if !strings.HasSuffix(id, "+continuous+create_target") {
		t.Fatalf("answer %v", answer)
	}
	copied := func(n float64) func() bool {
		return func() bool {
			var info object
			return request("GET", r.target.url+"copy", nil, &info) == nil && info["doc_count"] == n
		}
	}
	r.await("the first five", copied(5))
	r.add(5, 1)
	r.await("the sixth", copied(6))
	if again := r.want(202, "POST", "_replicate", r.body(`,"continuous":true`)); again["_local_id"] != id {
		t.Errorf("the same request again: %v", again)
	}
	job := r.want(200, "GET", "_scheduler/jobs/"+id, "")
	if job["state"] != "running" || job["database"] != nil {
		t.Errorf("job %v", job)
	}
	if status, tasks := r.call("GET", "_active_tasks", ""); status != 200 ||
		!strings.Contains(tasks["text"].(string), `"type":"replication"`) {
		t.Errorf("tasks %v", tasks)
	}
	cancelled := r.want(200, "POST", "_replicate",
		fmt.Sprintf(`{"cancel":true,"id":%q}`, strings.ReplaceAll(id, "+", " ")))
	if cancelled["_local_id"] != id {
		t.Errorf("cancelled %v", cancelled)
	}
	r.want(404, "GET", "_scheduler/jobs/"+id, "")
	r.want(404, "POST", "_replicate", fmt.Sprintf(`{"cancel":true,"id":%q}`, id))
	r.want(202, "POST", "_replicate", r.body(`,"continuous":true`))
	r.want(200, "POST", "_replicate", r.body(`,"continuous":true,"cancel":true`))
	r.await("the run to end",
		func() bool { _, tasks := r.call("GET", "_active_tasks", ""); return tasks["text"] == "[]\n" })
}

func TestCancelledRequestIsAnswered(t *testing.T) {
	r := newRig(t)
	dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		q *http.Request) {
		<-q.Context().Done()
	}))
	defer dead.Close()
	body := fmt.Sprintf(`{"source":"%s/db","target":"%s/db"%%s}`, dead.URL, dead.URL)
	answered := make(chan int)
	go func() {
		status, _ := r.call("POST", "_replicate", fmt.Sprintf(body, ""))
		answered <- status
	}()
	r.await("the job", func() bool { return r.want(200, "GET", "_scheduler/jobs", "")["total_rows"] == 1.0 })
	r.want(200, "POST", "_replicate", fmt.Sprintf(body, `,"cancel":true`))
	if status := <-answered; status != 404 {
		t.Errorf("answered %d", status)
	}
}

func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(300)
	r.want(201, "PUT", "_replicator/r", r.body(`,"continuous":true`))
	r.await("progress", func() bool { return request("GET", r.target.url+"copy/doc299", nil, nil) == nil })
	r.stop()
	r.add(300, 10)
	r.start(config.Default())
	r.await("the rest", func() bool { return request("GET", r.target.url+"copy/doc309", nil, nil) == nil })
	r.same()
	if state := r.docState("r"); state != "running" {
		t.Error(state)
	}
}

func TestDeletedDocumentStopsItsJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(1)
	answer := r.want(201, "PUT", "_replicator/r", r.body(`,"continuous":true`))
	r.await("the run", func() bool { return r.docState("r") == "running" })
	r.want(200, "DELETE", fmt.Sprintf("_replicator/r?rev=%s", answer["rev"]), "")
	r.want(404, "GET", "_scheduler/docs/_replicator/r", "")
	r.await("the run to end",
		func() bool { _, tasks := r.call("GET", "_active_tasks", ""); return tasks["text"] == "[]\n" })
}

func TestDeletedDatabaseStopsItsJobs(t *testing.T) {
	r := newRig(t)
	r.fill(1)
	r.want(201, "PUT", "team%2F_replicator", "")
	r.want(201, "PUT", "team%2F_replicator/r", r.body(`,"continuous":true`))
	r.want(200, "GET", "_scheduler/docs/team/_replicator/r", "")
	r.want(200, "DELETE", "team%2F_replicator", "")
	r.await("the job to go", func() bool {
		return r.want(200, "GET", "_scheduler/jobs",
			"")["total_rows"] == 0.0
	})
	r.want(404, "GET", "_scheduler/docs/team/_replicator", "")
}

func TestListsPageAndFilter(t *testing.T) {
	r := newRig(t)
	for i := range 7 {
		r.want(201, "PUT", fmt.Sprint("_replicator/r", i),
			fmt.Sprintf(`{"source":"http://127.0.0.1:1/a%d","target":"http://127.0.0.1:1/b"}`, i))
	}
	jobs := r.want(200, "GET", "_scheduler/jobs?limit=3&skip=5", "")
	if list := jobs["jobs"].([]any); len(list) != 2 || jobs["total_rows"] != 7.0 || jobs["offset"] != 5.0 {
		t.Errorf("jobs %v", jobs)
	}
	docs := r.want(200, "GET", "_scheduler/docs?limit=2&skip=1&states=pending,running,crashing", "")
	if list := docs["docs"].([]any); len(list) != 2 || docs["total_rows"] != 7.0 ||
		list[0].(object)["doc_id"] != "r1" {
		t.Errorf("docs %v", docs)
	}
	for _, path := range []string{"_scheduler/jobs?limit=x", "_scheduler/jobs?skip=-1",
		"_scheduler/docs?states=odd", "_scheduler/docs/nowhere"} {
		r.want(400, "GET", path, "")
	}
	r.want(404, "GET", "_scheduler/docs/none/_replicator", "")
	r.want(404, "GET", "_scheduler/odd", "")
	r.want(405, "DELETE", "_scheduler/jobs", "")
	r.want(405, "GET", "_replicate", "")
}

// TestTroubleIsTold: every kind of trouble ends in a clear error, which shows no password.
func TestTroubleIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(1)
	bad := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return strings.Replace(s.URL, "http://", "http://joe:SECRET@", 1) + "/db"
	}
	html := bad(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><title>Welcome to nginx</title></html>")
	})
	unauthorized := bad(func(w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(401)
		fmt.Fprint(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`)
	})
	notADatabase := bad(func(w http.ResponseWriter,
		q *http.Request) {
		fmt.Fprint(w, `{"couchdb":"Welcome"}`)
	})
	noSeq := bad(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.Contains(q.URL.Path, "_changes"):
			fmt.Fprint(w, `{"results":[{"id":"a","changes":[{"rev":"1-a"}]}],"last_seq":1}`)
		case strings.Contains(q.URL.Path, "_local"):
			w.WriteHeader(404)
			fmt.Fprint(w, `{"error":"not_found"}`)
		default:
			fmt.Fprint(w, `{"update_seq":1,"instance_start_time":"0"}`)
		}
	})
	cutOff := bad(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"update_seq":`)
	})
	target := r.target.url + "x"
	for _, c := range []struct {
		name, source string
		status       int
		error, says  string
	}{
		{"html", html, 500, "malformed_response", "HTML"},
		{"unauthorized", unauthorized, 401, "unauthorized", "unauthorized to access or create database"},
		{"no database", notADatabase, 500, "malformed_response", ""},
		{"missing database", strings.Replace(r.source.url, "http://", "http://joe:SECRET@", 1) + "nowhere",
			404, "db_not_found", "could not open"},
		{"row without seq", noSeq, 500, "malformed_response", "seq"},
		{"cut off", cutOff, 500, "connection_closed", ""},
		{"unreachable", "http://joe:SECRET@127.0.0.1:1/db", 500, "connect_failed", "127.0.0.1:1"},
		{"unresolvable", "http://joe:SECRET@no-such-host.invalid/db", 500, "nxdomain",
			"could not resolve http://no-such-host.invalid/db/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			body := fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true,"retries_per_request":1}`,
				c.source, target)
			answer := r.want(c.status, "POST", "_replicate", body)
			reason, _ := answer["reason"].(string)
			if answer["error"] != c.error || !strings.Contains(reason, c.says) {
				t.Errorf("request: %v", answer)
			}
			id := strings.ReplaceAll(c.name, " ", "-")
			r.want(201, "PUT", "_replicator/"+id, body)
			r.await("the crash", func() bool { return r.docState(id) == "crashing" })
			view := r.want(200, "GET", "_scheduler/docs/_replicator/"+id, "")
			info, _ := view["info"].(object)
			if text, _ := info["error"].(string); !strings.Contains(text, c.says) {
				t.Errorf("view: %v", view)
			}
			_, jobs := r.call("GET", "_scheduler/jobs", "")
			if all := fmt.Sprint(answer, view, jobs, r.log); strings.Contains(all, "SECRET") {
				t.Errorf("shows the password: %s", all)
			}
		})
	}
}

func TestMistakesInRequests(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		body, error, says string
		status            int
	}{
		{`{"source":"http://h/a"}`, "invalid_replication", "Missing replicator database", 400},
		{`{"source":"a","target":"http://h/b"}`, "invalid_replication", "local_endpoints_not_supported", 400},
		{`{"source":"http://h/a","target":"http://h/b","continuous":"yes"}`, "bad_request",
			"parameter `continuous` must be a boolean", 400},
		{`{"source":"http://h/a","target":"http://h/b","doc_ids":[],"selector":{}}`,
			"bad_request", "mutually exclusive", 400},
		{`{"source":"http://h/a","target":"http://h/b","worker_processes":0}`, "bad_request",
			"worker_processes", 400},
		{`{"source":`, "bad_request", "", 400},
		{`[]`, "bad_request", "", 400},
		{`{"cancel":true,"id":"nothing"}`, "not_found", "missing", 404},
	} {
		answer := r.want(c.status, "POST", "_replicate", c.body)
		if reason, _ := answer["reason"].(string); answer["error"] != c.error ||
			!strings.Contains(reason, c.says) {
			t.Errorf("%s: %v", c.body, answer)
		}
	}
	if status, answer := r.call("POST", "_replicate", "{}", "Content-Type", "text/plain"); status != 415 {
		t.Errorf("%d %v", status, answer)
	}
	refused := r.want(403, "PUT", "_replicator/r", `{"source":"http://h/a"}`)
	if refused["error"] != "forbidden" ||
		!strings.HasPrefix(refused["reason"].(string), "Missing replicator database") {
		t.Errorf("%v", refused)
	}
	r.want(403, "PUT", "plain", "")
	r.want(404, "GET", "plain", "")
}

func TestAdmins(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	// PBKDF2 of "secret" with salt "salt", 10 rounds of SHA-1, as CouchDB stores it.
	c.Admins = map[string]string{"adm": "-pbkdf2-" + hashOf("secret", "salt", 10) + ",salt,10",
		"eve": "plain"}
	r.start(c)
	basic := func(name, password string) string {
		q, _ := http.NewRequest("GET", "http://x/", nil)
		q.SetBasicAuth(name, password)
		return q.Header.Get("Authorization")
	}
	for _, path := range []string{"_scheduler/jobs", "_scheduler/docs", "_active_tasks",
		"_replicator", "_replicator/_all_docs"} {
		r.want(401, "GET", path, "")
		for _, header := range []string{basic("adm", "wrong"), basic("nobody", "secret"), "Bearer x"} {
			if status, answer := r.call("GET", path, "", "Authorization", header); status != 401 {
				t.Errorf("%s with %s: %d %v", path, header, status, answer)
			}
		}
		for _, header := range []string{basic("adm", "secret"), basic("adm", "secret"),
			basic("eve", "plain")} {
			if status, answer := r.call("GET", path, "", "Authorization", header); status != 200 {
				t.Errorf("%s with %s: %d %v", path, header, status, answer)
			}
		}
	}
	r.want(401, "POST", "_replicate", "{}")
	r.want(200, "GET", "", "")
	r.want(200, "GET", "_up", "")
	body := `{"source":"http://127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`
	if status, answer := r.call("PUT", "_replicator/r", body, "Authorization",
		basic("eve", "plain")); status != 201 {
		t.Fatalf("%d %v", status, answer)
	}
	if _, doc := r.call("GET", "_replicator/r", "", "Authorization",
		basic("adm", "secret")); doc["owner"] != "eve" {
		t.Errorf("document %v", doc)
	}
}

func hashOf(password, salt string, rounds int) string {
	key, err := pbkdf2.Key(sha1.New, password, []byte(salt), rounds, 20)
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(key)
}

func TestServesLoopbackOnlyWithoutAdmin(t *testing.T) {
	c := config.Default()
	c.BindAddress, c.Port = "0.0.0.0", 0
	if l, err := listen(c); err == nil || !strings.Contains(err.Error(), "[admins]") {
		t.Errorf("listens on %v, %v", l, err)
	}
	c.Admins["a"] = "b"
	l, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestHostOfAnotherNameIsRefused(t *testing.T) {
	r := newRig(t)
	q, err := http.NewRequest("GET", r.url+"_scheduler/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = "rebound.example.com"
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 403 {
		t.Errorf("%d", answer.StatusCode)
	}
}
