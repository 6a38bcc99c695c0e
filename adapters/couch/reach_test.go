package couch

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/reach"
	"couchrelay/core/spec"
)

func policy(t *testing.T, allow, deny string, guarded bool) *reach.Policy {
	t.Helper()
	p := &reach.Policy{Guarded: guarded}
	var err error
	if p.Allow, err = reach.ParseRules(allow); err != nil {
		t.Fatal(err)
	}
	if p.Deny, err = reach.ParseRules(deny); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGuard connects to a server on this machine, by its address and by a name that only shows what it is when it has
// been resolved, directly and by a proxy.
func TestGuard(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		says(200, `{"update_seq":"1-a"}`)(w, r)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	port := address[strings.LastIndexByte(address, ':'):]
	guarded, open := policy(t, "", "", true), policy(t, "", "", false)
	client := New(Options{Reach: func(user string, admin bool) *reach.Policy {
		if user == "adm" || admin {
			return open
		}
		return guarded
	}})
	defer client.Close()
	for _, c := range []struct {
		name, url, proxy string
		doc              bool
		owner, user      string
		want             string // of the reason; empty if it connects
	}{
		{"an admin", server.URL, "", true, "adm", "", ""},
		{"a user", server.URL, "", true, "bob", "", "no connection to 127.0.0.1: jobs of users"},
		{"a user by a name", "http://localhost" + port, "", true, "bob", "",
			"no connection to localhost (127.0.0.1): jobs of users"},
		{"an admin by a name", "http://localhost" + port, "", true, "adm", "", ""},
		{"a user who says to be another", server.URL, "", true, "bob", "adm", "jobs of users"},
		{"an admin's request", server.URL, "", false, "", "adm", ""},
		{"a user's request", server.URL, "", false, "adm", "bob", "jobs of users"},
		{"a user's proxy", "http://db.test", server.URL, true, "bob", "", "no connection to 127.0.0.1: jobs of users"},
		{"an admin's proxy", "http://db.test", server.URL, true, "adm", "", ""},
		{"a user by mapped address", "http://[::ffff:127.0.0.1]" + port, "", true, "bob", "", "jobs of users"},
	} {
		rep := testReplication()
		rep.Source.URL, rep.Owner, rep.User.Name = c.url+"/db/", c.owner, c.user
		if c.doc {
			rep.DocID = "doc"
		}
		if c.proxy != "" {
			rep.Source.Proxy = &spec.Proxy{URL: c.proxy}
		}
		pair, err := client.Pair(rep)
		if err != nil {
			t.Fatal(err)
		}
		before := asked
		f := pair.Do(context.Background(), 1, peer.Open{}).Failure
		pair.Close()
		switch {
		case c.want == "" && f != nil, c.want != "" && f == nil:
			t.Errorf("%s: %v", c.name, f)
		case f != nil && (f.Kind != peer.Denied || !strings.Contains(f.Reason, c.want) || asked != before):
			t.Errorf("%s: %v, asked %d times", c.name, f, asked-before)
		}
	}
}

// TestDeniedPlaces: a redirect leads nowhere where the job may not go, nor does a connection that another job has left
// open, and neither is tried.
func TestDeniedPlaces(t *testing.T) {
	moves := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://inner.test/db/", http.StatusPermanentRedirect)
	}
	rules := policy(t, "", "inner.test", false)
	inRigWith(t, Options{Reach: func(user string, _ bool) *reach.Policy { return rules }}, moves, nil, func(r *rig) {
		r.net.serve("inner.test:80", nil)
		f := r.do(peer.Open{}).Failure
		const want = "no connection to inner.test: endpoint_deny has inner.test"
		if f == nil || f.Kind != peer.Denied || f.Reason != want || r.net.dials != 1 {
			t.Errorf("%v after %d connections", f, r.net.dials)
		}
	})
	users := map[string]*reach.Policy{"adm": policy(t, "", "", false), "bob": policy(t, "", "source.test", false)}
	inRigWith(t, Options{Reach: func(user string, _ bool) *reach.Policy { return users[user] }},
		says(200, `{"update_seq":"1-a"}`), nil, func(r *rig) {
			must[peer.Opened](r, peer.Open{})
			rep := testReplication()
			rep.User.Name = "bob"
			pair, err := r.client.Pair(rep)
			if err != nil {
				t.Fatal(err)
			}
			defer pair.Close()
			if f := pair.Do(context.Background(), 1, peer.Open{}).Failure; f == nil || f.Kind != peer.Denied {
				t.Errorf("%v", f)
			}
		}, func(rep *spec.Replication) { rep.User.Name = "adm" })
}

// TestDeniedByProxy: a proxy is not asked for a server where the job may not go, however the document spells its name.
func TestDeniedByProxy(t *testing.T) {
	asked := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Host
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	p := policy(t, "", "bad.test, 10.0.0.0/8", false)
	client := New(Options{Reach: func(string, bool) *reach.Policy { return p }})
	defer client.Close()
	for _, host := range []string{
		"bad.test", "ｂａｄ.test", "bad。test", "bad.test..", "１０.0.0.1", "167772161", "good.test",
	} {
		asked = ""
		rep := testReplication()
		rep.Source.URL, rep.Source.Proxy = "https://"+host+"/db/", &spec.Proxy{URL: proxy.URL}
		pair, err := client.Pair(rep)
		if err != nil {
			t.Fatal(err)
		}
		f := pair.Do(context.Background(), 1, peer.Open{}).Failure
		pair.Close()
		good := host == "good.test"
		if (asked != "") != good || f == nil || (f.Kind == peer.Denied) == good {
			t.Errorf("%s: the proxy is asked for %q: %v", host, asked, f)
		}
	}
}

// TestConnectTo: another server is connected to, and called by the name of the first. The operator may lead connections
// to this machine, which documents may not.
func TestConnectTo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "db.test:5984" && r.Host != "127.0.0.1:5984" {
			t.Errorf("called %s", r.Host)
		}
		says(200, `{"update_seq":"1-a"}`)(w, r)
	}))
	defer server.Close()
	p := policy(t, "", "", true)
	var err error
	to := strings.TrimPrefix(server.URL, "http://")
	if p.Detours, err = reach.ParseDetours("db.test:5984:" + to + ", 127.0.0.1:5984:" + to); err != nil {
		t.Fatal(err)
	}
	client := New(Options{Reach: func(string, bool) *reach.Policy { return p }})
	defer client.Close()
	for _, host := range []string{"db.test", "127.0.0.1"} {
		rep := testReplication()
		rep.Source.URL = "http://" + host + ":5984/db/"
		pair, err := client.Pair(rep)
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close()
		if f := pair.Do(context.Background(), 1, peer.Open{}).Failure; f != nil {
			t.Error(f)
		}
	}
}

// TestConnectToWithAllow: with endpoint_allow, connections are led elsewhere only for servers that it names, or to
// addresses in its networks.
func TestConnectToWithAllow(t *testing.T) {
	server := httptest.NewServer(says(200, `{"update_seq":"1-a"}`))
	defer server.Close()
	detours, err := reach.ParseDetours("*.test:5984:" + strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for allow, want := range map[string]bool{"": true, "db.test": true, "*": true, "127.0.0.0/8": true,
		"10.0.0.0/8": false, "db.test:80, 10.0.0.0/8": false, "other.test": false} {
		p := policy(t, allow, "", true)
		p.Detours = detours
		client := New(Options{Reach: func(string, bool) *reach.Policy { return p }})
		defer client.Close()
		rep := testReplication()
		rep.Source.URL = "http://db.test:5984/db/"
		pair, err := client.Pair(rep)
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close()
		f := pair.Do(t.Context(), 1, peer.Open{}).Failure
		if (f == nil) != want || f != nil && f.Kind != peer.Denied {
			t.Errorf("endpoint_allow = %s: %v", allow, f)
		}
	}
}

// TestGuardedPools: a connection that an admin's job has open to this machine is not for others, who would not be let
// through to its address.
func TestGuardedPools(t *testing.T) {
	server := httptest.NewServer(says(200, `{"update_seq":"1-a"}`))
	defer server.Close()
	users := map[string]*reach.Policy{"adm": policy(t, "", "", false), "bob": policy(t, "", "", true)}
	client := New(Options{Reach: func(user string, _ bool) *reach.Policy { return users[user] }})
	defer client.Close()
	for _, user := range []string{"adm", "bob"} {
		rep := testReplication()
		rep.Source.URL, rep.User.Name = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)+"/db/", user
		pair, err := client.Pair(rep)
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close() // the admin's stays open meanwhile
		f := pair.Do(t.Context(), 1, peer.Open{}).Failure
		if denied := f != nil && f.Kind == peer.Denied; denied != (user == "bob") || f != nil && !denied {
			t.Errorf("%s: %v", user, f)
		}
	}
}

// TestProxiedHops: behind a proxy, which resolves names itself, redirects are checked by name.
func TestProxiedHops(t *testing.T) {
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "http://inner.test/db/", http.StatusPermanentRedirect)
	}))
	defer proxy.Close()
	rules := policy(t, "", "inner.test", false)
	client := New(Options{Reach: func(string, bool) *reach.Policy { return rules }})
	defer client.Close()
	rep := testReplication()
	rep.Source.URL, rep.Source.Proxy = "http://db.test/db/", &spec.Proxy{URL: proxy.URL}
	pair, err := client.Pair(rep)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	f := pair.Do(t.Context(), 1, peer.Open{}).Failure
	if f == nil || f.Kind != peer.Denied || asked != 1 {
		t.Errorf("%v after %d requests", f, asked)
	}
}
