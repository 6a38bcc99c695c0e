package login

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Cookies of a CouchDB with a secret of its own: ann:TIME:good, ann:TIME:old, ann:TIME:forged, adm:TIME:good.
const (
	admsCookie   = "YWRtOjY4NEVFMTgwOmdvb2Q"
	goodCookie   = "YW5uOjY4NEVFMTgwOmdvb2Q"
	oldCookie    = "YW5uOjY4NEVFMTAwOm9sZA"
	forgedCookie = "YW5uOjY4NEVFMTAwOmZvcmdlZA"
)

// authority is a CouchDB that knows the users: ann with the password secret and two cookies.
type authority struct {
	*httptest.Server
	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc] // instead of its own
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		a.asked.Add(1)
		if other := a.answer.Load(); other != nil {
			(*other)(w, q)
			return
		}
		name, password, _ := q.BasicAuth()
		cookie := ""
		if c, err := q.Cookie("AuthSession"); err == nil {
			cookie = c.Value
		}
		var login struct{ Name, Password string }
		_ = json.NewDecoder(q.Body).Decode(&login)
		switch {
		case q.URL.Path != "/couch/_session":
			w.WriteHeader(http.StatusNotFound)
		case q.Method == "POST" && login.Name == "ann" && login.Password == "secret":
			http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: goodCookie, Path: "/"})
			fmt.Fprint(w, `{"ok":true,"name":"ann","roles":["dev"]}`)
		case q.Method == "GET" && cookie == oldCookie:
			http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: goodCookie})
			fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"ann","roles":["dev"]},"info":{}}`)
		case q.Method == "GET" && (cookie == goodCookie || name == "ann" && password == "secret" ||
			q.Header.Get("Authorization") == "Bearer t"):
			fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"ann","roles":["dev"]},"info":{}}`)
		case q.Method == "GET" && cookie == admsCookie:
			fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"adm","roles":["_admin"]},"info":{}}`)
		case q.Method == "GET" && name == "":
			fmt.Fprint(w, `{"ok":true,"userCtx":{"name":null,"roles":[]},"info":{}}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *authority) says(h http.HandlerFunc) { a.answer.Store(&h) }

// TestAuthority: passwords, cookies and tokens are those of the CouchDB; admins of the configuration are still admins.
func TestAuthority(t *testing.T) {
	a := newAuthority(t)
	r := newRig(t, "couch_auth/url="+a.URL+"/couch/")
	r.user("ann", annsDocument) // counts no more
	r.want("GET /who", 200, ann, "Authorization", basic("ann", "secret"))
	r.want("GET /who", 200, ann, "Authorization", "Bearer t")
	r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret"))
	r.want("GET /who", 401, wrong, "Authorization", basic("ann", "wrong"))
	r.want("GET /who", 401, wrong, "Authorization", "Bearer u")
	w := r.want(`POST /_session {"name":"ann","password":"secret"}`, 200, `{"ok":true,"name":"ann","roles":["dev"]}`)
	if r.cookieOf(w) != "AuthSession="+goodCookie {
		t.Errorf("%v", w.Header())
	}
	r.want(`POST /_session {"name":"ann","password":"x"}`, 401, wrong)
	r.want("GET /who", 200, ann, "Cookie", "AuthSession="+goodCookie)
	r.want("GET /who", 200, nobody, "Cookie", "AuthSession="+forgedCookie)
	r.want("GET /who", 200, adm, "Cookie", "AuthSession="+forgedCookie, "Authorization", basic("adm", "secret"))
	w = r.want("GET /who", 200, ann, "Cookie", "AuthSession="+oldCookie)
	if r.cookieOf(w) != "AuthSession="+goodCookie {
		t.Errorf("the CouchDB renews the cookie, the client does not hear of it: %v", w.Header())
	}
	w = r.want(`POST /_session {"name":"adm","password":"secret"}`, 200, `{"ok":true,"name":"adm","roles":["_admin"]}`)
	r.want("GET /who", 200, adm, "Cookie", r.cookieOf(w))
	r.want("GET /who", 200, adm, "Cookie", "AuthSession="+admsCookie) // an admin here and there
	before := a.asked.Load()
	r.want("GET /who", 200, nobody)
	if a.asked.Load() != before {
		t.Error("asks without a login")
	}
}

// TestNamesakes: neither a CouchDB nor a token makes somebody else the owner of what an admin has written.
func TestNamesakes(t *testing.T) {
	a := newAuthority(t)
	r := newRig(t, "couch_auth/url="+a.URL+"/couch/")
	r.want("GET /who", 200, adm, "Cookie", "AuthSession="+admsCookie) // an admin there, too
	a.says(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"adm","roles":["dev"]},"info":{}}`)
	})
	r.clock.Add(time.Minute)
	r.want("GET /who", 200, nobody, "Cookie", "AuthSession="+admsCookie)
	r.want("GET /who", 200, adm, "Cookie", "AuthSession="+admsCookie, "Authorization", basic("adm", "secret"))
	const namesake = "unauthorized: The name is that of a server admin, and the role _admin is missing."
	r.want("GET /who", 401, namesake, "Authorization", "Bearer t")
	r = newRig(t, "jwt_keys/hmac:_default=aGVsbG8=")
	token := func(roles ...string) string {
		claims := jwt.MapClaims{"sub": "adm", "exp": r.clock.Now().Unix() + 9, "_couchdb.roles": roles}
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("hello"))
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	r.want("GET /who", 401, namesake, "Authorization", token("dev"))
	r.want("GET /who", 200, adm, "Authorization", token("_admin"))
}

// TestAuthorityHearsOfClients: the CouchDB delays answers after wrong passwords by the address of the client, which it
// is told. What the client says of that itself does not count.
func TestAuthorityHearsOfClients(t *testing.T) {
	a := newAuthority(t)
	var told []string
	a.says(func(w http.ResponseWriter, q *http.Request) {
		told = append(told, q.Method+" "+strings.Join(q.Header.Values("X-Forwarded-For"), ","))
		w.Header().Set("Set-Cookie", "AuthSession="+goodCookie)
		fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"ann","roles":[]},"name":"ann","roles":[]}`)
	})
	r := newRig(t, "couch_auth/url="+a.URL, "couch_auth/cache=0")
	for _, from := range []string{"192.0.2.1:999", "[2001:db8::1]:999"} {
		r.from, told = from, nil
		r.want(`POST /_session {"name":"ann","password":"secret"}`, 200, `{"ok":true,"name":"ann","roles":[]}`,
			"X-Forwarded-For", "198.51.100.7")
		client, _, _ := net.SplitHostPort(from)
		if want := []string{"GET " + client, "POST " + client}; !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", from, told, want)
		}
	}
}

// TestAnswersCount: an answer counts for its time, and no longer.
func TestAnswersCount(t *testing.T) {
	a := newAuthority(t)
	r := newRig(t, "couch_auth/url="+a.URL+"/couch", "couch_auth/cache=3000")
	header := []string{"Authorization", basic("ann", "secret")}
	for range 3 {
		r.want("GET /who", 200, ann, header...)
	}
	if n := a.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	a.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	r.want("GET /who", 200, ann, header...)
	r.clock.Add(3 * time.Second)
	r.want("GET /who", 401, wrong, header...)
}

// TestAnotherAuthority: what one CouchDB has said of its users is nothing that another one says.
func TestAnotherAuthority(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	b.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	r := newRig(t, "couch_auth/url="+a.URL+"/couch")
	header := []string{"Authorization", basic("ann", "secret")}
	r.want("GET /who", 200, ann, header...)
	r.set("chttpd_auth/timeout=100")
	r.want("GET /who", 200, ann, header...)
	if n := a.asked.Load(); n != 1 {
		t.Errorf("asked %d times, and the CouchDB is the same", n)
	}
	r.set("couch_auth/url=" + b.URL + "/couch")
	r.want("GET /who", 401, wrong, header...)
	b.Close()
	r.clock.Add(time.Minute)
	w := r.ask("GET /who", header...)
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || strings.Contains(body, "127.0.0.1") {
		t.Errorf("a CouchDB that is gone: %d %s", w.Code, body)
	}
	r.set("couch_auth/url=" + a.URL + "/couch")
	r.want("GET /who", 200, ann, header...)
}

// TestShorterCache: an answer counts no longer than the configuration says by now.
func TestShorterCache(t *testing.T) {
	a := newAuthority(t)
	r := newRig(t, "couch_auth/url="+a.URL+"/couch", "couch_auth/cache=60000")
	header := []string{"Authorization", basic("ann", "secret")}
	r.want("GET /who", 200, ann, header...)
	a.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	r.want("GET /who", 200, ann, header...)
	r.set("couch_auth/cache=1000")
	r.want("GET /who", 401, wrong, header...)
}

// TestLongHeaders: a login that is too long for the CouchDB, which hangs up on it, keeps nobody else from logging in.
func TestLongHeaders(t *testing.T) {
	a := newAuthority(t)
	own := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if len(q.Header.Get("Cookie"))+len(q.Header.Get("Authorization")) > 8<<10 {
			panic(http.ErrAbortHandler)
		}
		own.ServeHTTP(w, q)
	})
	r := newRig(t, "couch_auth/url="+a.URL+"/couch")
	long := base64.RawURLEncoding.EncodeToString([]byte("ann:684EE180:" + strings.Repeat("x", 10_000)))
	for header, value := range map[string]string{"Cookie": "AuthSession=" + long, "Authorization": "Bearer " + long} {
		if w := r.ask("GET /who", header, value); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
		r.want("GET /who", 200, ann, "Authorization", basic("ann", "secret"))
		r.want("GET /who", 200, nobody, "Cookie", "AuthSession="+forgedCookie)
	}
}

// TestAuthorityIsAway: a CouchDB that does not answer, or is none, is a 503 with the reason, in a bounded time, and is
// asked again a second later. What needs no answer goes on.
func TestAuthorityIsAway(t *testing.T) {
	a := newAuthority(t)
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	header := []string{"Authorization", basic("ann", "secret")}
	const late = "context deadline exceeded"
	for reason, h := range map[string]http.HandlerFunc{
		late: func(_ http.ResponseWriter, q *http.Request) {
			select {
			case <-hung:
			case <-q.Context().Done():
			}
		},
		"it answers 502 Bad Gateway": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"it answers 302 Found": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://evil.example.com/", http.StatusFound)
		},
		`its answer is not that of /_session, but \"text/html\"`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		},
		`its answer is not that of /_session, but \"application/json\"`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"ok":true,"userCtx":`+strings.Repeat("[", 2<<20))
		},
		`but \"application/x-json\"`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-json")
			fmt.Fprint(w, `{"ok":false,"userCtx":{"name":"ann","roles":["_admin"]}}`)
		},
		"EOF": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		r := newRig(t, "couch_auth/url="+a.URL+"/couch")
		if reason == late {
			r.set("couch_auth/timeout=200")
		}
		a.says(h)
		began := time.Now()
		w := r.ask("GET /who", header...)
		if w.Code != 503 || !strings.Contains(w.Body.String(), reason) || w.Header().Get("Retry-After") == "" ||
			time.Since(began) > 5*time.Second {
			t.Errorf("%s: %d %s", reason, w.Code, w.Body)
		}
		if body := w.Body.String(); strings.Contains(body, "127.0.0.1") || strings.Contains(body, "evil") {
			t.Errorf("tells addresses: %s", body)
		}
		before := a.asked.Load()
		if w := r.ask("GET /who", header...); w.Code != 503 || a.asked.Load() != before {
			t.Errorf("%s: asked again at once, %d", reason, w.Code)
		}
		r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret"))
		r.want("GET /who", 200, nobody)
		r.want("GET /_up", 200, nobody, header...)
		a.answer.Store(nil)
		r.clock.Add(time.Second)
		r.want("GET /who", 200, ann, header...)
	}
}

// TestAuthorityAsksToWait: it throttles guesses, too.
func TestAuthorityAsksToWait(t *testing.T) {
	a := newAuthority(t)
	r := newRig(t, "couch_auth/url="+a.URL+"/couch", "chttpd_auth_lockout/threshold=2")
	a.says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w := r.want("GET /who", 429, "too_many_requests: the CouchDB that knows the users asks to wait",
		"Authorization", basic("ann", "x"))
	if w.Header().Get("Retry-After") != "7" {
		t.Errorf("%v", w.Header())
	}
	a.answer.Store(nil)
	for i := range 2 {
		r.want("GET /who", 401, wrong, "Authorization", basic("ann", fmt.Sprint(i)))
	}
	before := a.asked.Load()
	if w := r.ask("GET /who", "Authorization", basic("ann", "3")); w.Code != 429 || a.asked.Load() != before {
		t.Errorf("%d, asked %t", w.Code, a.asked.Load() != before)
	}
}

// TestGuessesAboutActiveUser: who guesses at the password of a user that works elsewhere is not told which guess is
// right.
func TestGuessesAboutActiveUser(t *testing.T) {
	a := newAuthority(t)
	r := newRig(t, "couch_auth/url="+a.URL+"/couch", "chttpd_auth_lockout/threshold=1")
	login := []string{"Authorization", basic("ann", "secret")}
	r.want("GET /who", 200, ann, login...)
	r.from = "192.0.2.2:1"
	r.want("GET /who", 401, wrong, "Authorization", basic("ann", "guess"))
	for _, password := range []string{"guess", "secret"} {
		if w := r.ask("GET /who", "Authorization", basic("ann", password)); w.Code != 429 {
			t.Errorf("%s: %d", password, w.Code)
		}
	}
	r.from = "192.0.2.1:2"
	r.want("GET /who", 401, wrong, "Authorization", basic("ann", "guess"))
	r.want("GET /who", 200, ann, login...)
}

// TestAuthorityWithNewCertificates: a connection to the CouchDB that knows the users is made by the certificates that
// are trusted then, which change while the service runs.
func TestAuthorityWithNewCertificates(t *testing.T) {
	couch := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"ok":true,"userCtx":{"name":"ann","roles":["dev"]},"info":{}}`)
	}))
	t.Cleanup(couch.Close)
	couch.Config.ErrorLog = log.New(io.Discard, "", 0)
	r := newRig(t, "couch_auth/url="+couch.URL)
	trusted := &tls.Config{RootCAs: x509.NewCertPool()}
	r.asked.client = newClient(func() (*tls.Config, error) { return trusted, nil }, nil)
	if got := r.ask("GET /who", "Authorization", basic("ann", "secret")); got.Code != 503 {
		t.Errorf("with a certificate that is not trusted: %d %s", got.Code, got.Body)
	}
	trusted = &tls.Config{RootCAs: x509.NewCertPool()}
	trusted.RootCAs.AddCert(couch.Certificate())
	r.clock.Add(downPause)
	if got := r.ask("GET /who", "Authorization", basic("ann", "secret")); got.Code != 200 {
		t.Errorf("with one that is: %d %s", got.Code, got.Body)
	}
}
