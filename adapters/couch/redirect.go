package couch

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"couchrelay/core/peer"
)

// maxHops bounds the redirects that one request follows.
const maxHops = 5

// follow sends a request to where redirects lead it.
func (e *endpoint) follow(ctx context.Context, r request) (*answer, *peer.Failure) {
	base := e.base
	if moved := e.moved.Load(); moved != nil && r.stream != nil {
		base = moved
	}
	to, err := locate(base, r)
	if err != nil {
		return nil, e.failure(r, peer.Malformed, "its URL cannot be parsed")
	}
	for range maxHops {
		a, f := e.attempt(ctx, r, to)
		if f != nil {
			return nil, f
		}
		next, is := a.redirect(to)
		if !is {
			return a, nil
		}
		a.close()
		known := e.remember(next, r)
		if r.stream != nil {
			f := e.failure(r, peer.Status, "the server redirects while a document is on its way to it")
			f.Status = a.StatusCode
			if known {
				f.Kind = peer.Broken // the next try goes there at once
			}
			return nil, f
		}
		if a.StatusCode == http.StatusSeeOther {
			r.method, r.open, r.size = http.MethodGet, nil, 0
		}
		to = next
	}
	return nil, e.failure(r, peer.Malformed, "the server redirects in a circle")
}

// redirect tells where an answer redirects to, if it does.
func (a *answer) redirect(from *url.URL) (*url.URL, bool) {
	switch a.StatusCode {
	case 301, 302, 303, 307, 308:
	default:
		return nil, false
	}
	to, err := from.Parse(a.Header.Get("Location"))
	if err != nil || a.Header.Get("Location") == "" || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, false
	}
	to.User, to.Fragment = nil, ""
	return to, true
}

// remember notes the base that a redirect leads to, when it keeps the rest of the path, and says whether
// it did.
func (e *endpoint) remember(to *url.URL, r request) bool {
	prefix, is := strings.CutSuffix(to.EscapedPath(), r.path)
	if r.path == "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if !is || !strings.HasSuffix(prefix, "/") {
		return false
	}
	base, err := url.Parse(to.Scheme + "://" + to.Host + prefix)
	if err != nil {
		return false
	}
	// The base's query may hold a token. Strangers get it only from a server that hands it to them itself.
	if !e.stranger(to) || to.RawQuery == joinQueries(e.base.RawQuery, r.query) {
		base.RawQuery = e.base.RawQuery
	}
	e.moved.Store(base)
	return true
}

// stranger says whether a URL is of a server that must not see what the base's server may: one with
// another name, or on another port unless the way there became https.
func (e *endpoint) stranger(to *url.URL) bool {
	same := to.Scheme == e.base.Scheme && port(to) == port(e.base)
	safer := e.base.Scheme == "http" && to.Scheme == "https"
	return !strings.EqualFold(to.Hostname(), e.base.Hostname()) || !same && !safer
}

func port(u *url.URL) string {
	if u.Port() != "" {
		return u.Port()
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
