package login

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"couchrelay/adapters/web"
)

// maxLogin bounds the body of a login in bytes.
const maxLogin = 64 << 10

// Routes are the endpoints of /_session. Everybody may use them.
func (l *Login) Routes() []web.Route {
	return []web.Route{
		{Method: "GET", Path: "/_session", Handler: l.show},
		{Method: "POST", Path: "/_session", Handler: l.enter},
		{Method: "DELETE", Path: "/_session", Handler: l.leave},
	}
}

// userContext is a user in CouchDB's words.
type userContext struct {
	Name  *string  `json:"name"`
	Roles []string `json:"roles"`
}

func contextOf(u web.User) userContext {
	c := userContext{Roles: u.Roles}
	if u.Name != "" {
		c.Name = &u.Name
	}
	return c
}

// show tells a client who it is.
func (l *Login) show(q *web.Request) error {
	private(q)
	if q.User.Name == "" && q.Query.Get("basic") == "true" {
		return web.Unauthorized("Please login.")
	}
	type info struct {
		Handlers []string `json:"authentication_handlers"`
		Via      string   `json:"authenticated,omitempty"`
	}
	return q.SendJSON(http.StatusOK, struct {
		OK   bool        `json:"ok"`
		User userContext `json:"userCtx"`
		Info info        `json:"info"`
	}{true, contextOf(q.User), info{l.settings.Load().handlers, q.User.Via}})
}

// enter checks a name with a password and answers with a cookie.
func (l *Login) enter(q *web.Request) error {
	private(q)
	s := l.settings.Load()
	name, password, err := readLogin(q)
	if err != nil {
		return err
	}
	a, err := l.password(s, q, name, password)
	if errors.Is(err, errWrong) {
		l.setCookie(s, q, "")
		if q.Query.Has("fail") {
			return redirect(q, "fail", errWrong)
		}
		// No challenge: a browser would ask for the password itself.
		return q.SendJSON(errWrong.Status, errWrong)
	}
	if err != nil {
		return err
	}
	cookie := ""
	if a.matches == nil {
		cookie, err = l.open(s, q, name, password)
	} else {
		var secret string
		secret, err = l.secret(s, q, true)
		cookie = l.newCookie(s, a, secret)
	}
	if err != nil {
		return err
	}
	l.setCookie(s, q, cookie)
	answer := struct {
		OK bool `json:"ok"`
		userContext
	}{true, contextOf(a.User)}
	if q.Query.Has("next") {
		return redirect(q, "next", answer)
	}
	return q.SendJSON(http.StatusOK, answer)
}

// leave has the client forget its cookie.
func (l *Login) leave(q *web.Request) error {
	l.setCookie(l.settings.Load(), q, "")
	if q.Query.Has("next") {
		return redirect(q, "next", web.OK)
	}
	return q.SendJSON(http.StatusOK, web.OK)
}

// redirect sends a client to the path that a parameter names, on this server.
func redirect(q *web.Request, parameter string, body any) error {
	path := q.Query.Get(parameter)
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, unicode.IsControl) {
		q.W.Header().Del("Set-Cookie")
		return web.BadRequest("%s: must be a path on this server, which begins with a /", parameter)
	}
	scheme := "http"
	if q.TLS != nil {
		scheme = "https"
	}
	q.W.Header().Set("Location", scheme+"://"+q.Host+path)
	return q.SendJSON(http.StatusFound, body)
}

// readLogin reads the body of a login, a form or JSON. The name is also called username.
func readLogin(q *web.Request) (name, password string, err error) {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if kind != "application/json" && kind != "application/x-www-form-urlencoded" {
		return "", "", &web.Error{Status: http.StatusUnsupportedMediaType, Name: "bad_content_type",
			Reason: "Content-Type must be 'application/x-www-form-urlencoded' or 'application/json'"}
	}
	body, err := q.ReadBody(maxLogin)
	if err != nil {
		return "", "", err
	}
	var f struct{ Name, Username, Password *string }
	if kind == "application/json" {
		if json.Unmarshal(body, &f) != nil {
			return "", "", web.BadRequest("the body must be a JSON object with the strings name and password")
		}
	} else {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return "", "", web.BadRequest("the body is no form: name=NAME&password=PASSWORD")
		}
		take := func(field string, into **string) {
			if form.Has(field) {
				*into = new(form.Get(field))
			}
		}
		take("name", &f.Name)
		take("username", &f.Username)
		take("password", &f.Password)
	}
	switch {
	case f.Name == nil && f.Username == nil:
		return "", "", web.BadRequest("request body must contain a username")
	case f.Name == nil:
		f.Name = f.Username
	case f.Username != nil && *f.Username != *f.Name:
		return "", "", web.BadRequest("request body contains different usernames")
	}
	if f.Password != nil {
		password = *f.Password
	}
	return *f.Name, password, nil
}

// newSalt returns 32 hexadecimal digits.
func newSalt() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it cannot fail
	return hex.EncodeToString(b)
}
