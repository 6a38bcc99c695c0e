package main

import (
	"net/http"
	"testing"

	"couchrelay/adapters/config"
)

// TestPagesWithoutAdmin: as long as every client is an admin, origins = * lets no page of elsewhere be one.
func TestPagesWithoutAdmin(t *testing.T) {
	r := newRig(t)
	for key, body := range map[string]string{"chttpd/enable_cors": `"true"`, "cors/origins": `"*"`} {
		if status, answer := r.call("PUT", "_node/_local/_config/"+key, body); status != 200 {
			t.Fatalf("%s: %d %v", key, status, answer)
		}
	}
	for page, allowed := range map[string]bool{"https://evil.example.com": false, "http://localhost:8080": true} {
		q, err := http.NewRequestWithContext(t.Context(), "OPTIONS", r.url+"_replicate", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Origin", page)
		q.Header.Set("Access-Control-Request-Method", "POST")
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Access-Control-Allow-Origin"); (got == page) != allowed {
			t.Errorf("%s: %d %v", page, answer.StatusCode, answer.Header)
		}
	}
}

// TestCORSIsLive: keys change by requests; a page is told what it may do without a login, and reads errors, too.
// Cookies for all origins are refused.
func TestCORSIsLive(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Admins["adm"] = "secret"
	c.Auth.RequireValidUser = true
	r.start(c)
	const page = "https://app.example.com"
	set := func(status int, section, body string) {
		t.Helper()
		login := "Basic YWRtOnNlY3JldA=="
		if got, answer := r.call("PUT", "_node/_local/_config/"+section, body, "Authorization", login); got != status {
			t.Errorf("%s %s: %d %v", section, body, got, answer)
		}
	}
	asks := func(method, path string) *http.Response {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Origin", page)
		q.Header.Set("Access-Control-Request-Method", "PUT")
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer
	}
	const allowed = "Access-Control-Allow-Origin"
	if a := asks("OPTIONS", "_replicator/x"); a.StatusCode != 401 || a.Header.Get(allowed) != "" {
		t.Errorf("without CORS: %d %v", a.StatusCode, a.Header)
	}
	set(200, "chttpd/enable_cors", `"true"`)
	set(200, "cors", `{"origins":"`+page+`","credentials":"true"}`)
	if a := asks("OPTIONS", "_replicator/x"); a.StatusCode != 204 || a.Header.Get(allowed) != page {
		t.Errorf("asked: %d %v", a.StatusCode, a.Header)
	}
	for path, status := range map[string]int{"_all_dbs": 401, "x?%zz": 400} {
		if a := asks("GET", path); a.StatusCode != status || a.Header.Get(allowed) != page ||
			a.Header.Get("Access-Control-Allow-Credentials") != "true" {
			t.Errorf("%s: %d %v", path, a.StatusCode, a.Header)
		}
	}
	set(400, "cors/origins", `"*"`)
	set(200, "cors", `{"origins":"*","credentials":"false"}`)
	set(400, "cors/credentials", `"true"`)
	set(200, "chttpd/enable_cors", `"false"`)
	if a := asks("GET", "_up"); a.Header.Get(allowed) != "" {
		t.Errorf("off again: %v", a.Header)
	}
}
