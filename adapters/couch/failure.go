package couch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"couchrelay/core/peer"
	"couchrelay/core/reach"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxErrorBody bounds the bytes that are read of an error's body to learn its reason.
	maxErrorBody = 8 << 10
	// maxReason bounds a failure's reason, in bytes.
	maxReason = 300
)

// errTooLarge ends the reading of an answer, or of a part of one, that is larger than any honest server
// sends.
var errTooLarge = errors.New("it is larger than this client accepts")

// malformed is the error of an answer that does not follow the protocol. Its text continues the sentence "the
// server ...".
type malformed string

func (m malformed) Error() string { return string(m) }

func malformedf(format string, args ...any) error { return malformed(fmt.Sprintf(format, args...)) }

// failedWith carries a failure through functions that return an error, such as Read. The failure of one side
// may so pass through the readers and writers of the other without being taken for its own.
type failedWith struct{ failure *peer.Failure }

func (f failedWith) Error() string { return f.failure.String() }

// failure returns the failure of a request, of a kind and for a reason. The caller adds what a status says.
func (e *endpoint) failure(r request, kind peer.Kind, reason string) *peer.Failure {
	return &peer.Failure{
		Side: e.side, Method: r.method, URL: e.shown + r.path, Kind: kind, Reason: e.words(reason),
	}
}

// words makes a text of unknown origin fit for a failure, which ends in logs and documents: without secrets
// and control characters, valid UTF-8, and not longer than maxReason.
func (e *endpoint) words(text string) string {
	return clip(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(e.redact(text), "\uFFFD")), maxReason)
}

// clip shortens a text to at most limit bytes and marks the cut by three dots.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "..."
}

// failed returns the failure for an error that came up while a request was sent or its answer read. ctx is
// the request's context. When that has ended, readers and writers fail in many ways; the cause of the end
// explains them all. So it goes first, after the errors that this package made itself.
func (e *endpoint) failed(ctx context.Context, r request, err error) *peer.Failure {
	var (
		already failedWith
		dns     *net.DNSError
		op      *net.OpError
		proxy   proxyRefusal
		problem malformed
		syntax  *jsontext.SyntacticError
		header  textproto.ProtocolError
		network net.Error
		denied  *reach.Refusal
	)
	switch {
	case errors.As(err, &already):
		return already.failure
	case errors.As(err, &problem):
		return e.failure(r, peer.Malformed, string(problem))
	case errors.Is(err, errTooLarge):
		return e.failure(r, peer.Malformed, "the answer or a part of it: "+err.Error())
	case context.Cause(ctx) == errSilent, errors.Is(err, errTrickle):
		return e.failure(r, peer.TimedOut, fmt.Sprintf("%v (%v)", cmp.Or(context.Cause(ctx), err), e.timeout))
	case context.Cause(ctx) == errLong:
		return e.failure(r, peer.TimedOut, fmt.Sprintf("%v (%v)", errLong, e.client.options.RequestTimeout))
	case ctx.Err() != nil:
		return e.failure(r, peer.Cancelled, context.Cause(ctx).Error())
	case errors.As(err, &denied):
		return e.failure(r, peer.Denied, denied.Error())
	case errors.As(err, &dns):
		return e.failure(r, peer.Unresolvable, dns.Err+": "+dns.Name)
	case isInsecure(err):
		return e.failure(r, peer.Insecure, err.Error())
	case errors.As(err, &proxy), errors.As(err, &op) && slices.Contains(connecting, op.Op):
		return e.failure(r, peer.Unreachable, err.Error())
	case errors.As(err, &network) && network.Timeout():
		return e.failure(r, peer.TimedOut, err.Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return e.failure(r, peer.Broken, err.Error())
	case errors.As(err, &syntax), errors.As(err, &header), isBadHTTP(err):
		return e.failure(r, peer.Malformed, err.Error())
	}
	return e.failure(r, peer.Broken, err.Error())
}

// connecting are the names that net gives to the steps before a connection can be used.
var connecting = []string{"dial", "proxyconnect", "socks connect"}

// isInsecure reports whether an error comes from TLS: a certificate that does not verify, or a handshake that
// failed. Go has no common type for these.
func isInsecure(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		op           *net.OpError
		authority    x509.UnknownAuthorityError
		name         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") { // alerts
		return true
	}
	return strings.HasPrefix(err.Error(), "tls: ") ||
		errors.As(err, &verification) || errors.As(err, &record) ||
		errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid)
}

// isBadHTTP reports whether net/http says that an answer is not HTTP. It has no type for these errors.
func isBadHTTP(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "response headers exceeded") ||
		strings.Contains(text, "invalid byte in chunk length") || strings.Contains(text, "too many 1xx") ||
		strings.Contains(text, "multipart: expecting") || strings.Contains(text, "multipart: boundary")
}

// broken returns the failure for an error that came up while the answer was read. A parser may hide the error
// that ended the body behind one of its own, so the body's error is preferred.
func (a *answer) broken(err error) *peer.Failure {
	var already failedWith
	if a.err != nil && !errors.As(err, &already) {
		err = a.err
	}
	return a.endpoint.failed(a.ctx, a.request, err)
}

// refused returns the failure that an answer's status and body make, and ends the answer. The body is read
// for as far as it helps: CouchDB's error and reason, otherwise the gist of a page or text.
func (a *answer) refused() *peer.Failure {
	defer a.finish()
	f := a.endpoint.failure(a.request, peer.Status, "")
	f.Status, f.RetryAfter = a.StatusCode, a.retryAfter()
	body, err := a.readAll(maxErrorBody)
	if a.mustTell() && err != nil && err != errTooLarge {
		return a.broken(err)
	}
	var said struct {
		Error  any `json:"error"`
		Reason any `json:"reason"`
	}
	switch err := json.Unmarshal(body, &said); {
	case err == nil:
		f.Error, f.Reason = a.endpoint.words(asText(said.Error)), a.endpoint.words(asText(said.Reason))
	case isHTML(body):
		f.Reason = a.endpoint.words("answered HTML: " + gist(body))
	default:
		f.Reason = a.endpoint.words(gist(body))
	}
	return f
}

// mustTell reports whether a status alone says too little: without the word for it, one that comes of a proxy looks the
// same, and ends a run. So the request is repeated if the answer breaks off. A request with a body is not: servers
// refuse it before they have read all, and then may close the connection before their answer has come.
func (a *answer) mustTell() bool {
	switch a.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return a.request.method == http.MethodGet
	}
	return false
}

// asText returns a decoded JSON value as text: strings as they are, null as an empty text, other values as
// JSON. Servers have errors and reasons of any type.
func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// isHTML reports whether a body begins like HTML, as pages of proxies do whatever their Content-Type.
func isHTML(body []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(string(body), " \t\r\n\uFEFF"), "<")
}

var (
	titleOf = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	notText = regexp.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>|<[^>]*>`)
)

// gist returns the title of a page, or the text of a page or other body, on one line. Callers clip it.
func gist(body []byte) string {
	text := string(body)
	if m := titleOf.FindStringSubmatch(text); m != nil {
		text = m[1]
	} else if isHTML(body) {
		text = notText.ReplaceAllString(text, " ")
	}
	return strings.Join(strings.Fields(html.UnescapeString(text)), " ")
}

// notJSON returns the error for an answer that should have been JSON and begins with start.
func notJSON(start []byte) error {
	switch {
	case len(strings.TrimSpace(string(start))) == 0:
		return malformed("answered nothing where JSON was expected")
	case isHTML(start):
		return malformedf("answered HTML, not a CouchDB: %s", gist(start))
	}
	return malformedf("answered something that is not JSON: %s", gist(start))
}
