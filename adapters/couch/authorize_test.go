package couch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/session"
	"couchrelay/core/spec"
)

var withSessions = Options{Auth: session.Settings{
	Plugins: []session.Plugin{session.Cookie, session.Basic}, Refresh: 550 * time.Second, MinUpdate: 5 * time.Second,
}}

// gate is a server with sessions.
type gate struct {
	mu       sync.Mutex
	maxAge   int    // of cookies; 0 for none
	proof    bool   // who asks for a session has to authenticate
	cookie   string // that it accepts
	logins   int
	requests []string // what each carried: basic, cookie or nothing
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	user, password, basic := r.BasicAuth()
	if r.URL.Path == "/_session" {
		g.logins++
		switch {
		case g.proof && (!basic || user != testUser || password != testPassword):
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case string(body) != "name=anna&password=s3cr3t%2Bpa%2Fss":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write(body)
		default:
			g.cookie = fmt.Sprintf("topsecret%d", g.logins)
			http.SetCookie(w, &http.Cookie{Name: "other", Value: "x"})
			http.SetCookie(w, &http.Cookie{Name: "authsession", Value: g.cookie, MaxAge: g.maxAge, HttpOnly: true})
			_, _ = io.WriteString(w, `{"ok":true}`)
		}
		return
	}
	c, err := r.Cookie(sessionCookie)
	carried := "nothing"
	switch {
	case basic:
		carried = "basic"
	case err == nil:
		carried = "cookie"
	}
	g.requests = append(g.requests, carried)
	if err != nil || c.Value != g.cookie {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized","reason":"not `+g.cookie+`, but `+r.Header.Get("Cookie")+`"}`)
		return
	}
	_, _ = io.WriteString(w, `{"ok":true,"update_seq":"1-a"}`)
}

func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cookie = "another"
}

// TestSession: one request asks for a session, however many start together, and all have its cookie instead of the
// password.
func TestSession(t *testing.T) {
	for _, proof := range []bool{false, true} {
		g := &gate{maxAge: 600, proof: proof}
		inRigWith(t, withSessions, g.ServeHTTP, nil, func(r *rig) {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { must[peer.Opened](r, peer.Open{}) })
			}
			all.Wait()
			logins := map[bool]int{false: 1, true: 2}[proof]
			if g.logins != logins || len(g.requests) != 20 || strings.Contains(strings.Join(g.requests, ""), "basic") {
				t.Errorf("%d logins, requests %v", g.logins, g.requests)
			}
			time.Sleep(539 * time.Second)
			must[peer.Opened](r, peer.Open{})
			if g.logins != logins {
				t.Error("renewed too early")
			}
			time.Sleep(time.Second)
			must[peer.Opened](r, peer.Open{})
			if g.logins != logins+1 {
				t.Error("not renewed")
			}
		})
	}
}

// TestSessionEnds: a server that forgets its sessions is asked for another one, and the request sent again. No failure
// shows a cookie.
func TestSessionEnds(t *testing.T) {
	g := &gate{}
	inRigWith(t, withSessions, g.ServeHTTP, nil, func(r *rig) {
		must[peer.Opened](r, peer.Open{})
		time.Sleep(10 * time.Second)
		g.forget()
		must[peer.Opened](r, peer.Open{})
		if len(g.requests) != 3 || g.logins != 2 {
			t.Errorf("%d logins, requests %v", g.logins, g.requests)
		}
		g.forget()
		f := r.do(peer.Open{}).Failure // the cookie is too young
		if f == nil || f.Status != 401 || strings.Contains(f.String(), "topsecret") || len(g.requests) != 4 {
			t.Errorf("%v, requests %v", f, g.requests)
		}
		time.Sleep(5 * time.Second)
		must[peer.Opened](r, peer.Open{})
	})
}

// TestNoSession has the servers that give no session: those without any are sent the password, others are failures.
func TestNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		session http.HandlerFunc
		word    string // of the failure; empty for basic authentication
		kind    peer.Kind
		status  int
	}{
		"none":      {says(404, `{"error":"not_found"}`), "", 0, 0},
		"no method": {says(405, `{}`), "", 0, 0},
		"no cookie": {says(200, `{"ok":true}`), "cookie_not_found", peer.Malformed, 200},
		"a page":    {says(200, `<html>`), "cookie_not_found", peer.Malformed, 200},
		"logged out": {once(func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: sessionCookie, MaxAge: -1})
			says(200, `{"ok":true}`)(w, r)
		}), "cookie_not_found", peer.Malformed, 200},
		"bad password": {says(401, `{"error":"unauthorized"}`), "session_request_unauthorized", peer.Status, 401},
		"read only":    {says(403, `<html>only GET and HEAD</html>`), "", 0, 0},
		"bad user":     {says(403, `{"error":"forbidden"}`), "session_request_forbidden", peer.Status, 403},
		"trouble":      {says(500, `{}`), "session_unexpected_result", peer.Status, 500},
		"echo": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			_, _ = io.Copy(w, r.Body)
		}, "session_request_unauthorized", peer.Status, 401},
	} {
		t.Run(name, func(t *testing.T) {
			inRigWith(t, withSessions, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/_session" {
					c.session(w, r)
				} else if _, _, basic := r.BasicAuth(); !basic {
					w.WriteHeader(http.StatusUnauthorized)
				} else {
					_, _ = io.WriteString(w, `{"update_seq":"1-a"}`)
				}
			}, nil, func(r *rig) {
				f := r.do(peer.Open{}).Failure
				switch {
				case c.word == "" && f != nil, c.word != "" && f == nil:
					t.Errorf("%v", f)
				case f != nil && (f.Error != c.word || f.Kind != c.kind || f.Status != c.status ||
					f.URL != "http://source.test/_session"):
					t.Errorf("%v, kind %s", f, f.Kind)
				}
			})
		})
	}
}

// once answers the first request by a handler, and others with 500.
func once(first http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		first(w, r)
		first = says(500, `{}`)
	}
}

// TestSessionLost: the network's failures are those of the request that wanted a session, and the next one asks again.
func TestSessionLost(t *testing.T) {
	inRigWith(t, withSessions, nil, nil, func(r *rig) {
		for range 2 {
			f := r.do(peer.Open{}).Failure
			if f == nil || f.Kind != peer.Unreachable || f.Error != "session_request_failed" {
				t.Errorf("%v", f)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if f := r.pair.Do(ctx, 1, peer.Open{}).Failure; f == nil || f.Kind != peer.Cancelled {
			t.Errorf("%v", f)
		}
	}, func(rep *spec.Replication) { rep.Source.URL = "http://nowhere.test/db/" })
}

// TestSessionPlace: a session is asked for beside the database, and where the server itself redirects that. Other
// servers get neither password nor cookie.
func TestSessionPlace(t *testing.T) {
	var paths []string
	g := &gate{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/couch/_session":
			http.Redirect(w, r, "/login/_session", http.StatusPermanentRedirect)
		case "/couch/db/":
			http.Redirect(w, r, "http://target.test/db/", http.StatusPermanentRedirect)
		default:
			r.URL.Path = "/_session"
			g.ServeHTTP(w, r)
		}
	}
	stranger := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie")+r.Header.Get("Authorization") != "" {
			t.Errorf("a stranger got %v", r.Header)
		}
		says(200, `{"update_seq":"1-a"}`)(w, r)
	}
	inRigWith(t, withSessions, handler, stranger, func(r *rig) {
		must[peer.Opened](r, peer.Open{})
		if got := strings.Join(paths, ", "); got != "POST /couch/_session, POST /login/_session, GET /couch/db/" {
			t.Error(got)
		}
	}, func(rep *spec.Replication) { rep.Source.URL = "http://source.test/couch/db/" })
}

// TestSessionOfRoot: an endpoint without a database has its session asked for at its own server, not at one whose name
// ends in "_session", which would get the password.
func TestSessionOfRoot(t *testing.T) {
	for _, address := range []string{"http://source.test", "http://source.test/", "http://source.test//"} {
		asked := ""
		inRigWith(t, withSessions, func(w http.ResponseWriter, r *http.Request) {
			asked += r.Method + r.Host + r.URL.Path + " "
			says(404, `{"couchdb":"Welcome"}`)(w, r)
		}, nil, func(r *rig) { r.do(peer.Open{}) }, func(rep *spec.Replication) { rep.Source.URL = address })
		if !strings.HasPrefix(asked, "POSTsource.test/_session GETsource.test/") {
			t.Errorf("%s: asked for %q", address, asked)
		}
	}
}

// TestSessionRedirected: what asks for a session has the password in its body, so it goes to no other server; nor is it
// redirected for ever.
func TestSessionRedirected(t *testing.T) {
	for location, want := range map[string]int{"http://target.test/_session": 1, "/_session": maxHops} {
		asked := 0
		inRigWith(t, withSessions, func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked <= 2*maxHops {
				http.Redirect(w, r, location, http.StatusTemporaryRedirect)
			}
		}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			t.Errorf("a stranger got %s", body)
		}, func(r *rig) {
			f := r.do(peer.Open{}).Failure
			if f == nil || f.Error != "session_unexpected_result" || f.Status != 307 || asked != want {
				t.Errorf("to %s: %v after %d requests, want %d", location, f, asked, want)
			}
		})
	}
}

// TestOldCookies: the failure of a request that has been on its way for long does not show its cookie either, though
// others have come meanwhile.
func TestOldCookies(t *testing.T) {
	g := &gate{}
	inRigWith(t, withSessions, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			time.Sleep(testTimeout - time.Second)
			says(500, `{"error":"e","reason":"`+r.Header.Get("Cookie")+`"}`)(w, r)
			return
		}
		g.ServeHTTP(w, r)
	}, nil, func(r *rig) {
		var slow sync.WaitGroup
		slow.Go(func() {
			if f := r.do(peer.GetLocal{ID: "slow"}).Failure; f == nil || f.Reason != "AuthSession=*****" {
				t.Errorf("%v", f)
			}
		})
		for range 3 {
			time.Sleep(6 * time.Second)
			g.forget()
			must[peer.Opened](r, peer.Open{})
		}
		slow.Wait()
		if g.logins != 4 {
			t.Errorf("%d cookies", g.logins)
		}
	})
}

// TestRenewedCookie: the cookie that a server sends with an answer, in the place of the session's, is in no failure.
func TestRenewedCookie(t *testing.T) {
	g := &gate{}
	inRigWith(t, withSessions, func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie(sessionCookie); err == nil && c.Value == "renewed" {
			says(500, `{"error":"e","reason":"`+c.Value+`"}`)(w, r)
			return
		}
		if r.URL.Path != "/_session" {
			http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: "renewed"})
		}
		g.ServeHTTP(w, r)
	}, nil, func(r *rig) {
		must[peer.Opened](r, peer.Open{})
		if f := r.do(peer.Open{}).Failure; f == nil || f.Reason != "*****" {
			t.Errorf("%v", f)
		}
	})
}

// TestOnlySessions: without a plugin that works a request is refused here.
func TestOnlySessions(t *testing.T) {
	only := Options{Auth: session.Settings{Plugins: []session.Plugin{session.Cookie}}}
	inRigWith(t, only, says(404, `{}`), nil, func(r *rig) {
		f := r.do(peer.Open{}).Failure
		if f == nil || f.Status != 401 || f.Error != "no_more_auth_plugins_left_to_try" {
			t.Errorf("%v", f)
		}
	})
}

// TestOwnCookies: a cookie in the user's headers is sent beside the session's cookie.
func TestOwnCookies(t *testing.T) {
	g := &gate{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("sticky"); err != nil || c.Value != "7" {
			t.Errorf("%v", r.Header["Cookie"])
		}
		g.ServeHTTP(w, r)
	}
	inRigWith(t, withSessions, handler, nil, func(r *rig) { must[peer.Opened](r, peer.Open{}) },
		func(rep *spec.Replication) {
			rep.Source.Headers = []spec.Header{{Name: "Cookie", Value: spec.Hide("sticky=7")}}
		})
}

// TestBearer: a token is sent to the server itself, asks for no session, and is in no failure.
func TestBearer(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_session" || r.Header.Get("Authorization") != "Bearer t0psecret" {
			t.Errorf("%s with %v", r.URL.Path, r.Header)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":"forbidden","reason":"t0psecret has expired"}`)
	}
	inRigWith(t, withSessions, handler, nil, func(r *rig) {
		if f := r.do(peer.Open{}).Failure; f == nil || f.Status != 403 || strings.Contains(f.String(), "t0psecret") {
			t.Errorf("%v", f)
		}
	}, func(rep *spec.Replication) {
		rep.Source.Credentials, rep.Source.Bearer = spec.Credentials{}, spec.Hide("t0psecret")
	})
}

// TestSessionOfReference: a password that is kept elsewhere is read when a session is asked for.
func TestSessionOfReference(t *testing.T) {
	g := &gate{}
	o, known := withSessions, ""
	o.Secrets.Environ = func(string) string { return known }
	inRigWith(t, o, g.ServeHTTP, nil, func(r *rig) {
		if f := r.do(peer.Open{}).Failure; f == nil || f.Kind != peer.NoSecret || g.logins != 0 {
			t.Errorf("%v after %d logins", f, g.logins)
		}
		known = testPassword
		must[peer.Opened](r, peer.Open{})
		if g.logins != 1 || strings.Join(g.requests, "") != "cookie" {
			t.Errorf("%d logins, %v", g.logins, g.requests)
		}
	}, func(rep *spec.Replication) { rep.Source.Credentials.Password = spec.Refer("pw") })
}

// TestFormShown: a server that repeats the form of a request for a session shows the password as the form has it.
func TestFormShown(t *testing.T) {
	o := withSessions
	o.Secrets.Environ = func(string) string { return testPassword }
	inRigWith(t, o, func(w http.ResponseWriter, r *http.Request) {
		form, _ := io.ReadAll(r.Body)
		http.Error(w, "not "+string(form), http.StatusUnauthorized)
	}, nil, func(r *rig) {
		f := r.do(peer.Open{}).Failure
		if f == nil || !strings.Contains(f.Reason, "password=*****") || strings.Contains(f.Reason, "s3cr3t") {
			t.Error(f)
		}
	}, func(rep *spec.Replication) { rep.Source.Credentials.Password = spec.Refer("pw") })
}
