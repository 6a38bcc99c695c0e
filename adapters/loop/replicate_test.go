package loop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// answers is a server that answers each path, by how it ends, with a status and a body; 401 to others.
func answers(t *testing.T, by map[string]string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for end, body := range by {
			if strings.HasSuffix(r.URL.Path, end) {
				_, _ = io.WriteString(w, body)
				return
			}
		}
		status, body := http.StatusUnauthorized, `{"error":"unauthorized","reason":"not you"}`
		if strings.Contains(r.URL.Path, "/_local/") || strings.HasSuffix(r.URL.Path, "/_bulk_get") {
			status, body = http.StatusNotFound, `{"error":"not_found","reason":"missing"}`
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// replicate runs a one-shot between two servers.
func replicate(t *testing.T, source, target *httptest.Server) replication.End {
	return replicateUntil(t.Context(), t, nil, `{"source":"`+source.URL+`/db","target":"`+target.URL+`/db"}`)
}

// replicateUntil runs a replication until it ends, is stopped, or its context ends.
func replicateUntil(ctx context.Context, t *testing.T, stop <-chan struct{}, body string) replication.End {
	rep, err := spec.ParseRequest([]byte(body), spec.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	wall := clock.New()
	client := couch.New(couch.Options{Version: "x", Clock: wall})
	t.Cleanup(client.Close)
	pair, err := client.Pair(*rep)
	if err != nil {
		t.Fatal(err)
	}
	plan := replication.NewPlan(rep,
		replication.Terms{Server: repid.Server{UUID: "u"}, ProgressInterval: time.Second})
	return Replicate(ctx, stop, wall, plan, pair, func(replication.Info) {}, &Refused{})
}

// TestReplicateEnds: a replication that is stopped ends with a checkpoint, one whose context ends does so at
// once.
func TestReplicateEnds(t *testing.T) {
	for name, end := range map[string]func(stop chan struct{}, cancel func()){
		"in order": func(stop chan struct{}, _ func()) { close(stop) },
		"at once":  func(_ chan struct{}, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			server, asked, gone := idle(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop := make(chan struct{})
			go func() {
				<-asked
				end(stop, cancel)
			}()
			db := server.URL + "/db"
			got := replicateUntil(ctx, t, stop,
				fmt.Sprintf(`{"source":%q,"target":%q,"continuous":true}`, db, db))
			if got.Cause != replication.Stopped {
				t.Errorf("ended with %s", got)
			}
			awaited(t, "the end of its long poll", gone)
		})
	}
}

// TestPageForWrite: a document is written again if the answer is a proxy's page, even one with a good status.
func TestPageForWrite(t *testing.T) {
	written := `{"ok":true,"rev":"0-1"}`
	source := answers(t, map[string]string{
		"/db/":                 `{"update_seq":1,"instance_start_time":"0"}`,
		"/_changes":            `{"results":[{"seq":1,"id":"_design/a","changes":[{"rev":"1-a"}]}],"last_seq":1}`,
		"/_design/a":           `[{"ok":{"_id":"_design/a","_rev":"1-a","_revisions":{"start":1,"ids":["a"]}}}]`,
		"/_ensure_full_commit": written,
	})
	target := answers(t, map[string]string{
		"/db/":                 `{"update_seq":0,"instance_start_time":"0"}`,
		"/_revs_diff":          `{"_design/a":{"missing":["1-a"]}}`,
		"/_design/a":           `{"ok":true,"id":"_design/a","rev":"1-a"}`,
		"/_ensure_full_commit": written,
	})
	puts := 0
	for _, s := range []*httptest.Server{source, target} {
		rest, log := s.Config.Handler, ""
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch isLog := strings.Contains(r.URL.Path, "/_local/"); {
			case r.Method == http.MethodPut && isLog:
				body, _ := io.ReadAll(r.Body)
				log = string(body)
				_, _ = io.WriteString(w, written)
				return
			case isLog && log != "":
				_, _ = io.WriteString(w, `{"_rev":"0-1",`+log[1:])
				return
			case r.Method == http.MethodPut:
				if puts++; puts == 1 {
					_, _ = io.WriteString(w, "<html><title>Please log in</title>")
					return
				}
			}
			rest.ServeHTTP(w, r)
		})
	}
	end := replicate(t, source, target)
	if end.Cause != replication.Completed || end.Info.DocsWritten != 1 || end.Info.DocWriteFailures != 0 ||
		puts != 2 {
		t.Errorf("ended with %+v after %d PUTs", end, puts)
	}
}

// TestCopyRefusedForGood: only an error that concerns the replication as a whole ends its run at once.
func TestCopyRefusedForGood(t *testing.T) {
	source := answers(t, map[string]string{
		"/db/":      `{"update_seq":"1-a","instance_start_time":"1"}`,
		"/_changes": `{"results":[{"seq":1,"id":"a","changes":[{"rev":"1-a"}]}],"last_seq":1}`,
	})
	target := answers(t, map[string]string{
		"/db/":        `{"update_seq":"0-a","instance_start_time":"1"}`,
		"/_revs_diff": `{"a":{"missing":["1-a"]}}`,
	})
	if end := replicate(t, source, target); end.Cause != replication.Crashed ||
		end.Trouble.Error != "unauthorized" {
		t.Errorf("ended with %+v", end)
	}
}
