package login

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The cookies of adm and ann at the start of the rig's clock, as Python's hmac makes them.
const (
	annsCookie = "YW5uOjY4NEVFMTgwOlJfXghVXP3dMlMcDcK4KQFSMW3YZg_PYkDM4_RWQpJy"
	// admsCookies are under the salt "salt", by algorithm.
	admsSHA256 = "YWRtOjY4NEVFMTgwOqTmzmjK1y58v9XDfD3BdT_1kwPX-JBpuSE7XydZeK-e"
	admsSHA1   = "YWRtOjY4NEVFMTgwOrgEO13Qousiru86gRWgB6_vIaT7"
	admsSHA512 = "YWRtOjY4NEVFMTgwOgc1XTdBtYn1JBSHjDaS_KDQHCClhaTwV194uEJIo_HIMCXri8VH3lF4McIW4gLiXbReYFKm7ELo-" +
		"E0FCin9JqQ"
	admsSHA3 = "YWRtOjY4NEVFMTgwOp2Kc0lN4k_S9PE8ixMhiU3ttr8wqlW7keZS2x_GpYOP"
	admsSalt = "-pbkdf2-e248fb6b13365146f8ac6307cc2228127872da6d,salt,10" // secret
)

// TestCookiesAreCouchDBs: cookies of another server with the same secret, and the ones that are made here.
func TestCookiesAreCouchDBs(t *testing.T) {
	for algorithms, accepted := range map[string][]string{
		"sha256, sha": {admsSHA256, admsSHA1}, "sha": {admsSHA1}, "sha512,sha3_256": {admsSHA512, admsSHA3},
		"sha3_256": {admsSHA3},
	} {
		r := newRig(t, "chttpd_auth/hash_algorithms="+algorithms, "admins/adm="+admsSalt)
		for _, cookie := range []string{admsSHA256, admsSHA1, admsSHA512, admsSHA3} {
			want := nobody
			if strings.Contains(strings.Join(accepted, " "), cookie) {
				want = adm
			}
			r.want("GET /who", 200, want, "Cookie", cookieName+"="+cookie)
		}
		w := r.want(`POST /_session {"name":"adm","password":"secret"}`, 200,
			`{"ok":true,"name":"adm","roles":["_admin"]}`)
		if got := r.cookieOf(w); got != cookieName+"="+accepted[0] {
			t.Errorf("%s: cookie %s", algorithms, got)
		}
	}
}

// TestForgedCookies: nothing but the cookie itself counts.
func TestForgedCookies(t *testing.T) {
	r := newRig(t)
	r.user("ann", annsDocument)
	r.want("GET /who", 200, ann, "Cookie", "AuthSession="+annsCookie)
	raw, _ := base64.RawURLEncoding.DecodeString(annsCookie)
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		w := r.ask("GET /who", "Cookie", "AuthSession="+base64.RawURLEncoding.EncodeToString(changed))
		if strings.Contains(w.Body.String(), `"ann"`) {
			t.Errorf("byte %d changed: %s", i, w.Body)
		}
	}
	malformed := "bad_request: Malformed AuthSession cookie. Please clear your cookies."
	for cookie, want := range map[string]string{
		"": nobody, annsCookie + "==": ann, annsCookie[:40]: nobody, "!": malformed, "YW5u": malformed,
		"YW5uOjE":            malformed,
		"YW5uOjY4NEVFMTgwOg": nobody, "OjY4NEVFMTgwOg": nobody,
	} {
		status := 200
		if want == malformed {
			status = 400
		}
		r.want("GET /who", status, want, "Cookie", "AuthSession="+cookie)
	}
	r.set("chttpd_auth/secret=another")
	r.want("GET /who", 200, nobody, "Cookie", "AuthSession="+annsCookie)
	r.want("GET /who", 200, adm, "Cookie", "AuthSession="+annsCookie, "Authorization", basic("adm", "secret"))
}

// TestAgeOfCookies: a cookie ends after its time, a used one is renewed once a tenth of it is over, and one from the
// future, of a node whose clock is ahead, counts.
func TestAgeOfCookies(t *testing.T) {
	r := newRig(t, "chttpd_auth/timeout=100")
	r.user("ann", annsDocument)
	for _, c := range []struct {
		age  time.Duration
		want string
		new  bool
	}{
		{-50, ann, false}, {0, ann, false}, {10, ann, false}, {11, ann, true}, {99, ann, true}, {100, nobody, false},
		{1e6, nobody, false},
	} {
		r.clock.Set(time.Unix(1_750_000_000, 0).Add(c.age * time.Second))
		w := r.want("GET /who", 200, c.want, "Cookie", "AuthSession="+annsCookie)
		renewed := r.cookieOf(w)
		if (renewed != "") != c.new {
			t.Errorf("after %d s: renewed %q", c.age, renewed)
		}
		if renewed != "" {
			r.clock.Add(99 * time.Second)
			r.want("GET /who", 200, ann, "Cookie", renewed)
		}
	}
}

// TestSession: the bodies and headers of logins, with forms and JSON, and what is none.
func TestSession(t *testing.T) {
	r := newRig(t)
	r.user("ann", annsDocument)
	const in = `{"ok":true,"name":"ann","roles":["dev"]}`
	form := []string{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}
	for _, c := range []struct {
		body   string
		header []string
		status int
		want   string
	}{
		{`{"name":"ann","password":"secret"}`, nil, 200, in},
		{`{"username":"ann","password":"secret"}`, nil, 200, in},
		{`{"username":"ann","name":"ann","password":"secret"}`, nil, 200, in},
		{"name=ann&password=secret", form, 200, in},
		{"username=ann&password=secret", form, 200, in},
		{"name=a%6en&password=s%65cret", form, 200, in},
		{`{"name":"ann","password":"wrong"}`, nil, 401, wrong},
		{`{"name":"ann"}`, nil, 401, wrong},
		{`{"name":"","password":""}`, nil, 401, wrong},
		{`{"name":"bob","password":"secret"}`, nil, 401, wrong},
		{`{"password":"secret"}`, nil, 400, "bad_request: request body must contain a username"},
		{"password=secret", form, 400, "bad_request: request body must contain a username"},
		{`{"name":"ann","username":"adm","password":"secret"}`, nil, 400,
			"bad_request: request body contains different usernames"},
		{`{"name":7,"password":"secret"}`, nil, 400,
			"bad_request: the body must be a JSON object with the strings name and password"},
		{`[]`, nil, 400, "bad_request: the body must be a JSON object with the strings name and password"},
		{"name=%zz", form, 400, "bad_request: the body is no form: name=NAME&password=PASSWORD"},
		{"x", []string{"Content-Type", "text/plain"}, 415,
			"bad_content_type: Content-Type must be 'application/x-www-form-urlencoded' or 'application/json'"},
		{strings.Repeat("[", 10<<20), nil, 413, "too_large: the request entity is too large: it may have 65536 bytes"},
		{`{"name":"` + strings.Repeat("x", 60_000) + `","password":"x"}`, nil, 401, wrong},
	} {
		if c.body[0] == '[' && len(c.body) > 100 { // want would print it
			if w := r.ask("POST /_session "+c.body, c.header...); w.Code != c.status {
				t.Errorf("large body: %d", w.Code)
			}
			continue
		}
		w := r.want("POST /_session "+c.body, c.status, c.want, c.header...)
		switch set := w.Header().Get("Set-Cookie"); {
		case c.status == 200 && set != "AuthSession="+annsCookie+
			"; Path=/; Expires=Sun, 15 Jun 2025 15:16:40 GMT; Max-Age=600; HttpOnly",
			c.status == 401 && set != "AuthSession=; Path=/; Max-Age=0; HttpOnly":
			t.Errorf("%s: Set-Cookie %q", c.body, set)
		}
		if c.status == 401 && w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: a browser would ask, too", c.body)
		}
		r.throttle = throttle{}
	}
	w := r.want("DELETE /_session", 200, `{"ok":true}`, "Cookie", "AuthSession="+annsCookie)
	if set := w.Header()["Set-Cookie"]; len(set) != 1 || set[0] != "AuthSession=; Path=/; Max-Age=0; HttpOnly" {
		t.Errorf("Set-Cookie %q", set)
	}
	r.want("PUT /_session", 405, "method_not_allowed: Only DELETE,GET,HEAD,POST allowed")
}

// TestWhoAmI: what GET /_session tells.
func TestWhoAmI(t *testing.T) {
	r := newRig(t)
	r.user("ann", annsDocument)
	tell := func(name, roles, via string) string {
		if via != "" {
			via = `,"authenticated":"` + via + `"`
		}
		return `{"ok":true,"userCtx":{"name":` + name + `,"roles":` + roles +
			`},"info":{"authentication_handlers":["cookie","default"]` + via + `}}`
	}
	r.want("GET /_session", 200, tell("null", "[]", ""))
	r.want("GET /_session?basic=false", 200, tell("null", "[]", ""))
	r.want("GET /_session?basic=true", 401, "unauthorized: Please login.")
	r.want("GET /_session", 200, tell(`"ann"`, `["dev"]`, "cookie"), "Cookie", "AuthSession="+annsCookie)
	r.want("GET /_session?basic=true", 200, tell(`"adm"`, `["_admin"]`, "default"),
		"Authorization", basic("adm", "secret"))
	r.want("GET /_session", 401, wrong, "Authorization", basic("adm", "wrong"))
	r.set("chttpd/authentication_handlers={chttpd_auth, default_authentication_handler}")
	r.want("GET /who", 200, nobody, "Cookie", "AuthSession="+annsCookie)
}

// TestNext: a login may lead to a page of this server, and to no other.
func TestNext(t *testing.T) {
	r := newRig(t)
	const login = ` {"name":"adm","password":"secret"}`
	for next, want := range map[string]string{
		"/_utils/%23x": "http://relay:5980/_utils/#x", "//evil.example.com": "http://relay:5980//evil.example.com",
		"http://evil.example.com": "", "evil": "", "": "", "/a%0d%0aSet-Cookie:%20x=y": "", "%5cevil": "",
	} {
		w := r.ask("POST /_session?next=" + next + login)
		wanted := http.StatusFound
		if want == "" {
			wanted = http.StatusBadRequest
		}
		if w.Code != wanted || w.Header().Get("Location") != want || (r.cookieOf(w) != "") != (want != "") {
			t.Errorf("%s: %d %v", next, w.Code, w.Header())
		}
	}
	w := r.ask(`POST /_session?fail=/again {"name":"adm","password":"x"}`)
	if w.Code != http.StatusFound || w.Header().Get("Location") != "http://relay:5980/again" || r.cookieOf(w) != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := r.ask("DELETE /_session?next=/out"); w.Code != http.StatusFound {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestAttributesOfCookies: what the configuration says of them.
func TestAttributesOfCookies(t *testing.T) {
	r := newRig(t, "chttpd_auth/allow_persistent_cookies=false", "chttpd_auth/same_site=strict",
		"chttpd_auth/cookie_domain=example.com")
	w := r.ask(`POST /_session {"name":"adm","password":"secret"}`)
	_, set, _ := strings.Cut(w.Header().Get("Set-Cookie"), "; ")
	if set != "Path=/; Domain=example.com; HttpOnly; SameSite=Strict" {
		t.Error(set)
	}
	w = r.ask(`POST https://relay:5980/_session {"name":"adm","password":"secret"}`)
	_, set, _ = strings.Cut(w.Header().Get("Set-Cookie"), "; ")
	if set != "Path=/; Domain=example.com; HttpOnly; Secure; SameSite=Strict" {
		t.Errorf("over TLS: %s", set)
	}
}

// TestSecretOfTheStore: without a configured one the nodes of a fleet make one and share it.
func TestSecretOfTheStore(t *testing.T) {
	a := newRig(t)
	a.config.Auth.Secret = ""
	a.set()
	b := newRig(t)
	b.config.Auth.Secret = ""
	b.set()
	b.DB = a.DB
	a.want("GET /who", 200, nobody, "Cookie", "AuthSession="+admsSHA256)
	cookie := a.cookieOf(a.ask(`POST /_session {"name":"adm","password":"secret"}`))
	b.want("GET /who", 200, adm, "Cookie", cookie)
	back := b.cookieOf(b.ask(`POST /_session {"name":"adm","password":"secret"}`))
	if cookie == "" || cookie != back {
		t.Errorf("%q and %q", cookie, back)
	}
	if secret := *a.stored.Load(); len(secret) < 32 {
		t.Errorf("%q", secret)
	}
}
