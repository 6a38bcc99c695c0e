package login

import (
	"crypto/hmac"
	_ "crypto/sha3" // for hash_algorithms
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/core/kv"
)

// cookieName is that of CouchDB's cookies.
const cookieName = "AuthSession"

// session is what a cookie says: base64url of NAME:TIME:MAC, with the time in hexadecimal seconds since 1970. The
// MAC is over NAME:TIME, under the secret followed by the salt of the user's password.
type session struct {
	name, time string
	mac        []byte
}

func (c session) signed() string { return c.name + ":" + c.time }

// parseSession reads the value of a cookie.
func parseSession(value string) (session, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(value, "="))
	parts := strings.SplitN(string(raw), ":", 3)
	if err != nil || len(parts) != 3 {
		return session{}, false
	}
	return session{parts[0], parts[1], []byte(parts[2])}, true
}

// age returns for how long the cookie has been there.
func (c session) age(now time.Time) (time.Duration, bool) {
	seconds, err := strconv.ParseInt(c.time, 16, 64)
	const latest = 1 << 40 // far from where times overflow
	if err != nil || seconds < 0 || seconds > latest {
		return 0, false
	}
	return now.Sub(time.Unix(seconds, 0)), true
}

func sign(hash, secret, salt, text string) []byte {
	mac := hmac.New(config.Hashes[hash].New, []byte(secret+salt))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// byCookie reads the cookie of a session. As in CouchDB, one that is too old, or not signed here, says nothing.
func (l *Login) byCookie(s *settings, q *web.Request) (web.User, error) {
	cookie, err := q.Cookie(cookieName)
	if err != nil || cookie.Value == "" {
		return web.User{}, nil
	}
	c, ok := parseSession(cookie.Value)
	if !ok {
		return web.User{}, web.BadRequest("Malformed AuthSession cookie. Please clear your cookies.")
	}
	a, err := l.account(s, q, c.name)
	if err != nil {
		return web.User{}, err
	}
	secret, age, err := l.signedHere(s, q, c, a)
	if err != nil {
		return web.User{}, err
	}
	if secret == "" && s.Couch.URL != "" { // also for a name of [admins], which the CouchDB may have, too
		user, err := l.ask(s, q, "Cookie", cookieName+"="+cookie.Value)
		if errors.Is(err, errWrong) {
			err = nil // another way to log in may be there
		}
		return user, err
	}
	if secret == "" || age >= s.Timeout {
		return web.User{}, nil
	}
	if left := s.Timeout - age; left < s.Timeout/10*9 {
		l.setCookie(s, q, l.newCookie(s, a, secret))
	}
	return a.User, nil
}

// signedHere returns the secret of a cookie that was made here for an account, which may be nil, and how old it is. The
// secret is empty for other cookies.
func (l *Login) signedHere(s *settings, q *web.Request, c session, a *account) (string, time.Duration, error) {
	age, ok := c.age(l.Clock.Now())
	if a == nil || !ok {
		return "", 0, nil
	}
	secret, err := l.secret(s, q, false)
	if err != nil || secret == "" || !s.genuine(c, secret, a.salt) {
		return "", 0, err
	}
	return secret, age, nil
}

// genuine reports whether a cookie was signed with the secret, by any of the hashes that are accepted.
func (s *settings) genuine(c session, secret, salt string) bool {
	found := false
	for _, hash := range s.Hashes {
		if hmac.Equal(sign(hash, secret, salt, c.signed()), c.mac) {
			found = true
		}
	}
	return found
}

// newCookie returns the value of a new cookie.
func (l *Login) newCookie(s *settings, a *account, secret string) string {
	c := session{name: a.Name, time: strings.ToUpper(strconv.FormatInt(l.Clock.Now().Unix(), 16))}
	c.mac = sign(s.Hashes[0], secret, a.salt, c.signed())
	return base64.RawURLEncoding.EncodeToString([]byte(c.signed() + ":" + string(c.mac)))
}

var sameSites = map[string]http.SameSite{
	"none": http.SameSiteNoneMode, "lax": http.SameSiteLaxMode, "strict": http.SameSiteStrictMode,
}

// setCookie has the answer set the cookie, or remove it if the value is empty.
func (l *Login) setCookie(s *settings, q *web.Request, value string) {
	c := http.Cookie{
		Name: cookieName, Value: value, Path: "/", HttpOnly: true, Secure: q.TLS != nil, Domain: s.Domain,
		SameSite: sameSites[s.SameSite],
	}
	switch {
	case value == "":
		c.MaxAge = -1
	case s.PersistentCookies:
		c.MaxAge = int(s.Timeout / time.Second)
		c.Expires = l.Clock.Now().Add(s.Timeout) // nano knows no Max-Age
	}
	q.W.Header().Set("Set-Cookie", c.String())
	private(q)
}

// private keeps caches from storing an answer that concerns one user.
func private(q *web.Request) { q.W.Header().Set("Cache-Control", "must-revalidate, no-store") }

// secret returns what signs cookies: of the configuration, or else of the store, so that the nodes of a fleet have the
// same. Without one it is empty, unless make says that there has to be one.
func (l *Login) secret(s *settings, q *web.Request, make bool) (string, error) {
	if s.Secret != "" {
		return s.Secret, nil
	}
	if known := l.stored.Load(); known != nil {
		return *known, nil
	}
	fresh := newSalt() + newSalt()
	secret, err := web.Run(q, l.DB, kv.Options{Tag: "login"}, func(tx kv.Tx) (string, error) {
		stored, err := tx.Get(l.Secret)
		if err == nil && stored == nil && make {
			stored = []byte(fresh)
			tx.Set(l.Secret, stored)
		}
		return string(stored), err
	})
	if err == nil && secret != "" {
		l.stored.Store(&secret)
	}
	return secret, err
}
