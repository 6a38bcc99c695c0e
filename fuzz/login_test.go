package fuzz

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/login"
	"couchrelay/core/docs"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// What the logins under test know: an admin, what signs cookies, what signs tokens.
const (
	loginPassword = "orange juice"
	loginSecret   = "cookie secret"
	loginKey      = "token key"
	loginNow      = 1_750_000_000
)

// newLogin is a server whose only answer is the name of the user.
func newLogin(f *testing.F) http.Handler {
	c := config.Default()
	for name, value := range map[config.Name]string{
		{Section: "admins", Key: "adm"}:                  loginPassword,
		{Section: "chttpd_auth", Key: "secret"}:          loginSecret,
		{Section: "jwt_keys", Key: "hmac:_default"}:      base64.StdEncoding.EncodeToString([]byte(loginKey)),
		{Section: "chttpd_auth_lockout", Key: "mode"}:    "off",
		{Section: "chttpd_auth", Key: "hash_algorithms"}: "sha256",
	} {
		if err := c.Set(name.Section, name.Key, value); err != nil {
			f.Fatal(err)
		}
	}
	root, now := tuple.Subspace("login"), clock.NewMock()
	now.Set(time.Unix(loginNow, 0))
	l, err := login.New(login.Options{
		DB: fakefdb.New(), Users: docs.New(root), Secret: root.Pack("secret"), Clock: now,
	}, c.Admins, c.Auth)
	if err != nil {
		f.Fatal(err)
	}
	return web.NewRouter(l.Guard, append(l.Routes(), web.Route{
		Method: "GET", Path: "/", Handler: func(q *web.Request) error { return q.SendJSON(200, q.User.Name) },
	}))
}

// goodCookie reports whether a value is a cookie of adm, by a plain reading of what CouchDB documents.
func goodCookie(value string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(value, "="))
	parts := strings.SplitN(string(raw), ":", 3)
	if err != nil || len(parts) != 3 || parts[0] != "adm" {
		return false
	}
	made, err := strconv.ParseInt(parts[1], 16, 64)
	salt := sha256.Sum256([]byte("couchrelay\x00" + loginPassword))
	mac := hmac.New(sha256.New, []byte(loginSecret+hexOf(salt[:])))
	mac.Write([]byte("adm:" + parts[1]))
	return err == nil && made > loginNow-600 && string(mac.Sum(nil)) == parts[2]
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var text []byte
	for _, c := range b {
		text = append(text, digits[c>>4], digits[c&15])
	}
	return string(text)
}

// goodHeader reports whether a header has the password of adm, or a token that the key has signed.
func goodHeader(value string) bool {
	if text, is := strings.CutPrefix(value, "Basic "); is {
		raw, err := base64.StdEncoding.DecodeString(text)
		return err == nil && string(raw) == "adm:"+loginPassword
	}
	parts := strings.Split(strings.TrimPrefix(value, "Bearer "), ".")
	if len(parts) != 3 {
		return false
	}
	mac := hmac.New(sha256.New, []byte(loginKey))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) == parts[2]
}

// FuzzLogin sends any cookie, any header and any body of a login. No user comes of what was not signed or known, wrong
// input is refused with an answer that tells no secret, and nothing breaks.
func FuzzLogin(f *testing.F) {
	h := newLogin(f)
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	f.Add("", basic("adm:"+loginPassword), `{"name":"adm","password":"`+loginPassword+`"}`)
	f.Add("YWRtOjY4NEVFMTgwOlJfXghVXP3dMlMcDcK4KQFSMW3YZg_PYkDM4_RWQpJy", basic("adm"), `{"name":1}`)
	f.Add("YWRtOg==", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG0ifQ.", "name=adm&password=x")
	f.Add("!", "Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6Im5vbmUifQ.eyJzdWIiOiJhZG0iLCJleHAiOjk5OTk5OTk5OTl9.x", "[[[")
	f.Add("OjA6", "Basic x", "\xff")
	f.Fuzz(func(t *testing.T, cookie, header, body string) {
		send := func(method, path string) *httptest.ResponseRecorder {
			q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			q.Header = http.Header{"Cookie": {"AuthSession=" + cookie}, "Authorization": {header},
				"Content-Type": {"application/json"}}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			text := w.Body.String()
			for _, secret := range []string{loginPassword, loginSecret, loginKey} {
				if strings.Contains(text, secret) {
					t.Fatalf("tells a secret: %s", text)
				}
			}
			if w.Code >= 500 || w.Code >= 300 && !strings.HasPrefix(text, `{"error":"`) {
				t.Fatalf("%s %s: %d %s", method, path, w.Code, text)
			}
			return w
		}
		var name string
		w := send("GET", "/")
		_ = json.Unmarshal(w.Body.Bytes(), &name)
		sent := ""
		r := http.Request{Header: http.Header{"Cookie": {"AuthSession=" + cookie}}}
		if c, err := r.Cookie("AuthSession"); err == nil {
			sent = c.Value
		}
		if w.Code == 200 && name != "" && !goodCookie(sent) && !goodHeader(header) {
			t.Fatalf("cookie %q, header %q: is %s", cookie, header, name)
		}
		w = send("POST", "/_session")
		var in struct{ Name, Username, Password string }
		_ = json.Unmarshal([]byte(body), &in)
		if set := w.Result().Cookies(); w.Code == 200 &&
			(in.Password != loginPassword || len(set) != 1 || !goodCookie(set[0].Value)) {
			t.Fatalf("body %q: %s %v", body, w.Body, set)
		}
	})
}
