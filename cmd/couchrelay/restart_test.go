package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// TestDocroot: a request cannot name a directory of Fauxton with which the service would not start again.
func TestDocroot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refused := r.want(400, "PUT", "_node/_local/_config/fauxton/docroot", fmt.Sprintf("%q", t.TempDir()))
	if reason, _ := refused["reason"].(string); !strings.Contains(reason, "[fauxton] docroot") {
		t.Error(refused)
	}
}

// TestRestartIsAskedFor: a change asks for a restart also where its value is gone, and not where its value is not shown
// and is in force.
func TestRestartIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	c := config.Default()
	err := errors.Join(c.Set("replicator", "password", "old"), c.Set("local", "url", "http://couch:5984"))
	if err != nil {
		t.Fatal(err)
	}
	r.start(c)
	r.svc.layers.files.Replicator.Parse.Local = "" // it was in the local file
	fauxton := t.TempDir()
	if err := os.WriteFile(filepath.Join(fauxton, "index.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(method, name, body string) (restart bool) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, r.url+configURL+name, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if a.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s", method, name, a.Status)
		}
		return a.Header.Get("X-Couchrelay-Restart") == "required"
	}
	for _, c := range []struct {
		method, name, body string
		restart            bool
	}{
		{"GET", "replicator/password", "", false},
		{"PUT", "replicator/password", `"old"`, false},
		{"PUT", "replicator/password", `"new"`, false},
		{"GET", "replicator/password", "", false},
		{"DELETE", "replicator/password", "", false},
		{"PUT", "tls a/password", `"new"`, false},
		{"PUT", "ssl/password", `"new"`, false},
		{"PUT", "fauxton/docroot", fmt.Sprintf("%q", fauxton), true},
		{"DELETE", "fauxton/docroot", "", false},
		{"PUT", "local/url", `"http://couch:5984"`, false},
		{"DELETE", "local/url", "", true},
	} {
		if got := ask(c.method, strings.ReplaceAll(c.name, " ", "%20"), c.body); got != c.restart {
			t.Errorf("%s %s %s asks for a restart: %t", c.method, c.name, c.body, got)
		}
	}
}
