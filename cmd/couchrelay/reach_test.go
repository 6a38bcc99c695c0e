package main

import (
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/core/reach"
)

// TestGates: admins go everywhere that rules allow, and so does everybody where there are none.
func TestGates(t *testing.T) {
	c := config.Default()
	for _, key := range [][2]string{{"endpoint_allow", "*.a.test, 10.0.0.0/8"}, {"endpoint_deny", "x.a.test"}} {
		if err := c.Set("replicator", key[0], key[1]); err != nil {
			t.Fatal(err)
		}
	}
	if g := newGates(c); g.of("").Guarded || g.of("bob").Guarded {
		t.Error("a service without admins is guarded")
	}
	c.Admins["adm"] = "x"
	g := newGates(c)
	for user, guarded := range map[string]bool{"adm": false, "bob": true, "": true, "ADM": true} {
		if p := g.of(user); p.Guarded != guarded || p.Allow.String() != "*.a.test, 10.0.0.0/8" || len(p.Deny) != 1 {
			t.Errorf("%q: %+v", user, p)
		}
	}
	c.Admins = nil
	c.Auth.Couch.URL, c.Replicator.Parse.Local = "http://couch", "http://Couch"
	own := reach.Server{Host: "couch", Port: 80}
	if p := newGates(c).of("bob"); !p.Guarded || p.Own != own {
		t.Errorf("users of a CouchDB without an admin here: %+v", p)
	}
	if bob, eve := g.of("bob"), g.of("eve"); bob != eve {
		t.Error("connections are not shared")
	}
}

// TestGatesOfRequests: an admin's request may go to the machine itself, and that of an ordinary user may not, whatever
// user it names.
func TestGatesOfRequests(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Admins["adm"] = "secret"
	r.start(c)
	r.fill(1)
	r.url = strings.Replace(r.url, "http://", "http://adm:secret@", 1)
	if answer := r.want(200, "POST", "_replicate", r.body(`,"user_ctx":{"name":"bob"}`)); answer["ok"] != true {
		t.Errorf("an admin: %v", answer)
	}
	r.want(201, "PUT", "_users", "")
	r.want(201, "PUT", "_users/org.couchdb.user:bob",
		`{"name":"bob","type":"user","roles":[],"password":"hidden"}`)
	r.url = strings.Replace(r.url, "adm:secret", "bob:hidden", 1)
	answer := r.want(500, "POST", "_replicate", r.body(`,"user_ctx":{"name":"adm"}`))
	if answer["error"] != "endpoint_denied" {
		t.Errorf("an ordinary user that names an admin: %v", answer)
	}
}
