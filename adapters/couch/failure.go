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
	"net/textproto"
	"regexp"
	"strings"
	"unicode/utf8"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxErrorBody is how much of an answer is read to learn why it is an error.
	maxErrorBody = 8 << 10
	// maxReason bounds a failure's reason, in bytes.
	maxReason = 300
)

// errTooLarge is for what is larger than any honest server sends.
var errTooLarge = errors.New("it is larger than this client accepts")

// malformed is an answer that is not what the protocol says.
type malformed string

func (m malformed) Error() string { return string(m) }

func malformedf(format string, args ...any) error { return malformed(fmt.Sprintf(format, args...)) }

// failedWith carries a failure through readers.
type failedWith struct{ failure *peer.Failure }

func (f failedWith) Error() string { return f.failure.String() }

// failure starts the description of what went wrong with a request.
func (e *endpoint) failure(r request, kind peer.Kind, reason string) *peer.Failure {
	return &peer.Failure{Side: e.side, Method: r.method, URL: e.shown + r.path, Kind: kind, Reason: e.words(reason)}
}

// words makes a text fit for a failure.
func (e *endpoint) words(text string) string {
	return clip(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(e.redact(text), "\uFFFD")), maxReason)
}

// clip shortens a text to a number of bytes and shows that it did.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "..."
}

// failed describes an error between us and the server, or in what it sent. The context is that of the
// request: its end is the reason for all that follows from it.
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
	case ctx.Err() != nil:
		return e.failure(r, peer.Cancelled, context.Cause(ctx).Error())
	case errors.As(err, &dns):
		return e.failure(r, peer.Unresolvable, dns.Err+": "+dns.Name)
	case isInsecure(err):
		return e.failure(r, peer.Insecure, err.Error())
	case errors.As(err, &proxy), errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"):
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
	return strings.HasPrefix(err.Error(), "tls: ") || errors.As(err, &verification) || errors.As(err, &record) ||
		errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid)
}

// isBadHTTP recognises what net/http says about an answer that is not HTTP; it has no type for that.
func isBadHTTP(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "response headers exceeded") ||
		strings.Contains(text, "invalid byte in chunk length") || strings.Contains(text, "too many 1xx") ||
		strings.Contains(text, "multipart: expecting") || strings.Contains(text, "multipart: boundary")
}

// broken describes why reading an answer failed.
func (a *answer) broken(err error) *peer.Failure {
	var already failedWith
	if a.err != nil && !errors.As(err, &already) {
		err = a.err
	}
	return a.endpoint.failed(a.ctx, a.request, err)
}

// refused describes an answer by its status and what its body says, and ends it.
func (a *answer) refused() *peer.Failure {
	defer a.finish()
	f := a.endpoint.failure(a.request, peer.Status, "")
	f.Status, f.RetryAfter = a.StatusCode, a.retryAfter()
	body, _ := a.readAll(maxErrorBody)
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

// asText takes error words and reasons in whatever type a server gives them.
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

func isHTML(body []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(string(body), " \t\r\n\uFEFF"), "<")
}

var (
	titleOf = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	notText = regexp.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>|<[^>]*>`)
)

// gist is the title or first words of a page or text.
func gist(body []byte) string {
	text := string(body)
	if m := titleOf.FindStringSubmatch(text); m != nil {
		text = m[1]
	} else if isHTML(body) {
		text = notText.ReplaceAllString(text, " ")
	}
	return strings.Join(strings.Fields(html.UnescapeString(text)), " ")
}

// notJSON describes an answer that should have been JSON, by how it begins.
func notJSON(start []byte) error {
	switch {
	case len(strings.TrimSpace(string(start))) == 0:
		return malformed("answered nothing where JSON was expected")
	case isHTML(start):
		return malformedf("answered HTML, not a CouchDB: %s", gist(start))
	}
	return malformedf("answered something that is not JSON: %s", gist(start))
}
