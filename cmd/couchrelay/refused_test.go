package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"couchrelay/adapters/config"
)

// validator is a server in front of another one, with a validation function: it refuses documents whose ids end
// in 5, until it is corrected.
type validator struct {
	*httptest.Server
	corrected atomic.Bool
}

func newValidator(t *testing.T, behind string) *validator {
	v := &validator{}
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case v.corrected.Load():
		case strings.HasSuffix(q.URL.Path, "/_bulk_docs"):
			v.bulk(w, q, proxy)
			return
		case strings.Contains(q.URL.Path, "/_local/"):
		case q.Method == http.MethodPut && strings.HasSuffix(q.URL.Path, "5"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"forbidden","reason":"no fives"}`)
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(v.Close)
	return v
}

// bulk hands on the documents of a bulk write that are not refused.
func (v *validator) bulk(w http.ResponseWriter, q *http.Request, to http.Handler) {
	var body struct {
		Docs     []object `json:"docs"`
		NewEdits bool     `json:"new_edits"`
	}
	if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	refused, kept := []object{}, []object{}
	for _, d := range body.Docs {
		if id, _ := d["_id"].(string); strings.HasSuffix(id, "5") {
			refused = append(refused, object{"id": id, "rev": d["_rev"], "error": "forbidden", "reason": "no fives"})
		} else {
			kept = append(kept, d)
		}
	}
	body.Docs = kept
	raw, _ := json.Marshal(body)
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	q.Header.Del("Content-Length")
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, q)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_ = json.NewEncoder(w).Encode(refused)
}

// TestRefusedDocuments: of 60 documents the target refuses six, under each policy; when its validation function
// is corrected, they arrive at the next demand.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(60)
	target := newValidator(t, r.target.url)
	body := func(copy, more string) string {
		return fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true%s}`, r.source.url+"db",
			target.URL+"/"+copy, more)
	}
	failures := func(id string) object { return r.want(200, "GET", "_scheduler/jobs/"+id+"/failures", "") }

	if answer := r.want(200, "POST", "_replicate", body("skipped", "")); answer["refused"] != 6.0 {
		t.Errorf("skipped: %v", answer)
	}
	r.want(201, "PUT", "_replicator/skip", body("skip", ""))
	r.await("the end of the one-shot", func() bool { return r.docState("skip") == "completed" })
	stats, _ := r.want(200, "GET", "_replicator/skip", "")["_replication_stats"].(object)
	if stats["refused"] != 6.0 || stats["doc_write_failures"] != 6.0 {
		t.Errorf("the document says %v", stats)
	}

	r.want(201, "PUT", "_replicator/fail", body("fail", `,"on_refusal":"fail"`))
	r.await("the failure", func() bool { return r.docState("fail") == "failed" })
	doc := r.want(200, "GET", "_replicator/fail", "")
	if reason, _ := doc["_replication_state_reason"].(string); !strings.Contains(reason, `5", revision 1-`) ||
		!strings.Contains(reason, "no fives") {
		t.Errorf("the failed document says %q", reason)
	}

	answer := r.want(202, "POST", "_replicate", body("retry", `,"on_refusal":"retry","continuous":true`))
	id, _ := answer["_local_id"].(string)
	r.await("the list", func() bool { return failures(id)["total_rows"] == 6.0 })
	row, _ := failures(id)["failures"].([]any)[0].(object)
	if row["id"] != "doc15" || row["error"] != "forbidden" || row["reason"] != "no fives" || row["attempts"] != 1.0 {
		t.Errorf("listed is %v", row)
	}
	r.stop()
	r.start(config.Default())
	target.corrected.Store(true)
	r.want(200, "POST", "_scheduler/jobs/"+id+"/retry", "{}")
	r.await("all documents", func() bool {
		var info object
		return failures(id)["total_rows"] == 0.0 &&
			request("GET", r.target.url+"retry", nil, &info) == nil && info["doc_count"] == 60.0
	})
	done := r.want(200, "GET", "_scheduler/docs/_replicator/skip", "")
	r.want(200, "POST", "_scheduler/jobs/"+url.PathEscape(done["job"].(string))+"/retry", "{}")
	r.await("the documents that a completed one-shot left out", func() bool {
		var info object
		return request("GET", r.target.url+"skip", nil, &info) == nil && info["doc_count"] == 60.0
	})
	r.await("its end", func() bool { return r.docState("skip") == "completed" })
	if status, answer := r.call("GET", "_scheduler/jobs/"+id+"/failures?limit=0", ""); status != 400 {
		t.Errorf("limit 0: %d %v", status, answer)
	}
}

// TestRefusedFromTerminal: a run from the terminal that left documents out fails; a later one, which does not read
// them again, warns of them and names the command that copies them.
func TestRefusedFromTerminal(t *testing.T) {
	r := newRig(t)
	r.fill(20)
	target := newValidator(t, r.target.url)
	name := "/copy"
	run := func(line ...string) (printed string, err error) {
		t.Helper()
		var c commands
		ctx, err := newParser(&c, func(int) {}).Parse(append(line, r.source.url+"db", target.URL+name))
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		stderr := os.Stderr
		os.Stderr = file
		err = ctx.Run(standardOutput())
		os.Stderr = stderr
		text, _ := os.ReadFile(file.Name())
		return string(text), err
	}
	const before = "in earlier runs"
	if printed, err := run("replicate", "--create-target"); err == nil || strings.Contains(printed, before) {
		t.Errorf("the first run: %v, %s", err, printed)
	}
	if printed, err := run("replicate"); err != nil || !strings.Contains(printed, before) {
		t.Errorf("the second run: %v, %s", err, printed)
	}
	if printed, err := run("verify", "--repair"); err == nil || strings.Count(printed, "refused: doc") != 2 {
		t.Errorf("a repair that is refused: %v, %s", err, printed)
	}
	name = "/retry"
	for _, line := range [][]string{{"--create-target"}, nil} {
		printed, err := run(append([]string{"replicate", "--on-refusal", "retry"}, line...)...)
		if err == nil || strings.Contains(printed, before) {
			t.Errorf("%v with retry: %v, %s", line, err, printed)
		}
	}
	target.corrected.Store(true)
	if printed, err := run("replicate", "--on-refusal", "retry"); err != nil || strings.Contains(printed, before) {
		t.Errorf("the last run with retry: %v, %s", err, printed)
	}
	name = "/copy"
	if printed, err := run("verify", "--repair"); err != nil {
		t.Errorf("the repair: %v, %s", err, printed)
	}
	var info object
	if err := request("GET", r.target.url+"copy", nil, &info); err != nil || info["doc_count"] != 20.0 {
		t.Errorf("the target has %v, %v", info, err)
	}
}
