package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// frontOf returns a configuration in front of a CouchDB.
func frontOf(t *testing.T, couchdb string, settings ...string) config.Config {
	t.Helper()
	c := config.Default()
	for _, setting := range append(settings, "front/couchdb="+strings.TrimSuffix(couchdb, "/")) {
		name, value, _ := strings.Cut(setting, "=")
		section, key, _ := strings.Cut(name, "/")
		if err := c.Set(section, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFront: one address is a CouchDB and the service, and its databases are named without a URL.
func TestFront(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	r.start(frontOf(t, r.source.url, "couch_auth/url=none"))
	r.want(201, "PUT", "orders", "")
	r.want(201, "PUT", "orders/doc1", `{"value":1}`)
	answer := r.want(200, "POST", "_replicate", `{"source":"orders","target":"copy","create_target":true}`)
	if answer["ok"] != true {
		t.Errorf("replicated: %v", answer)
	}
	r.want(200, "GET", "copy/doc1", "")
	r.want(201, "PUT", "_replicator/nightly", `{"source":"orders","target":{"url":"again"},"create_target":true}`)
	r.await("the document's job", func() bool { return r.docState("nightly") == "completed" })
	r.want(200, "GET", "again/doc1", "")
	var names []string
	err := request("GET", r.url+"_all_dbs", nil, &names)
	if err != nil || strings.Join(names, " ") != "_replicator again copy orders" {
		t.Errorf("databases of both: %v, %v", names, err)
	}
	if info := r.want(200, "GET", "_scheduler/jobs", ""); info["total_rows"] == nil {
		t.Errorf("jobs: %v", info)
	}
}

// TestFrontLogin: the CouchDB of a front knows the users of both, and its databases are open to their jobs, though it
// is on this machine. All else of the machine is for the jobs of its admins only.
func TestFrontLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	behind, err := url.Parse(r.source.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch name, password, _ := q.BasicAuth(); {
		case q.URL.Path != "/_session":
			proxy.ServeHTTP(w, q)
		case name == "root" && password == "relax":
			fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"root","roles":["_admin"]}}`)
		case name == "joe" && password == "relax":
			fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"joe","roles":["_admins"]}}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(couch.Close)
	r.start(frontOf(t, couch.URL))
	as := func(name, password string) []string {
		q := http.Request{Header: http.Header{}}
		q.SetBasicAuth(name, password)
		return []string{"Authorization", q.Header.Get("Authorization")}
	}
	r.want(201, "PUT", "orders", "")
	const names = `{"source":"orders","target":"copy","create_target":true}`
	for _, c := range []struct {
		status int
		body   string
		header []string
	}{
		{401, names, nil},
		{401, names, as("root", "wrong")},
		{200, names, as("root", "relax")},
		{200, names, as("joe", "relax")},
	} {
		if status, answer := r.call("POST", "_replicate", c.body, c.header...); status != c.status {
			t.Errorf("%s %v: %d %v, want %d", c.body, c.header, status, answer, c.status)
		}
	}
	elsewhere := fmt.Sprintf(`{"source":"orders","target":"%scopy"}`, r.target.url)
	for name, want := range map[string]string{"joe": "endpoint_denied", "root": "db_not_found"} {
		_, answer := r.call("POST", "_replicate", elsewhere, as(name, "relax")...)
		if answer["error"] != want {
			t.Errorf("%s to another service of the machine: %v", name, answer)
		}
	}
}

// TestFrontAtNextStart: a [front] that takes effect at the next start changes nothing for users before.
func TestFrontAtNextStart(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:1"
	r := newRig(t)
	r.want(200, "PUT", configURL+"front/couchdb", `"`+url+`"`)
	r.want(200, "GET", "_scheduler/jobs", "")
	if c := inForce(r.svc); c.Guarded() || !c.Pages().Local {
		t.Error("the service goes by a front that there is not")
	}
	r.want(200, "PUT", configURL+"couch_auth/url", `"none"`)
	r.want(200, "DELETE", configURL+"couch_auth/url", "")
	r.want(200, "DELETE", configURL+"front/couchdb", "")
	guarded, fronted := config.Default(), frontOf(t, url)
	guarded.Admins["adm"] = "secret"
	if err := r.svc.put(guarded); err != nil {
		t.Fatal(err)
	}
	if err := r.svc.checkSafe(t.Context(), fronted); err == nil {
		t.Error("the last admin is removed before there is a front")
	}
	r.stop()
	r.start(frontOf(t, r.source.url, "admins/adm=secret"))
	q := http.Request{Header: http.Header{}}
	q.SetBasicAuth("adm", "secret")
	status, answer := r.call("PUT", "_node/test/_config/front/couchdb", `"`+url+`"`,
		"Authorization", q.Header.Get("Authorization"))
	if c := inForce(r.svc); status != 200 || c.Auth.Couch.URL+"/" != r.source.url || c.Beside.CouchDB != url {
		t.Errorf("%d %v, users are those of %s, the front is %s", status, answer, c.Auth.Couch.URL, c.Beside.CouchDB)
	}
}

// TestFrontBehindProxy: a CouchDB behind a front is told from where and how a request comes as a trusted proxy says it,
// and not as anybody else says it.
func TestFrontBehindProxy(t *testing.T) {
	r := newRig(t)
	r.stop()
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		hops := strings.Split(q.Header.Get("X-Forwarded-For"), ", ")
		fmt.Fprint(w, q.Header["X-Forwarded-Proto"], " ", hops[len(hops)-1])
	}))
	t.Cleanup(couch.Close)
	for trusted, want := range map[string]string{"127.0.0.1": "[https] 192.0.2.7", "192.0.2.9": "[http] 127.0.0.1"} {
		r.start(frontOf(t, couch.URL, "couch_auth/url=none", "chttpd/trusted_proxies="+trusted))
		_, answer := r.call("GET", "db", "", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https")
		if answer["text"] != want {
			t.Errorf("with %s as a proxy: %v, want %s", trusted, answer["text"], want)
		}
		r.stop()
	}
}
