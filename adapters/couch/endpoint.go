package couch

import (
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
	"couchrelay/core/spec"
)

// endpoint is one database of a replication and how to talk to it.
type endpoint struct {
	client    *Client
	side      peer.Side
	transport *http.Transport
	route     route

	base  *url.URL // its path ends in a slash
	shown string   // base without its query, for failures
	// moved is the base that the server last redirected to. Only a body that cannot be sent twice goes
	// there at once; everything else asks at the base again.
	moved atomic.Pointer[url.URL]

	// keepsEncoded says that the server does not know Content-Encoding: it would keep a compressed
	// attachment for what was meant. PouchDB's server is like that.
	keepsEncoded atomic.Bool

	header        http.Header // the user's, without those that HTTP itself needs
	host          string      // of a Host header of the user's
	authorization string
	secrets       []string // texts that never appear in a failure

	timeout time.Duration
	slots   chan struct{} // one for each request at one time
}

func (c *Client) newEndpoint(side peer.Side, from spec.Endpoint) (*endpoint, error) {
	base, err := url.Parse(from.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%s endpoint has an invalid url", side)
	}
	if !strings.HasSuffix(base.Path, "/") {
		base = base.JoinPath("/")
	}
	e := &endpoint{
		client: c, side: side, base: base, header: http.Header{}, timeout: from.Timeout,
		slots: make(chan struct{}, max(1, from.Connections)),
	}
	e.shown = base.Scheme + "://" + base.Host + base.EscapedPath()
	e.setHeaders(from.Headers)
	if from.Credentials.IsSet() {
		e.setCredentials(from.Credentials.User.Reveal(), from.Credentials.Password.Reveal())
	}
	if from.Proxy != nil && from.Proxy.Credentials.IsSet() {
		e.hide(from.Proxy.Credentials.Password.Reveal())
	}
	e.transport, e.route, err = c.acquire(from)
	return e, err
}

func (e *endpoint) close() { e.client.release(e.route) }

// ownHeaders are those that the client must control to read answers and send bodies.
var ownHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// setHeaders takes over the user's headers.
func (e *endpoint) setHeaders(headers []spec.Header) {
	for _, h := range headers {
		name := http.CanonicalHeaderKey(h.Name)
		switch {
		case name == "Host":
			e.host = h.Value.Reveal()
		case !slices.Contains(ownHeaders, name):
			e.header[name] = []string{h.Value.Reveal()}
			e.hideHeader(name, h.Value.Reveal())
		}
	}
}

// hideHeader keeps a header's value out of failures if it may be a secret: words that every server
// says are none.
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

func (e *endpoint) setCredentials(user, password string) {
	token := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	e.authorization = "Basic " + token
	e.hide(token)
	e.hide(password)
}

func (e *endpoint) hide(secret string) {
	if secret == "" {
		return
	}
	e.secrets = append(e.secrets, secret)
	if escaped := url.QueryEscape(secret); escaped != secret {
		e.secrets = append(e.secrets, escaped)
	}
}

// redact takes what must not be shown out of a text that a server or library worded.
func (e *endpoint) redact(text string) string {
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "*****")
	}
	return text
}

// headers puts together a request's headers, the user's over the defaults and the request's own over
// both. Strangers, that is hosts that a redirect led to, see none of the user's.
func (e *endpoint) headers(r request, stranger bool) http.Header {
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {e.client.agent}}
	if !stranger {
		for name, values := range e.header {
			h[name] = values
		}
		if e.authorization != "" {
			h["Authorization"] = []string{e.authorization}
		}
	}
	for _, own := range r.header {
		h[own.Name] = []string{own.Value}
	}
	// Every request may be repeated: net/http does so when a kept connection turns out to be closed.
	// An empty list is not sent.
	h["Idempotency-Key"] = []string{}
	return h
}

// locate is the URL of a request below a base.
func locate(base *url.URL, r request) (*url.URL, error) {
	u, err := url.Parse(base.Scheme + "://" + base.Host + base.EscapedPath() + r.path)
	if err != nil {
		return nil, err
	}
	u.RawQuery = joinQueries(base.RawQuery, r.query)
	return u, nil
}

func joinQueries(first, second string) string { return strings.Trim(first+"&"+second, "&") }

// admit waits until the endpoint may have one more request at a time. The caller gives the slot back.
func (e *endpoint) admit(ctx context.Context) error {
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *endpoint) leave() { <-e.slots }

// pace holds a request back for as long as the rate limiter says.
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

func (e *endpoint) key(r request) ratelimit.Key {
	return ratelimit.Key{Endpoint: e.shown, Method: r.method}
}

// escapeID makes a document id a path: a design or local document's prefix keeps its slash, all other
// bytes but letters, digits and _ . - : are percent-encoded. The ids . and .. are encoded whole, or
// they would be taken for steps in a path.
func escapeID(id string) string {
	for _, prefix := range []string{"_design/", "_local/"} {
		if rest, is := strings.CutPrefix(id, prefix); is {
			return prefix + escape(rest)
		}
	}
	return escape(id)
}

func escape(text string) string {
	const hex = "0123456789ABCDEF"
	dots := text == "." || text == ".."
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if !dots && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_.-:", c) >= 0) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// encodeQuery writes query parameters in their order.
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
