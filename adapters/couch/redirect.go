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

// follow sends a request to the endpoint's base, and on to where redirects lead it.
//
// A body that can be sent just once (r.stream) cannot follow: by the time the redirect arrives, part of it is
// gone. Such a request fails, but the endpoint remembers the new base, to which the caller's next attempt
// goes at once. The failure is Broken, which the core retries, if there is such a base; otherwise the next
// attempt would end in the same way.
//
// A redirect to the same path that has no query keeps the request's: proxies are told to redirect to $uri, which is the
// path alone. Without it the feed would begin at zero, with neither filter nor conflicts, and a token of the endpoint's
// URL would be lacking.
//
// A 303 in answer to anything but GET is not followed: what is found there says nothing of the request, and might be
// taken for its answer.
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
		a, f := e.login.attempt(ctx, r, to)
		if f != nil {
			return nil, f
		}
		next, is := a.redirect(to)
		if !is || a.StatusCode == http.StatusSeeOther && r.method != http.MethodGet {
			return a, nil
		}
		known := e.remember(next, r)
		if r.stream != nil {
			a.close()
			f := e.failure(r, peer.Status, "the server redirects while a document is on its way to it")
			f.Status = a.StatusCode
			if known {
				f.Kind = peer.Broken
			}
			return nil, f
		}
		a.finish()
		if known && next.RawQuery == "" {
			next.RawQuery = r.query
			if !e.stranger(next) {
				next.RawQuery = joinQueries(e.base.RawQuery, r.query)
			}
		}
		to = next
	}
	return nil, e.failure(r, peer.Malformed, "the server redirects in a circle")
}

// redirect returns the URL that an answer redirects to, and whether it does. User and password in it are
// dropped: a server must not choose the credentials that another one gets. An answer whose Location is
// missing or names no HTTP server is no redirect; its status is then an error by itself.
func (a *answer) redirect(from *url.URL) (*url.URL, bool) {
	switch a.StatusCode {
	case 301, 302, 303, 307, 308:
	default:
		return nil, false
	}
	location := a.Header.Get("Location")
	to, err := from.Parse(location)
	if err != nil || location == "" || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, false
	}
	to.User, to.Fragment = nil, ""
	return to, true
}

// remember notes the base that a redirect leads to, and reports whether it could: the redirect must keep the
// part of the path that the request added to the base, be it decoded, as nginx's $uri is.
func (e *endpoint) remember(to *url.URL, r request) bool {
	prefix, is := strings.CutSuffix(to.EscapedPath(), r.path)
	if plain, err := url.PathUnescape(r.path); !is && err == nil {
		prefix, is = strings.CutSuffix(to.Path, plain)
		prefix = (&url.URL{Path: prefix}).EscapedPath()
	}
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
	// The base's query may hold a token. A stranger gets it only if the server itself put it into the
	// redirect.
	if !e.stranger(to) || to.RawQuery == joinQueries(e.base.RawQuery, r.query) {
		base.RawQuery = e.base.RawQuery
	}
	e.moved.Store(base)
	return true
}

// stranger reports whether a URL belongs to another server than the base, which must not see the user's
// credentials, headers and query. A server is the same if it has the same name and either the same scheme and
// port, or https in place of http on whatever port. A step from https down to http is never the same server:
// it would send the password in clear.
func (e *endpoint) stranger(to *url.URL) bool {
	same := to.Scheme == e.base.Scheme && port(to) == port(e.base)
	safer := e.base.Scheme == "http" && to.Scheme == "https"
	return !strings.EqualFold(to.Hostname(), e.base.Hostname()) || !same && !safer
}

// port returns a URL's port, also where it is implied by the scheme.
func port(u *url.URL) string {
	if u.Port() != "" {
		return u.Port()
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
