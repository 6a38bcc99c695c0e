package login

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
)

// TestBasic: passwords of admins and users, and headers that are none.
func TestBasic(t *testing.T) {
	r := newRig(t)
	r.want("GET /who", 401, wrong, "Authorization", basic("ann", "secret")) // there is no _users yet
	r.user("ann", annsDocument)
	for _, c := range []struct {
		header string
		status int
		want   string
	}{
		{"", 200, nobody},
		{basic("adm", "secret"), 200, adm},
		{basic("ann", "secret"), 200, ann},
		{basic("_", "_"), 200, nobody},
		{basic("adm", "Secret"), 401, wrong},
		{basic("adm", ""), 401, wrong},
		{basic("ann", "pepper"), 401, wrong},
		{basic("", ""), 401, wrong},
		{basic("bob", "secret"), 401, wrong},
		{basic("ann\x00", "secret"), 401, wrong},
		{basic("\xff", "secret"), 401, wrong},
		{basic(strings.Repeat("x", 20_000), "secret"), 401, wrong},
		{basic("adm", strings.Repeat("x", 20_000)), 401, wrong},
		{"Basic x", 400, "bad_request: Authorization header has invalid base64 value"},
		{"Basic XX=", 400, "bad_request: Authorization header has invalid base64 value"},
		{"Negotiate x", 200, nobody},
		{"Bearer x", 200, nobody}, // no key, no tokens
	} {
		r.want("GET /who", c.status, c.want, "Authorization", c.header)
	}
}

// TestPasswordsOfUsers: the forms in which CouchDB stores passwords, and what is none.
func TestPasswordsOfUsers(t *testing.T) {
	r := newRig(t, "chttpd_auth/min_iterations=5", "chttpd_auth/max_iterations=20000", "chttpd_auth/iterations=10",
		"chttpd_auth_lockout/mode=off")
	const key = "2df52bfed46225bb1f3b7efc417a75efc553e1131e7685dda9efc75ad763a89d"
	const longKey = "2df52bfed46225bb1f3b7efc417a75efc553e1131e7685dda9efc75ad763a89d" + // takes twice as long
		"f5f29cd4eafa36a1f1e6b4a02a5f1670c8311c1bb1191e607715fa8b1a6b228c"
	const sha = `"password_sha":"0f8912baf3c8178ad9ce5f9d5bd2a6ff5efcf1f0"`
	derived := func(prf, iterations, key string) string {
		return `"password_scheme":"pbkdf2","pbkdf2_prf":"` + prf + `","iterations":` + iterations +
			`,"derived_key":"` + key + `"`
	}
	for text, right := range map[string]bool{
		`"password_scheme":"simple",` + sha: true,
		sha:                                 true,
		derived("sha256", "10", key):        true,
		`"password_scheme":"pbkdf2","derived_key":"a1a13d2e997707df400aa271c37c5df897264e16"`: true,
		`"password_scheme":"simple+pbkdf2","pbkdf2_prf":"sha","iterations":10,"derived_key":` +
			`"d141e1a9322178b13c175b04fce111ef8861b6f7"`: true,
		derived("sha256", "5", "d56728c9c6562b74e41852f68c8325fb05ed817e611e5b015f974568b2e7d093"):     true,
		derived("sha256", "4", "699f220df0a4c464df310e013d74a8ba1ffad5c5fcb1332dad78ab3c06fa4b13"):     false,
		derived("sha256", "20000", "49d6ccc1b5e7f807e90a51157e1a84d03a2052cdc537ef7ef22e59480d442034"): true,
		derived("sha256", "20001", "5618ea57125e65ef25cc403a6c1e66b08e6d9b418b109c8152dd0548d5aab13b"): false,
		derived("md5", "10", key):                            false,
		derived("sha256", "10", ""):                          false,
		derived("sha256", "10", longKey):                     false,
		derived("sha256", `"10"`, key):                       false,
		derived("sha256", "10", key) + `,"totp":{"key":"x"}`: false,
		`"password_scheme":"simple","password_sha":""`:       false,
		`"password_scheme":"none"`:                           false,
	} {
		r.user("ann", `{"name":"ann","roles":["dev","_admin","_replicator"],"salt":"pepper",`+text+`}`)
		r.clock.Add(time.Second)
		status, want := 401, wrong
		if right {
			status, want = 200, ann // roles of the system are for nobody
		}
		r.want("GET /who", status, want, "Authorization", basic("ann", "secret"))
	}
}

// TestManyIterations: a user cannot have logins take many times as long as those with a password that was set here,
// which are accepted however many iterations the configuration demands.
func TestManyIterations(t *testing.T) {
	s := &settings{Auth: config.Default().Auth}
	accepted := func(iterations int) bool {
		const document = `{"roles":[],"salt":"pepper","password_scheme":"pbkdf2","iterations":%d,` +
			`"derived_key":"a1a13d2e997707df400aa271c37c5df897264e16"}`
		return s.parseUser("ann", fmt.Appendf(nil, document, iterations)) != nil
	}
	if accepted(2*s.Iterations) || !accepted(s.Iterations) {
		t.Errorf("%d and %d iterations", 2*s.Iterations, s.Iterations)
	}
	if s.Iterations *= 3; !accepted(s.Iterations) {
		t.Errorf("%d iterations, as the configuration demands", s.Iterations)
	}
}

// TestNewPasswordIsAccepted: a password that is set here lets its user log in, also where the configuration accepts
// only more iterations than it asks for, or fewer.
func TestNewPasswordIsAccepted(t *testing.T) {
	for _, bounds := range [][]string{
		{"chttpd_auth/iterations=10", "chttpd_auth/min_iterations=30", "chttpd_auth/max_iterations=20"},
		{"chttpd_auth/iterations=30", "chttpd_auth/max_iterations=20"},
	} {
		r := newRig(t, bounds...)
		k, err := r.Derive(&web.Request{Request: httptest.NewRequest("PUT", "/", nil)}, "secret")
		if err != nil || k.Iterations != "30" {
			t.Errorf("%v: %v, %v", bounds, k, err)
		}
		r.user("ann", `{"name":"ann","roles":["dev"],"password_scheme":"pbkdf2","salt":"`+k.Salt+`","pbkdf2_prf":"`+
			k.PRF+`","iterations":`+k.Iterations+`,"derived_key":"`+k.Key+`"}`)
		r.want("GET /who", 200, ann, "Authorization", basic("ann", "secret"))
	}
}

// TestChangedPassword: what was right before is wrong as soon as the document says so.
func TestChangedPassword(t *testing.T) {
	r := newRig(t)
	r.user("ann", annsDocument)
	r.want("GET /who", 200, ann, "Authorization", basic("ann", "secret"))
	cookie := r.cookieOf(r.ask(`POST /_session {"name":"ann","password":"secret"}`))
	r.want("GET /who", 200, ann, "Cookie", cookie)
	r.user("ann", strings.Replace(annsDocument, `"2df52b`, `"aaaaaa`, 1))
	r.want("GET /who", 401, wrong, "Authorization", basic("ann", "secret"))
	r.user("ann", strings.Replace(annsDocument, `"pepper"`, `"another"`, 1))
	r.want("GET /who", 200, nobody, "Cookie", cookie)
	r.set("admins/adm=changed")
	r.want("GET /who", 401, wrong, "Authorization", basic("adm", "secret"))
}

// TestKeysAreDerivedOnce: a password that was right is known from then on, and no user has no password to check.
func TestKeysAreDerivedOnce(t *testing.T) {
	r := newRig(t)
	a, checks := r.settings.Load().admins["adm"], atomic.Int64{}
	right := a.matches
	a.matches = func(s string) bool { checks.Add(1); return right(s) }
	for _, c := range []struct {
		name, password string
		status, checks int
	}{
		{"adm", "secret", 200, 1}, {"adm", "secret", 200, 1}, {"adm", "wrong", 401, 2}, {"adm", "secret", 200, 2},
		{"bob", "secret", 401, 2},
	} {
		w := r.ask("GET /who", "Authorization", basic(c.name, c.password))
		if w.Code != c.status || int(checks.Load()) != c.checks {
			t.Errorf("%+v: %d, %d checks", c, w.Code, checks.Load())
		}
	}
}

// TestValidUserRequired: which requests need a login, and that the login itself needs none.
func TestValidUserRequired(t *testing.T) {
	for _, c := range []struct {
		require, except string
		who, up         int
	}{
		{"false", "false", 200, 200}, {"true", "false", 401, 401}, {"false", "true", 401, 200},
		{"true", "true", 401, 200},
	} {
		r := newRig(t, "chttpd/require_valid_user="+c.require, "chttpd/require_valid_user_except_for_up="+c.except)
		for request, status := range map[string]int{
			"GET /who": c.who, "GET /_up": c.up, "GET /_up/": c.up, "GET /_session": c.who, "GET /none": 404,
			`POST /_session {"name":"adm","password":"secret"}`: 200,
		} {
			if request == "GET /none" && c.who == 401 {
				status = 401
			}
			if w := r.ask(request); w.Code != status {
				t.Errorf("%+v %s: %d, want %d", c, request, w.Code, status)
			}
		}
		r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret"))
		if w := r.ask("GET /_up", "Authorization", basic("adm", "wrong")); w.Code != c.up {
			t.Errorf("%+v: /_up with a wrong password: %d", c, w.Code)
		}
	}
}

// TestNoAdmin: every client of this machine is an admin as long as there is no other, and only then.
func TestNoAdmin(t *testing.T) {
	r := newRig(t)
	delete(r.config.Admins, "adm")
	r.set()
	r.want("GET /who", 403,
		"forbidden: without an admin only requests to localhost are answered; configure one in [admins]")
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5980": true, "127.0.0.1": true, "[::1]:5980": true, "::1": true, "": true,
		"192.0.2.7": false, "localhost.example.com": false, "relay": false,
	} {
		if err := checkHost(host); (err == nil) != want {
			t.Errorf("%q: %v", host, err)
		}
	}
	r.set("couch_auth/url=http://127.0.0.1:1")
	r.want("GET /who", 200, nobody)
}

// TestThrottle: guessing is answered later and later, per name and address, and is forgotten after a while, or with the
// right password. Neither a cookie nor a password that was right before from the same address ever waits.
func TestThrottle(t *testing.T) {
	const locked = "too_many_requests: Account is temporarily locked due to multiple authentication failures"
	r := newRig(t, "chttpd_auth_lockout/threshold=3", "chttpd_auth_lockout/max_lifetime=60000")
	r.user("ann", annsDocument)
	cookie := r.cookieOf(r.ask(`POST /_session {"name":"ann","password":"secret"}`))
	guess := func(after string, status int, want string) {
		t.Helper()
		w := r.want("GET /who", status, want, "Authorization", basic("adm", "guess"))
		if w.Header().Get("Retry-After") != after {
			t.Errorf("Retry-After %q, want %q", w.Header().Get("Retry-After"), after)
		}
	}
	guess("", 401, wrong)
	guess("", 401, wrong)
	guess("1", 401, wrong)
	guess("1", 429, locked)
	r.want("GET /who", 429, locked, "Authorization", basic("adm", "secret")) // else a guess would be told apart
	r.want(`POST /_session {"name":"adm","password":"secret"}`, 429, locked)
	r.want("GET /who", 200, ann, "Authorization", basic("ann", "secret")) // another name
	r.user("bob", strings.Replace(annsDocument, "ann", "bob", 1))
	r.want("GET /who", 401, wrong, "Authorization", basic("bob", "guess"))
	r.want("GET /who", 200, strings.Replace(ann, "ann", "bob", 1), "Authorization", basic("bob", "secret"))
	r.want("GET /who", 429, locked, "Authorization", basic("adm", "secret")) // which another login does not end
	r.from = "192.0.2.2:1"
	r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret"))
	for range 3 {
		r.want("GET /who", 401, wrong, "Authorization", basic("adm", "guess"))
	}
	r.want("GET /who", 429, locked, "Authorization", basic("adm", "guess"))
	r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret")) // right before
	r.from = "192.0.2.1:2"
	r.want("GET /who", 429, locked, "Authorization", basic("adm", "secret")) // which tells nothing to who guesses here
	r.want(`POST /_session {"name":"adm","password":"secret"}`, 429, locked)
	for i, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		r.clock.Add(wait * time.Second)
		next := []string{"2", "4", "8", "16", "32", "60", "60", "60"}[i]
		guess(next, 401, wrong)
		guess(next, 429, locked)
	}
	r.want("GET /who", 200, ann, "Cookie", cookie)
	r.clock.Add(61 * time.Second)
	guess("", 401, wrong)
	r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret")) // which ends the count
	guess("", 401, wrong)
	guess("", 401, wrong)
}

// TestThrottleIsBounded: the oldest guesses are forgotten when there are too many, and networks of IPv6 are one client.
func TestThrottleIsBounded(t *testing.T) {
	r := newRig(t, "chttpd_auth_lockout/max_objects=10")
	for i := range 100 {
		r.ask("GET /who", "Authorization", basic(fmt.Sprint("n", i), "x"))
	}
	if n := len(r.throttle.entries); n != 10 || r.throttle.recent.Len() != 10 {
		t.Errorf("%d entries, %d in order", n, r.throttle.recent.Len())
	}
	for remote, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[2001:db8::1:2:3:4]:5": "2001:db8::/64", "[::ffff:192.0.2.1]:5": "192.0.2.1",
		"pipe": "pipe",
	} {
		if got := address(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

// TestOffAndWarn: what the other modes of throttling leave as it is.
func TestOffAndWarn(t *testing.T) {
	for _, mode := range []string{"off", "warn"} {
		r := newRig(t, "chttpd_auth_lockout/threshold=1", "chttpd_auth_lockout/mode="+mode)
		for range 5 {
			r.want("GET /who", 401, wrong, "Authorization", basic("adm", "guess"))
		}
		r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret"))
	}
}
