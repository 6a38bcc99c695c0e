// Package login finds out which user sends a request, by passwords, the cookies of /_session and tokens, as CouchDB
// does. It knows the admins of the configuration and, besides, the users of the database _users or of a CouchDB that
// it asks. What a user may do is decided elsewhere.
package login

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"

	"github.com/benbjohnson/clock"
)

// Options of a Login.
type Options struct {
	DB    kv.Database
	Users *docs.Store // where _users is
	// Secret is the key of the store at which the secret of cookies lies while the configuration has none.
	Secret []byte
	Clock  clock.Clock
	Logger *slog.Logger
	// TLS returns the settings of a connection to the CouchDB that knows the users; nil stands for the system's.
	TLS func() (*tls.Config, error)
	// Files has the descriptors of these connections; nil has no bound.
	Files *descriptors.Budget
}

// Login knows the users. Its methods may be called at the same time.
type Login struct {
	Options
	settings atomic.Pointer[settings]
	stored   atomic.Pointer[string] // the secret in the store, once it is known
	known    known
	throttle throttle
	slots    chan struct{} // taken while a key is derived from a password
	asked    asked
}

// settings are the configuration in force.
type settings struct {
	config.Auth
	admins   map[string]*account
	handlers []string // in the order in which they are asked
}

// New returns a Login with the configuration of admins and of all else.
func New(o Options, admins map[string]string, auth config.Auth) (*Login, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Login{Options: o, known: newKnown(), slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))}
	l.asked.client = newClient(o.TLS, o.Files)
	return l, l.Configure(admins, auth)
}

// Configure puts a configuration in force. It changes nothing if one of the admins' passwords cannot be read.
func (l *Login) Configure(admins map[string]string, auth config.Auth) error {
	s := &settings{Auth: auth, handlers: auth.Handlers}
	var err error
	if s.admins, err = parseAdmins(admins); err != nil {
		return err
	}
	if s.handlers == nil {
		if s.handlers = []string{"cookie", "default"}; len(auth.JWT.Keys) > 0 {
			s.handlers = []string{"jwt", "cookie", "default"}
		}
	}
	if was := l.settings.Swap(s); was != nil && was.Couch != s.Couch {
		l.asked.forget()
	}
	return nil
}

// party reports whether every client is an admin, since there is nothing to know one by.
func (s *settings) party() bool { return len(s.admins) == 0 && s.Couch.URL == "" }

// Guard finds out which user sends a request, and refuses wrong logins. Requests without a login go on, unless the
// configuration requires one.
func (l *Login) Guard(q *web.Request) error {
	s := l.settings.Load()
	if s.party() {
		if err := checkHost(q.Host); err != nil {
			return err
		}
	}
	path := strings.TrimSuffix(q.URL.Path, "/")
	required := s.RequireValidUser || s.ExceptForUp
	if path == "/_up" {
		if required = s.RequireValidUser && !s.ExceptForUp; !required {
			return nil // load balancers are answered even if no password can be checked
		}
	}
	user, err := l.authenticate(s, q)
	if err != nil {
		answer, told := errors.AsType[*web.Error](err)
		q.Denied = told && answer.Status < http.StatusInternalServerError
		return err
	}
	switch q.User = user; {
	case user.Name != "" || user.Admin():
		return nil
	case required && (q.Method != http.MethodPost || path != "/_session"):
		return web.Unauthorized("Authentication required.")
	case s.party():
		q.User = web.User{Roles: []string{web.AdminRole}, Via: "default"}
	}
	return nil
}

// authenticate asks one handler after the other. The zero user has shown nothing that any of them knows.
func (l *Login) authenticate(s *settings, q *web.Request) (user web.User, err error) {
	for _, name := range s.handlers {
		switch name {
		case "cookie":
			user, err = l.byCookie(s, q)
		case "default":
			user, err = l.byHeader(s, q)
		case "jwt":
			user, err = l.byToken(s, q)
		}
		switch {
		case err != nil:
			return web.User{}, err
		case len(user.Name) > maxName: // it is in keys of the store, which have bounds
			return web.User{}, web.Unauthorized("The user's name is too long.")
		case s.admins[user.Name] != nil && !user.Admin():
			if name != "cookie" { // a browser cannot log in again without sending it
				return web.User{}, errNamesake
			}
		case user.Name != "":
			user.Via = name
			return user, nil
		}
	}
	return web.User{}, nil
}

// errNamesake answers a login by the CouchDB that knows the users, or by a token, under the name of an admin of the
// configuration: documents belong to names, so that user would own what the admin has written.
var errNamesake = web.Unauthorized("The name is that of a server admin, and the role _admin is missing.")

// errWrong answers a wrong name or a wrong password; which of them is not told.
var errWrong = web.Unauthorized("Name or password is incorrect.")

// byHeader reads the header of basic authentication.
func (l *Login) byHeader(s *settings, q *web.Request) (web.User, error) {
	header := q.Header.Get("Authorization")
	if !strings.HasPrefix(header, "Basic ") {
		if s.Couch.URL != "" && header != "" && !slices.Contains(s.handlers, "jwt") {
			return l.ask(s, q, "Authorization", header)
		}
		return web.User{}, nil
	}
	name, password, ok := q.BasicAuth()
	switch {
	case !ok:
		return web.User{}, web.BadRequest("Authorization header has invalid base64 value")
	case name == "_" && password == "_": // how clients of CouchDB leave
		return web.User{}, nil
	}
	a, err := l.password(s, q, name, password)
	if err != nil {
		return web.User{}, err
	}
	return a.User, nil
}

// password returns the account with a name if the password is its own.
func (l *Login) password(s *settings, q *web.Request, name, password string) (*account, error) {
	q.Claimed = name
	if len(name) > maxName || len(password) > maxPassword {
		return nil, errWrong
	}
	a, err := l.account(s, q, name)
	if err != nil {
		return nil, err
	}
	from := address(q.Request)
	if a != nil && l.known.has(a, password, from) {
		return a, nil
	}
	right := false
	if a == nil && s.Couch.URL != "" {
		right, a, err = l.remote(s, q, from, name, password)
	} else {
		right, err = l.matches(s, q, a, from, name, password)
	}
	switch {
	case err != nil:
		return nil, err
	case right:
		l.throttle.forget(name, from)
		return a, nil
	}
	l.Logger.Warn("login_failed", "user", name, "from", from)
	if wait := l.throttle.failed(s.Lockout, l.Clock.Now(), name, from); wait > 0 {
		retryAfter(q, wait)
	}
	return nil, errWrong
}

// matches reports whether a password is that of an account, which may be nil. Deriving a key takes long, so only as
// many are derived at a time as there are processors. A request that had to wait is looked at again: those before it
// may have been wrong. A password that was right from other addresses is no exception from the delay, or who guesses
// would be told at once which guess is right.
func (l *Login) matches(s *settings, q *web.Request, a *account, from, name, password string) (bool, error) {
	if err := l.delayed(s, q, name, from); err != nil || a == nil {
		return false, err
	}
	if l.known.has(a, password, anywhere) {
		l.known.add(a, password, from)
		return true, nil
	}
	release, err := l.slot(q)
	if err != nil {
		return false, err
	}
	defer release()
	if err := l.delayed(s, q, name, from); err != nil || !a.matches(password) {
		return false, err
	}
	l.known.add(a, password, from)
	return true, nil
}

// slotWait is how long a request waits at most until others have derived their keys.
const slotWait = 10 * time.Second

// slot waits for the right to derive a key.
func (l *Login) slot(q *web.Request) (release func(), err error) {
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	case <-q.Context().Done():
		return nil, q.Context().Err()
	case <-l.Clock.After(slotWait):
		return nil, &web.Error{Status: http.StatusServiceUnavailable, Name: "service_unavailable",
			Reason: "too many passwords have to be checked at the same time"}
	}
}

// delayed answers an attempt that comes too soon after wrong ones.
func (l *Login) delayed(s *settings, q *web.Request, name, from string) error {
	wait := l.throttle.wait(s.Lockout, l.Clock.Now(), name, from)
	if wait <= 0 {
		return nil
	}
	l.Logger.Warn("login_delayed", "user", name, "from", from, "wait", wait, "mode", s.Lockout.Mode)
	if s.Lockout.Mode != "enforce" {
		return nil
	}
	retryAfter(q, wait)
	return &web.Error{Status: http.StatusTooManyRequests, Name: "too_many_requests",
		Reason: "Account is temporarily locked due to multiple authentication failures"}
}

func retryAfter(q *web.Request, wait time.Duration) {
	seconds := int64((wait + time.Second - 1) / time.Second)
	q.W.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
}

// address is where a request comes from, as far as guesses are counted: networks of IPv6 have 64 bits for a client.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	prefix, _ := ip.Prefix(64) // it has 128 bits
	return prefix.String()
}

// checkHost refuses, as long as there is no admin, requests that name another host than this machine: a web page that
// rebinds its name to the loopback address would be as good as an admin.
func checkHost(host string) error {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return web.Forbidden("without an admin only requests to localhost are answered; configure one in [admins]")
}
