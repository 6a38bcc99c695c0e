package couch

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// refer has the source named secrets for its password and a header.
func refer(rep *spec.Replication) {
	rep.Source.Credentials = spec.Credentials{User: spec.Hide("anna"), Password: spec.Refer("orders")}
	rep.Source.Headers = []spec.Header{{Name: "x-token", Value: spec.Refer("api-token")}}
}

// TestSecretsAreLookedUpForEachRequest: a changed secret is used by the next request, a missing one fails it, and one
// that is there again heals it. Failures name the secret and show none, neither the new one nor that before.
func TestSecretsAreLookedUpForEachRequest(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("orders", "first-pw\n")
	environ := func(name string) string {
		if name == "COUCHRELAY_SECRET_API_TOKEN" {
			return "Bearer tok-1"
		}
		return ""
	}
	var user, password, token string
	source := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		token = r.Header.Get("X-Token")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"unauthorized","reason":"not ` + password + ` nor first-pw nor tok-1"}`))
	}
	inRigWith(t, Options{Secrets: Secrets{Directory: dir, Environ: environ}}, source, nil, func(r *rig) {
		ask := func(wantPassword string) {
			t.Helper()
			f := r.do(peer.Open{Side: peer.Source}).Failure
			if f == nil || f.Status != http.StatusUnauthorized {
				t.Fatal(f)
			}
			if user != "anna" || password != wantPassword || token != "Bearer tok-1" {
				t.Errorf("asked as %s, %s, %s", user, password, token)
			}
			for _, secret := range []string{"first-pw", "second-pw", "tok-1"} {
				if strings.Contains(f.String(), secret) {
					t.Errorf("%s shows %s", f, secret)
				}
			}
		}
		ask("first-pw")
		put("orders", "second-pw\r\n")
		ask("second-pw")
		if err := os.Remove(filepath.Join(dir, "orders")); err != nil {
			t.Fatal(err)
		}
		password = "none came"
		f := r.do(peer.Open{Side: peer.Source}).Failure
		if f == nil || f.Kind != peer.NoSecret || !strings.Contains(f.Reason, `"orders"`) ||
			!strings.Contains(f.Reason, "COUCHRELAY_SECRET_ORDERS") || password != "none came" {
			t.Errorf("without the secret: %v, password %s", f, password)
		}
		put("orders", "second-pw")
		ask("second-pw")
	}, refer)
}

// TestNamedBearer: the token is looked up for each request, and goes in place of a user.
func TestNamedBearer(t *testing.T) {
	text, seen := "tok-1", ""
	source := func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"unauthorized","reason":"not ` + seen + `"}`))
	}
	environ := func(string) string { return text }
	inRigWith(t, Options{Secrets: Secrets{Environ: environ}}, source, nil, func(r *rig) {
		for _, text = range []string{"tok-1", "tok-2"} {
			f := r.do(peer.Open{Side: peer.Source}).Failure
			if seen != "Bearer "+text || f == nil || strings.Contains(f.String(), "tok-") {
				t.Errorf("sent %q, %v", seen, f)
			}
		}
		text, seen = "", "nothing"
		if f := r.do(peer.Open{Side: peer.Source}).Failure; f == nil || f.Kind != peer.NoSecret || seen != "nothing" {
			t.Errorf("without the token: %v, sent %q", f, seen)
		}
	}, func(rep *spec.Replication) {
		rep.Source.Credentials, rep.Source.Bearer = spec.Credentials{}, spec.Refer("api-token")
	})
}

// TestStrangersGetNoSecrets: a server that a redirect leads to gets none.
func TestStrangersGetNoSecrets(t *testing.T) {
	environ := func(string) string { return "pw" }
	var seen http.Header
	source := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://target.test/db/", http.StatusTemporaryRedirect)
	}
	target := func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		w.WriteHeader(http.StatusNotFound)
	}
	inRigWith(t, Options{Secrets: Secrets{Environ: environ}}, source, target, func(r *rig) {
		r.do(peer.Open{Side: peer.Source})
		if seen == nil || seen.Get("Authorization") != "" || seen.Get("X-Token") != "" {
			t.Errorf("the stranger got %v", seen)
		}
	}, refer)
}

// TestSecretsInSecrets: nothing is shown of a secret that begins with another one.
func TestSecretsInSecrets(t *testing.T) {
	inRig(t, says(502, `{"reason":"do not know `+testPassword+`-longer, `+testPassword+`"}`), nil, func(r *rig) {
		if f := r.do(peer.Open{}).Failure; f == nil || f.Reason != "do not know *****, *****" {
			t.Errorf("%v", f)
		}
	}, func(rep *spec.Replication) {
		rep.Source.Proxy = &spec.Proxy{URL: "http://source.test",
			Credentials: spec.NewCredentials("p", testPassword+"-longer")}
	})
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plain": "p w", "line": "pw\n", "windows": "pw\r\n", "two": "a\nb\n", "empty": "\n", "nul": "a\x00b",
		"large": strings.Repeat("x", maxSecret+1), "limit": strings.Repeat("x", maxSecret), "tab": "a\tb",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.WriteFile(outside, []byte("geheim"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Secrets{Directory: dir, Environ: func(name string) string {
		return map[string]string{"COUCHRELAY_SECRET_A_B_C": "env", "COUCHRELAY_SECRET_LINE": "not this"}[name]
	}}
	for name, want := range map[string]string{
		"plain": "p w", "line": "pw", "windows": "pw", "a-b.C": "env", "tab": "a\tb",
		"limit": strings.Repeat("x", maxSecret),
	} {
		if got, err := s.Lookup(name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"two": "one line", "empty": "is empty", "nul": "control", "large": "65536", "directory": "is no file",
		"pipe": "is no file", "../outside": "not the name", "..": "not the name", "": "not the name",
		"absent": "COUCHRELAY_SECRET_ABSENT",
	} {
		got, err := s.Lookup(name)
		if err == nil || got != "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := (Secrets{Environ: s.Environ}).Lookup("plain"); err == nil || errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "directory is not set") {
		t.Errorf("without a directory: %v", err)
	}
}
