package login

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/users"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// rig is a server that tells clients who they are. Its clock stands still.
type rig struct {
	*testing.T
	*Login
	clock  *clock.Mock
	router http.Handler
	config config.Config
	from   string // address of the client
}

// secretOf is the secret of cookies in tests.
const secretOf = "the secret"

// newRig has the admin adm with the password secret, and the settings "section/key=value".
func newRig(t *testing.T, settings ...string) *rig {
	t.Helper()
	r := &rig{T: t, clock: clock.NewMock(), config: config.Default(), from: "192.0.2.1:999"}
	r.clock.Set(time.Unix(1_750_000_000, 0))
	r.config.Admins["adm"] = "secret"
	r.config.Auth.Secret = secretOf
	r.set(settings...)
	root := tuple.Subspace("login")
	var err error
	r.Login, err = New(Options{
		DB: fakefdb.New(), Users: docs.New(root.Sub("docs")), Secret: root.Pack("secret"), Clock: r.clock,
	}, r.config.Admins, r.config.Auth)
	if err != nil {
		t.Fatal(err)
	}
	who := func(q *web.Request) error { return q.SendJSON(http.StatusOK, contextOf(q.User)) }
	routes := append(r.Routes(), web.Route{Method: "GET", Path: "/who", Handler: who},
		web.Route{Method: "GET", Path: "/_up", Handler: who})
	r.router = web.NewRouter(r.Guard, routes)
	return r
}

func (r *rig) set(settings ...string) {
	r.Helper()
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		section, key, _ := strings.Cut(name, "/")
		if err := r.config.Set(section, key, value); err != nil {
			r.Fatal(err)
		}
	}
	if r.Login != nil {
		if err := r.Configure(r.config.Admins, r.config.Auth); err != nil {
			r.Fatal(err)
		}
	}
}

// user writes a document of _users.
func (r *rig) user(name, body string) {
	r.Helper()
	err := kv.Do(r.Context(), r.DB, func(tx kv.Tx) error {
		err := r.Users.Create(tx, users.Database, tuple.UUID{1}, instant.Time(1))
		if err != nil {
			return err
		}
		db, err := r.Users.Open(tx, users.Database)
		if err != nil {
			return err
		}
		old, _ := db.Read(users.Prefix+name, docs.Want{})
		d := docs.Document{ID: users.Prefix + name, Body: []byte(body)}
		if old != nil {
			d.Rev = old.Rev
		}
		_, err = db.Update([]docs.Edit{{Document: d}})
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
}

// ask sends a request: method, path and, separated by spaces, a body; headers are names and values in turn.
func (r *rig) ask(request string, headers ...string) *httptest.ResponseRecorder {
	r.Helper()
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	q := httptest.NewRequestWithContext(r.Context(), method, path, strings.NewReader(body))
	q.RemoteAddr, q.Host = r.from, "relay:5980"
	q.Header.Set("Accept", "application/json")
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.router.ServeHTTP(w, q)
	return w
}

// want compares an answer, of which "error: reason" stands for an error.
func (r *rig) want(request string, status int, want string, headers ...string) *httptest.ResponseRecorder {
	r.Helper()
	w := r.ask(request, headers...)
	got := strings.TrimSpace(w.Body.String())
	var refusal struct{ Error, Reason string }
	if json.Unmarshal(w.Body.Bytes(), &refusal) == nil && refusal.Error != "" {
		got = refusal.Error + ": " + refusal.Reason
	}
	if w.Code != status || got != want {
		r.Errorf("%s %q\n got %d %s\nwant %d %s", request, headers, w.Code, got, status, want)
	}
	return w
}

func basic(name, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(name, password)
	return r.Header.Get("Authorization")
}

// cookieOf is what a client sends back of an answer.
func (r *rig) cookieOf(w *httptest.ResponseRecorder) string {
	r.Helper()
	for _, c := range w.Result().Cookies() {
		if c.Name == cookieName && c.Value != "" {
			return cookieName + "=" + c.Value
		}
	}
	return ""
}

const (
	nobody = `{"name":null,"roles":[]}`
	adm    = `{"name":"adm","roles":["_admin"]}`
	ann    = `{"name":"ann","roles":["dev"]}`
	wrong  = "unauthorized: Name or password is incorrect."
	// annsDocument has the password secret. All keys of tests are Python's: hashlib.pbkdf2_hmac.
	annsDocument = `{"name":"ann","type":"user","roles":["dev"],"password_scheme":"pbkdf2","pbkdf2_prf":"sha256",` +
		`"salt":"pepper","iterations":10,"derived_key":` +
		`"2df52bfed46225bb1f3b7efc417a75efc553e1131e7685dda9efc75ad763a89d"}`
)
