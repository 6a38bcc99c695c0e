package couch

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"couchrelay/core/peer"
	"couchrelay/core/session"
)

// sessionCookie is the name of CouchDB's cookie. Servers differ in its case.
const sessionCookie = "AuthSession"

// login authenticates the requests to an endpoint. It carries out what session.Machine decides.
type login struct {
	endpoint *endpoint
	user     string
	password string // empty where it is a reference

	mu      sync.Mutex // guards the fields below
	machine *session.Machine
	asked   chan struct{} // closed when the request for a session that is in flight has been answered; nil without one
	recent  []string      // the last cookies, which failures must not show
}

// keptCookies is how many cookies are remembered to keep them out of failures. Requests in flight may have older ones.
const keptCookies = 4

// attempt sends a request to one URL: again if it was refused with the cookie of a session that has ended, unless its
// body can be sent just once. A request to a stranger is not authenticated.
func (l *login) attempt(ctx context.Context, r request, to *url.URL) (*answer, *peer.Failure) {
	if l.endpoint.stranger(to) {
		return l.endpoint.once(ctx, r, to, session.Pass{})
	}
	for again := 0; ; again++ {
		p, f := l.authorize(ctx, r)
		if f != nil {
			return nil, f
		}
		a, f := l.endpoint.once(ctx, r, to, p)
		if f != nil || !l.answered(p, a, again) || r.stream != nil {
			return a, f
		}
		a.finish()
	}
}

// authorize returns how to authenticate a request. If it needs a session, it asks for one first, or waits until another
// request has done so.
func (l *login) authorize(ctx context.Context, r request) (session.Pass, *peer.Failure) {
	e := l.endpoint
	for {
		l.mu.Lock()
		p, waits := l.machine.Next(e.client.steady()), l.asked
		if p.Action == session.Ask {
			l.asked = make(chan struct{})
		}
		l.mu.Unlock()
		switch p.Action {
		case session.Send:
			return p, nil
		case session.Refuse:
			f := e.failure(r, peer.Status, "the server offers none of the ways of authentication in auth_plugins")
			f.Status, f.Error = http.StatusUnauthorized, "no_more_auth_plugins_left_to_try"
			return p, f
		case session.Wait:
			select {
			case <-waits:
			case <-ctx.Done():
				return p, e.failed(ctx, r, context.Cause(ctx))
			}
		case session.Ask:
			if f := l.askForSession(ctx, p); f != nil {
				return p, f
			}
		}
	}
}

// askForSession sends a request for a session, and tells the machine what was answered.
func (l *login) askForSession(ctx context.Context, p session.Pass) *peer.Failure {
	r := request{
		method: http.MethodPost, path: "_session",
		header: []peer.Param{{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}},
	}
	form, f := l.form(r)
	var a *answer
	if f == nil {
		a, f = l.followSession(ctx, r.withBody(form), p)
	}
	answer := session.Answer{}
	if f == nil {
		f = a.refused() // also of an answer that grants a session, which has no word
		answer = session.Answer{
			Status: a.StatusCode, Challenged: a.Header.Get("WWW-Authenticate") != "",
			Worded: f.Error != "", Cookie: a.session(),
		}
	}
	l.mu.Lock()
	if answer.Cookie != nil {
		l.remember(answer.Cookie.Value)
	}
	result := l.machine.Asked(l.endpoint.client.steady(), answer)
	close(l.asked)
	l.asked = nil
	l.mu.Unlock()
	if result == session.Done {
		return nil
	}
	f.URL = l.url().String() // it is not below the database
	return sessionFailure(result, f)
}

// form is the body of a request for a session.
func (l *login) form(r request) ([]byte, *peer.Failure) {
	password := l.password
	if named := l.endpoint.named; named.password != "" {
		if err := named.lookUp(); err != nil {
			return nil, l.endpoint.failure(r, peer.NoSecret, err.Error())
		}
		password = named.found.Load().password
	}
	return []byte(url.Values{"name": {l.user}, "password": {password}}.Encode()), nil
}

// followSession sends a request for a session, and on to where the server itself redirects it.
func (l *login) followSession(ctx context.Context, r request, p session.Pass) (*answer, *peer.Failure) {
	to := l.url()
	for hops := 1; ; hops++ {
		a, f := l.endpoint.once(ctx, r, to, p)
		if f != nil {
			return nil, f
		}
		next, is := a.redirect(to)
		if !is || a.StatusCode == http.StatusSeeOther || l.endpoint.stranger(next) || hops == maxHops {
			return a, nil
		}
		a.finish()
		to = next
	}
}

// sessionFailure words a request for a session that brought none, in CouchDB's words. The core must not take such an
// answer for one about a document.
func sessionFailure(result session.Result, f *peer.Failure) *peer.Failure {
	switch result {
	case session.NoCookie:
		f.Kind, f.Error = peer.Malformed, "cookie_not_found"
		f.Reason = "answered success without a cookie " + sessionCookie
	case session.Unauthorized:
		f.Error = "session_request_unauthorized"
	case session.Forbidden:
		f.Error = "session_request_forbidden"
	case session.Unexpected:
		f.Error = "session_unexpected_result"
	case session.Lost:
		f.Error = "session_request_failed"
	}
	return f
}

// url is beside the database, which is the server's root unless a proxy gives the server a path of its own. Where the
// endpoint's URL names no database it is below the root, too.
func (l *login) url() *url.URL {
	base := l.endpoint.base
	path := strings.TrimSuffix(base.EscapedPath(), "/")
	path = path[:max(0, strings.LastIndexByte(path, '/'))]
	u, err := url.Parse(base.Scheme + "://" + base.Host + path + "/_session")
	if err != nil {
		return base.JoinPath("/_session")
	}
	return u
}

// session returns the cookie of a session that an answer sets, nil if it sets none.
func (a *answer) session() *session.SetCookie {
	for _, c := range a.Cookies() {
		if strings.EqualFold(c.Name, sessionCookie) && c.Value != "" {
			return &session.SetCookie{Value: c.Value, MaxAge: c.MaxAge}
		}
	}
	return nil
}

// answered notes the answer to a request that was sent with a pass, and reports whether to send it again at once.
func (l *login) answered(p session.Pass, a *answer, again int) bool {
	if p.Cookie == "" {
		return false
	}
	set := a.session()
	l.mu.Lock()
	defer l.mu.Unlock()
	if set != nil {
		l.remember(set.Value)
	}
	return l.machine.Answered(l.endpoint.client.steady(), p, a.StatusCode, set, again)
}

// remember notes a cookie. mu must be held.
func (l *login) remember(cookie string) {
	l.recent = append(l.recent, cookie)
	l.recent = l.recent[max(0, len(l.recent)-keptCookies):]
}

// cookies are texts that failures must not show.
func (l *login) cookies() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent
}
