package relay

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"couchrelay/adapters/web/webtest"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"
)

// show reads an answer of any shape.
func show(s *webtest.Site, request string) map[string]any {
	s.Helper()
	raw, err := io.ReadAll(s.Ask(request).Body)
	if err != nil {
		s.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		s.Fatalf("%s: %s", request, raw)
	}
	return v
}

// makeJob writes a document and returns the id of its job.
func makeJob(s *webtest.Site, docID, body string) string {
	s.Helper()
	s.Ask("PUT /_replicator")
	if answer := s.Ask("PUT /_replicator/" + url.PathEscape(docID) + " " + body); answer.StatusCode != 201 {
		s.Fatal(s.Text(answer))
	}
	return show(s, "GET /_scheduler/docs/_replicator/"+url.PathEscape(docID))["job"].(string)
}

// TestOrders: orders are idempotent, say what they changed, and take both ids of a job, escaped or not.
func TestOrders(t *testing.T) {
	s := newService(t)
	id := makeJob(s, "a/b c", oneShot)
	escaped := url.PathEscape(id)
	want := func(request, state string, changed bool) {
		t.Helper()
		v := show(s, request)
		if v["ok"] != true || v["id"] != id || v["state"] != state || v["changed"] != changed {
			t.Errorf("%s: %v", request, v)
		}
	}
	want("POST /_scheduler/jobs/"+escaped+`/pause {"reason":"disks"}`, "paused", true)
	want("POST /_scheduler/jobs/"+strings.ReplaceAll(escaped, "%2F", "/")+"/pause", "paused", false)
	v := show(s, "GET /_scheduler/jobs/"+strings.ReplaceAll(escaped, "%2F", "/"))
	pause, _ := v["pause"].(map[string]any)
	if v["state"] != "paused" || v["job"] != id || pause["reason"] != "disks" || pause["by"] != nil ||
		pause["at"] == "" {
		t.Errorf("shown as %v", v)
	}
	if v := show(s, "GET /_scheduler/docs?states=paused"); v["total_rows"] != 1. {
		t.Errorf("paused documents: %v", v)
	}
	if v := show(s, "GET /_scheduler/jobs"); v["total_rows"] != 1. {
		t.Errorf("jobs: %v", v)
	}
	want("POST /_scheduler/jobs/"+v["id"].(string)+"/resume {}", "pending", true)
	want("POST /_scheduler/jobs/"+escaped+"/resume", "pending", false)
	events, _ := show(s, "GET /_scheduler/jobs/"+escaped)["history"].([]any)
	if len(events) != 3 || events[0].(map[string]any)["type"] != "resumed" {
		t.Errorf("history %v", events)
	}

	v = show(s, "POST /_scheduler/jobs/"+escaped+"/cancel")
	if v["state"] != "canceled" || v["changed"] != true ||
		v["note"] != "document a/b c of _replicator is deleted, and the job's history with it" {
		t.Errorf("cancel: %v", v)
	}
	s.Fails("GET /_replicator/a%2Fb%20c", 404, "not_found", "deleted")
	s.Fails("POST /_scheduler/jobs/gone/cancel", 404, "not_found",
		"no job has the id gone, neither its own nor that of its replication: "+
			"it is over and forgotten, was canceled, or never was; "+
			"/_scheduler/docs/DB/DOC has that of a document")
}

// unheard is a store that loses the answer to the next commit that writes anything, once it is armed. Then meanwhile is
// called, if it is set.
type unheard struct {
	kv.Database
	armed     *atomic.Bool
	meanwhile func()
}

func (u unheard) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return unheardCommit{u.Database.Begin(ctx, o), u}
}

type unheardCommit struct {
	kv.Transaction
	unheard
}

func (u unheardCommit) Commit() error {
	err := u.Transaction.Commit()
	if _, none := u.Versionstamp(); err == nil && none == nil && u.armed.CompareAndSwap(true, false) {
		if u.meanwhile != nil {
			u.meanwhile()
		}
		return kv.NewError(kv.CommitUnknownResult)
	}
	return err
}

// TestOrdersUnheard: an order that was carried out by an attempt whose answer was lost is told as if it had been heard.
func TestOrdersUnheard(t *testing.T) {
	var armed atomic.Bool
	s := newService(t, func(o *Options) { o.DB = unheard{o.DB, &armed, nil} })
	id := url.PathEscape(makeJob(s, "r", oneShot))
	for _, c := range []struct {
		request string
		status  int
	}{
		{"POST /_scheduler/jobs/" + id + "/pause", 200}, {"POST /_scheduler/jobs/" + id + "/resume", 200},
		{"POST /_scheduler/jobs/" + id + "/reset", 200}, {"POST /_scheduler/jobs/" + id + "/cancel", 200},
		{`POST /_scheduler/holds {"server":"h"}`, 201}, {"DELETE /_scheduler/holds/server:h", 200},
	} {
		armed.Store(true)
		answer := s.Ask(c.request)
		if text := s.Text(answer); answer.StatusCode != c.status || !strings.Contains(text, `"changed":true`) ||
			armed.Load() {
			t.Errorf("%s: %d %s", c.request, answer.StatusCode, text)
		}
	}
}

// TestHoldLiftedUnheard: an attempt to lift a hold, whose answer was lost, is not repeated on one that was made since.
func TestHoldLiftedUnheard(t *testing.T) {
	var armed atomic.Bool
	var again func()
	s := newService(t, func(o *Options) { o.DB = unheard{o.DB, &armed, func() { again() }} })
	const changed = `{"ok":true,"id":"server:h","changed":true}`
	s.Want(`POST /_scheduler/holds {"server":"h","reason":"disks"}`, 201, changed)
	again = func() {
		s.Want(`POST /_scheduler/holds {"server":"h","reason":"fans"}`, 201, changed)
	}
	armed.Store(true)
	s.Want("DELETE /_scheduler/holds/server:h", 200, changed)
	if v := show(s, "GET /_scheduler/holds/server:h"); v["reason"] != "fans" || armed.Load() {
		t.Errorf("the hold is %v", v)
	}
}

// TestOrdersRefused: the answer to a wrong order names its mistake, and nothing changes.
func TestOrdersRefused(t *testing.T) {
	s := newService(t)
	id := url.PathEscape(makeJob(s, "r", `{"source":"http://h/a","target":"http://h/b","paused":true}`))
	for body, reason := range map[string]string{
		`[]`:             "the body must be a JSON object, with reason",
		`{"reason":`:     "the body must be a JSON object, with reason",
		`{"raeson":"x"}`: "unknown field `raeson`; known are reason",
		`{"reason":5}`:   "`reason` must be a string",
		`{"reason":"` + strings.Repeat("x", 1001) + `"}`: "`reason` must have at most 1000 bytes",
	} {
		s.Fails("POST /_scheduler/jobs/"+id+"/pause "+body, 400, "bad_request", reason)
	}
	s.Fails("POST /_scheduler/jobs/"+id+"/resume", 409, "conflict",
		`document r of _replicator says \"paused\": true; change that to resume the job`)
	s.Ask("POST /_scheduler/jobs/" + id + "/pause")
	s.Fails("POST /_scheduler/jobs/"+id+"/resume", 409, "conflict", `document r of _replicator says \"paused\": true; `+
		`change that and resume the job then, which an order has paused as well`)
	s.Fails("POST /_scheduler/jobs/"+id+"/stop", 404, "not_found",
		"no such order: POST /_scheduler/jobs/ID/ORDER takes "+knownOrders)
	s.Fails("POST /_scheduler/jobs/pause", 404, "not_found",
		"no such order: POST /_scheduler/jobs/ID/ORDER takes "+knownOrders)
	s.Fails("POST /_scheduler/jobs/"+id+"/pause x", 415, "bad_content_type",
		"Content-Type must be application/json", "Content-Type", "text/plain")
	over := url.PathEscape(makeJob(s, "over",
		`{"source":"http://h/a","target":"http://h/b","_replication_state":"completed"}`))
	for _, order := range []string{"pause", "resume"} {
		s.Fails("POST /_scheduler/jobs/"+over+"/"+order, 409, "conflict", "the job is over: it is completed")
	}
	v := show(s, "POST /_scheduler/jobs/"+over+"/cancel")
	if v["state"] != "completed" || v["changed"] != false ||
		v["note"] != "the job is over, and goes when document over of _replicator is deleted" {
		t.Errorf("cancel of one that is over: %v", v)
	}
}

// TestCancelOfConflictedDocument: no other leaf of the document brings the job back.
func TestCancelOfConflictedDocument(t *testing.T) {
	s := newService(t)
	id := url.PathEscape(makeJob(s, "r", oneShot))
	s.Ask(`POST /_replicator/_bulk_docs {"new_edits":false,"docs":[` +
		`{"_id":"r","_rev":"2-b","source":"http://h/c","target":"http://h/d"},` +
		`{"_id":"r","_rev":"2-c","source":"http://h/e","target":"http://h/d"}]}`)
	if v := show(s, "POST /_scheduler/jobs/"+id+"/cancel"); v["changed"] != true {
		t.Fatal(v)
	}
	if v := show(s, "GET /_scheduler/jobs"); v["total_rows"] != 0. {
		t.Errorf("jobs: %v", v)
	}
}

// TestHolds: a hold is listed with what its author said, and made and lifted once.
func TestHolds(t *testing.T) {
	db, store := kv.Database(fakefdb.New()), jobstore.New(tuple.Subspace("service"),
		jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1}))
	s := newService(t, func(o *Options) { o.DB, o.Store = db, store })
	id := makeJob(s, "r", oneShot)
	const path = "/_scheduler/holds/server:h:80"
	s.Want(`POST /_scheduler/holds {"server":"H:80","reason":"disks"}`, 201,
		`{"ok":true,"id":"server:h:80","changed":true}`)
	s.Want(`POST /_scheduler/holds {"server":"h:80","reason":"again"}`, 200,
		`{"ok":true,"id":"server:h:80","changed":false}`)
	err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		if err := store.Jobs.Register(tx, "w", nil); err != nil {
			return err
		}
		taken, err := store.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: 5}, 1)
		if len(taken.Work) > 0 {
			t.Error("a job under a hold is taken")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	v := show(s, "GET "+path)
	if v["id"] != "server:h:80" || v["server"] != "h:80" || v["reason"] != "disks" || v["jobs"] != 1. || v["at"] == "" {
		t.Errorf("shown as %v", v)
	}
	if v := show(s, "GET /_scheduler/holds"); v["total_rows"] != 1. || len(v["holds"].([]any)) != 1 {
		t.Errorf("listed as %v", v)
	}
	v = show(s, "GET /_scheduler/jobs/"+url.PathEscape(id))
	if v["state"] != "pending" || v["held_by"] != "server:h:80" {
		t.Errorf("the job is shown as %v", v)
	}
	s.Want("DELETE "+path, 200, `{"ok":true,"id":"server:h:80","changed":true}`)
	for _, request := range []string{"DELETE " + path, "GET " + path} {
		s.Fails(request, 404, "not_found", "no hold has the id server:h:80; see /_scheduler/holds")
	}
	const done = `{"ok":true,"id":"database:a/_replicator","changed":true}`
	s.Want(`POST /_scheduler/holds {"database":"a/_replicator"}`, 201, done)
	s.Want("DELETE /_scheduler/holds/database:a/_replicator", 200, done)
	s.Fails(`POST /_scheduler/holds {"server":"http://h"}`, 400, "bad_request",
		"`server` must be a host name or address, with or without a port, as in db.example.com:6984")
	s.Fails(`POST /_scheduler/holds`, 400, "bad_request", "a hold names a `database` or a `server`, and not both")
}
