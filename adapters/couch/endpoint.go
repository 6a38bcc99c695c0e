package couch

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/reach"
	"couchrelay/core/session"
	"couchrelay/core/spec"
)

// endpoint is one database of a replication and how to talk to it. Its fields do not change after
// newEndpoint, save the atomic ones.
type endpoint struct {
	client    *Client
	side      peer.Side
	transport *http.Transport // of client, until close releases it
	route     route           // under which the client counts the use of transport

	base  *url.URL // of the database, as configured; its path ends in a slash
	shown string   // base without query and user, for failures and as the limiter's key
	// moved is the base that the server last redirected to, nil for none. Only a body that can be sent just
	// once goes there at once; all other requests start at the configured base and follow redirects, so that
	// the server may take back a redirect at any time.
	moved atomic.Pointer[url.URL]

	// pouch is set once the server is known to be PouchDB's. It ignores Content-Encoding, so it would store
	// compressed bytes as if they were the attachment, and it tells attachments by the names in the headers of
	// their parts.
	pouch atomic.Bool

	// These go to the configured server only; see stranger.
	header        http.Header // the user's headers, without those in ownHeaders
	host          string      // the user's Host header; empty for the URL's host
	authorization string      // value of Authorization for basic authentication; empty for none
	login         login

	named *references // secrets that are looked up for each request

	plain   bool     // answers are asked for uncompressed
	secrets []string // texts that redact takes out of failures

	timeout time.Duration // after which a server that sends and takes nothing is given up; above 0
	slots   chan struct{} // holds an element for each request in flight; its capacity is the limit
}

// newEndpoint prepares the requests to one side of a replication. The caller closes the endpoint.
func (c *Client) newEndpoint(side peer.Side, from spec.Endpoint, policy *reach.Policy) (*endpoint, error) {
	base, err := url.Parse(from.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%s endpoint has an invalid url", side)
	}
	if !strings.HasSuffix(base.EscapedPath(), "/") { // Path has the slash that a name may end in, too
		base = base.JoinPath("/")
	}
	e := &endpoint{
		client: c, side: side, base: base, header: http.Header{}, timeout: from.Timeout,
		slots: make(chan struct{}, max(1, from.Connections)), plain: from.Compression == spec.CompressOff,
	}
	e.shown = base.Scheme + "://" + base.Host + base.EscapedPath()
	e.secrets = tokensOf(base.RawQuery)
	e.setHeaders(from.Headers)
	e.named = referencesOf(c.options.Secrets, from)
	if from.Credentials.IsSet() && from.Credentials.Password.Reference() == "" {
		e.setCredentials(from.Credentials.User.Reveal(), from.Credentials.Password.Reveal())
	}
	if from.Bearer.IsSet() && from.Bearer.Reference() == "" {
		e.header["Authorization"] = []string{"Bearer " + from.Bearer.Reveal()}
		e.hideHeader("Authorization", "Bearer "+from.Bearer.Reveal())
	}
	e.login.user = from.Credentials.User.Reveal()
	e.login.endpoint, e.login.machine = e, session.New(c.options.Auth, from.Credentials.IsSet())
	if from.Proxy != nil && from.Proxy.Credentials.IsSet() {
		user, password := from.Proxy.Credentials.User.Reveal(), from.Proxy.Credentials.Password.Reveal()
		e.hide(basicToken(user, password))
		e.hide(password)
	}
	if e.transport, e.route, err = c.acquire(from, policy); err != nil {
		return nil, fmt.Errorf("%s endpoint: %w", side, err)
	}
	return e, nil
}

func (e *endpoint) close() { e.client.release(e.route) }

// ownHeaders are the headers that the client must control itself to read answers and send bodies. The user's
// are left out.
var ownHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Expect", "Keep-Alive", "Te", "Trailer",
	"Transfer-Encoding",
	"Upgrade",
}

// setHeaders takes over the user's headers, and treats their values as secrets.
func (e *endpoint) setHeaders(headers []spec.Header) {
	for _, h := range headers {
		name := http.CanonicalHeaderKey(h.Name)
		switch {
		case h.Value.Reference() != "":
		case name == "Host":
			e.host = h.Value.Reveal()
		case !slices.Contains(ownHeaders, name):
			e.header[name] = []string{h.Value.Reveal()}
			e.hideHeader(name, h.Value.Reveal())
		}
	}
}

// hideHeader keeps a header's value out of failures, and the token of a value like "Bearer token". The values
// of some headers are words that occur in any failure; redacting those would only make it unreadable.
func (e *endpoint) hideHeader(name, value string) {
	switch name {
	case "Accept", "Content-Type", "User-Agent":
		return
	}
	e.hide(value)
	if _, token, found := strings.Cut(value, " "); found {
		e.hide(token)
	}
}

// minToken is the length in bytes from which the value of a parameter may be a token: shorter ones are words and
// numbers, which occur in any failure.
const minToken = 8

// tokensOf returns what failures must not show of a URL's query: it may hold a token, and servers and proxies show what
// they were asked for.
func tokensOf(query string) (tokens []string) {
	for param := range strings.SplitSeq(query, "&") {
		_, raw, _ := strings.Cut(param, "=")
		if value, err := url.QueryUnescape(raw); len(raw) >= minToken {
			tokens = append(tokens, raw)
			if err == nil {
				tokens = append(tokens, spellings(value)...)
			}
		}
	}
	return tokens
}

// setCredentials sets Basic authentication. User names are shown in failures, passwords are not.
func (e *endpoint) setCredentials(user, password string) {
	token := basicToken(user, password)
	e.authorization = "Basic " + token
	e.login.password = password
	e.hide(token)
	e.hide(password)
}

// basicToken is how basic authentication sends a user and his password.
func basicToken(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// hide makes redact take out a secret.
func (e *endpoint) hide(secret string) { e.secrets = append(e.secrets, spellings(secret)...) }

// spellings are the texts by which a secret is known: as it is, and as a query or a form would have it.
func spellings(secret string) []string {
	switch escaped := url.QueryEscape(secret); {
	case secret == "":
		return nil
	case escaped != secret:
		return []string{secret, escaped}
	}
	return []string{secret}
}

// redact takes the secrets out of a text. A server may repeat a header in its answer, and errors of libraries
// quote URLs. Long secrets go first: what is left of one whose beginning is another secret would be shown.
func (e *endpoint) redact(text string) string {
	secrets := slices.Concat(e.secrets, e.named.texts(), e.login.cookies())
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "*****")
	}
	return text
}

// headers puts together a request's headers: the user's override the defaults, the request's own override
// both. A stranger, a server that a redirect led to, gets no header of the user's, no Authorization and no cookie.
func (e *endpoint) headers(r request, p session.Pass, stranger bool) http.Header {
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {e.client.agent}}
	if !stranger {
		for name, values := range e.header {
			h[name] = values
		}
		if p.Basic && e.authorization != "" {
			h["Authorization"] = []string{e.authorization}
		}
		if p.Cookie != "" {
			own := append(slices.Clone(h["Cookie"]), sessionCookie+"="+p.Cookie)
			h["Cookie"] = []string{strings.Join(own, "; ")}
		}
	}
	if !stranger {
		e.named.put(h, p)
	}
	if e.plain {
		h["Accept-Encoding"] = []string{"identity"} // else net/http asks for gzip
	}
	for _, own := range r.header {
		h[own.Name] = []string{own.Value}
	}
	// All requests may be repeated, also POSTs. This header makes net/http do so by itself when it finds that
	// a kept connection was closed; with an empty list of values it is not sent.
	h["Idempotency-Key"] = []string{}
	return h
}

// locate returns the URL of a request below a base. The queries of both are joined.
func locate(base *url.URL, r request) (*url.URL, error) {
	u, err := url.Parse(base.Scheme + "://" + base.Host + base.EscapedPath() + r.path)
	if err != nil {
		return nil, err
	}
	u.RawQuery = joinQueries(base.RawQuery, r.query)
	return u, nil
}

func joinQueries(first, second string) string { return strings.Trim(first+"&"+second, "&") }

// admit waits for one of the endpoint's slots. The caller gives it back with leave. The error is the
// context's cause.
func (e *endpoint) admit(ctx context.Context) error {
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives back a slot, which never blocks.
func (e *endpoint) leave() { <-e.slots }

// pace waits for as long as the rate limiter says. It fails as if the server had answered 429 when the
// limiter lets no request through for now.
func (e *endpoint) pace(ctx context.Context, r request) *peer.Failure {
	v := e.client.delay(e.key(r))
	if v.Closed {
		f := e.failure(r, peer.Status, "the server has asked for fewer requests too often")
		f.Status, f.Error, f.RetryAfter = http.StatusTooManyRequests, "max_backoff", v.Wait
		return f
	}
	if v.Wait <= 0 {
		return nil
	}
	timer := e.client.clock.Timer(v.Wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return e.failed(ctx, r, context.Cause(ctx))
	}
}

// key returns what the limiter knows a request by. Reads and writes of a database have pauses of their own,
// as in CouchDB.
func (e *endpoint) key(r request) ratelimit.Key {
	return ratelimit.Key{Endpoint: e.shown, Method: r.method}
}

// escapeID encodes a document id as a path. The prefix of a design or local document keeps its slash; all
// other bytes but letters, digits and _ . - : are percent-encoded. The ids "." and ".." are encoded whole,
// since they mean steps in a path.
func escapeID(id string) string {
	for _, prefix := range []string{"_design/", "_local/"} {
		if rest, is := strings.CutPrefix(id, prefix); is {
			return prefix + escape(rest)
		}
	}
	return escape(id)
}

// escape encodes a text as one segment of a path.
func escape(text string) string {
	const hex = "0123456789ABCDEF"
	dots := text == "." || text == ".."
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !dots && (alphanumeric || strings.IndexByte("_.-:", c) >= 0) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// encodeQuery encodes query parameters in the order given.
func encodeQuery(params ...peer.Param) string {
	var b strings.Builder
	for i, p := range params {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.Name) + "=" + url.QueryEscape(p.Value))
	}
	return b.String()
}
