package main

import (
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/core/reach"

	"github.com/golang-jwt/jwt/v5"
)

// TestGates: admins go everywhere that rules allow, and so does everybody where there are none.
func TestGates(t *testing.T) {
	c := config.Default()
	for _, key := range [][2]string{{"endpoint_allow", "*.a.test, 10.0.0.0/8"}, {"endpoint_deny", "x.a.test"}} {
		if err := c.Set("replicator", key[0], key[1]); err != nil {
			t.Fatal(err)
		}
	}
	if g := newGates(c); g.of("", false).Guarded || g.of("bob", false).Guarded {
		t.Error("a service without admins is guarded")
	}
	c.Admins["adm"] = "x"
	g := newGates(c)
	for user, guarded := range map[string]bool{"adm": false, "bob": true, "": true, "ADM": true} {
		p := g.of(user, false)
		if p.Guarded != guarded || p.Allow.String() != "*.a.test, 10.0.0.0/8" || len(p.Deny) != 1 {
			t.Errorf("%q: %+v", user, p)
		}
	}
	if g.of("bob", true).Guarded {
		t.Error("an admin of a token or a CouchDB is guarded")
	}
	c.Admins = nil
	c.Auth.Couch.URL, c.Replicator.Parse.Local = "http://couch", "http://Couch"
	own := reach.Server{Host: "couch", Port: 80}
	if p := newGates(c).of("bob", false); !p.Guarded || p.Own != own {
		t.Errorf("users of a CouchDB without an admin here: %+v", p)
	}
	if bob, eve := g.of("bob", false), g.of("eve", false); bob != eve {
		t.Error("connections are not shared")
	}
}

// TestOwnServerStays: the server of local names changes at the next start, and until then jobs reach the one that they
// have been told.
func TestOwnServerStays(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.start(frontOf(t, r.source.url))
	own := r.svc.outside.gates.Load().of("joe", false).Own
	if err := r.svc.put(frontOf(t, r.target.url)); err != nil {
		t.Fatal(err)
	}
	if now := r.svc.outside.gates.Load().of("joe", false).Own; now != own || own.Port == 0 {
		t.Errorf("jobs for local names go to %v, and may go to %v", own, now)
	}
}

// TestGatesOfRequests: an admin's request may go to the machine itself, and that of an ordinary user may not, whatever
// user it names.
func TestGatesOfRequests(t *testing.T) {
	t.Parallel()
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

// TestGatesOfTokens: a user whom a token makes an admin may have its jobs go to the machine itself as an admin of the
// configuration may, by requests and by documents; a token without the role opens nothing.
func TestGatesOfTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Admins["adm"] = "secret"
	if err := c.Set("jwt_keys", "hmac:_default", "aGVsbG8="); err != nil {
		t.Fatal(err)
	}
	r.start(c)
	r.fill(1)
	bearer := func(roles ...string) string {
		claims := jwt.MapClaims{"sub": "token", "exp": 1 << 40, "_couchdb.roles": roles}
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("hello"))
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	open := `{"members":{"roles":[]},"admins":{"roles":["_admin"]}}`
	status, answer := r.call("PUT", "_replicator/_security", open, "Authorization", bearer("_admin"))
	if status != 200 {
		t.Fatal(status, answer)
	}
	for _, role := range []string{"_admin", "_admins"} {
		want, state := 200, "completed"
		if role != "_admin" {
			want, state = 500, "crashing"
		}
		as := []string{"Authorization", bearer(role)}
		if status, answer := r.call("POST", "_replicate", r.body(`,"user_ctx":{"admin":true}`), as...); status != want {
			t.Errorf("%s: %d %v", role, status, answer)
		}
		if status, answer := r.call("PUT", "_replicator/"+role[1:], r.body(""), as...); status != 201 {
			t.Fatal(status, answer)
		}
		r.await("the end of the document of "+role, func() bool {
			_, view := r.call("GET", "_scheduler/docs/_replicator/"+role[1:], "", as...)
			return view["state"] == state
		})
	}
}
