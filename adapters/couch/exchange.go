package couch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/session"

	"github.com/benbjohnson/clock"
)

const (
	// maxTail is how many bytes of an answer that no longer matters are read to reach its end, so that the
	// connection can be used again.
	maxTail = 4 << 10
	// A server that sends less than trickleRate bytes a second counts as silent once it has kept the client
	// waiting for more than trickleTimeouts times the endpoint's timeout. Otherwise one byte in time could
	// keep a request alive for ever.
	trickleRate, trickleTimeouts = 100, 10
	// maxKept is the size in bytes of a stream above which its connection is not used again. A server that
	// refuses a document closes the connection at a time of its own choice, which may be when the next
	// document is on its way.
	maxKept = 1 << 20
)

// errTrickle ends an answer that comes slower than trickleRate.
var errTrickle = errors.New("hardly anything came")

// unknownSize is the size of a body whose size is not known before it has been sent, as net/http has it.
const unknownSize = -1

// request is what to ask of an endpoint.
type request struct {
	method string
	path   string       // percent-encoded, relative to the database; empty for the database itself
	query  string       // encoded
	header []peer.Param // overrides the endpoint's and the user's headers
	// open returns the body from its start, each time it is called, so the request can be sent again. It is
	// nil for a request without a body, and when stream is the body.
	open func() io.Reader
	// stream is a body that can be sent just once, as it comes from another server. At most one of open and
	// stream is set.
	stream *upload
	// size is that of the body in bytes, exact, and sent as Content-Length; or unknownSize, which only open allows:
	// then the body is sent in chunks.
	size int64
	// admitted is set when the caller already holds a slot of the endpoint, which this request then uses.
	admitted bool
	// unhurried exempts the answer from trickleRate, as for a feed in which changes are rare.
	unhurried bool
}

// answer is an answer whose headers have come and whose body is still to be read. It is for one goroutine.
// The caller of send ends it with close or finish on every path, or its slot of the endpoint is lost for
// good.
type answer struct {
	*http.Response
	endpoint *endpoint
	request  request
	ctx      context.Context         // of this attempt; its cause tells why the body broke off
	cancel   context.CancelCauseFunc // of ctx
	silence  *clock.Timer            // cancels ctx with errSilent; runs while Read or readAll waits for bytes
	limit    *clock.Timer            // cancels ctx with errLong; nil without such a limit
	waited   time.Duration           // spent in Read so far
	received int64                   // bytes that Read returned so far
	err      error                   // by which the body ended early; all later reads return it
	slot     bool                    // close gives a slot back to the endpoint
	closed   bool                    // close has been called
}

// errSilent is the cause of a context that ends because the server sent and took nothing for the timeout.
var errSilent = errors.New("nothing came for the connection timeout")

// errLong is the cause of a context that ends because the request as a whole took longer than Options.RequestTimeout.
var errLong = errors.New("the request took longer than request_timeout")

// send carries out a request up to the answer's headers, whatever its status, and follows redirects. It takes
// a slot of the endpoint unless the request is admitted; the answer gives it back when it ends.
func (e *endpoint) send(ctx context.Context, r request) (*answer, *peer.Failure) {
	if !r.admitted {
		if err := e.admit(ctx); err != nil {
			return nil, e.failed(ctx, r, err)
		}
	}
	a, f := e.follow(ctx, r)
	if f != nil && !r.admitted {
		e.leave()
	}
	if f == nil {
		a.slot = !r.admitted
	}
	return a, f
}

// once sends a request to one URL. If this is a stranger's, the request carries nothing of the user's: no
// credentials, no headers and no Host.
func (e *endpoint) once(parent context.Context, r request, to *url.URL, p session.Pass) (*answer, *peer.Failure) {
	check := e.route.policy.Host
	if e.route.proxy != "" {
		check = e.route.policy.Proxied
	}
	if err := check(to.Hostname(), portNumber(port(to))); err != nil {
		return nil, e.failed(parent, r, err)
	}
	if err := e.named.lookUp(); err != nil {
		return nil, e.failure(r, peer.NoSecret, err.Error())
	}
	if f := e.pace(parent, r); f != nil {
		return nil, f
	}
	ctx, cancel := context.WithCancelCause(parent)
	a := &answer{endpoint: e, request: r, ctx: ctx, cancel: cancel}
	if limit := e.client.options.RequestTimeout; limit > 0 && !r.unhurried {
		a.limit = e.client.clock.AfterFunc(limit, func() { cancel(errLong) })
	}
	w := e.watch(cancel)
	req := &http.Request{
		Method: r.method, URL: to, Host: e.host, Header: e.headers(r, p, e.stranger(to)), ContentLength: r.size,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Close: r.stream != nil && r.size > maxKept,
	}
	if e.stranger(to) {
		req.Host = ""
	}
	up := r.stream
	switch {
	case up != nil:
		up.watch = w
		req.Body = up
	case r.open != nil:
		req.GetBody = func() (io.ReadCloser, error) {
			up = &upload{watch: w, from: r.open()}
			return up, nil
		}
		req.Body, _ = req.GetBody()
	}
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		carry(got.Conn, ctx)
		w.wait()
	}}
	w.wait()
	began := e.client.clock.Now()
	resp, err := e.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	w.end()
	if err != nil {
		f := e.failed(ctx, r, err)
		attempted(e, r, Attempt{Kind: f.Kind}, began)
		a.end()
		if r.stream != nil {
			e.moved.Store(nil)
		}
		return nil, f
	}
	a.Response = resp
	attempted(e, r, Attempt{Status: resp.StatusCode}, began)
	if resp.StatusCode == http.StatusProxyAuthRequired { // no word of the server's, as after CONNECT
		defer a.close()
		return nil, e.failed(ctx, r, proxyRefusal{resp.StatusCode})
	}
	e.client.report(e.key(r), resp.StatusCode, a.retryAfter())
	if resp.StatusCode < 300 && up != nil && !up.hasSent(r.size) {
		defer a.close()
		return nil, e.failure(r, peer.Malformed, "answered success before it had the request")
	}
	return a, nil
}

// end ends the attempt, and what watches over it.
func (a *answer) end() {
	a.cancel(nil)
	if a.limit != nil {
		a.limit.Stop()
	}
}

// retryAfter returns the pause that the header Retry-After asks for, 0 for none. A date in it is by the
// server's clock, so it is compared with the answer's own Date.
func (a *answer) retryAfter() time.Duration {
	text := a.Header.Get("Retry-After")
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		now = a.endpoint.client.clock.Now()
	}
	return max(0, at.Sub(now))
}

// Read reads the body. It fails when nothing comes for the endpoint's timeout, or when less than trickleRate
// comes for much longer. Only the time spent in Read counts, so a slow reader is not taken for a slow server.
func (a *answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	now := a.endpoint.client.clock.Now
	start := now()
	a.listen()
	n, err := a.Body.Read(p)
	a.silence.Stop()
	a.waited += now().Sub(start)
	a.received += int64(n)
	late := a.waited - trickleTimeouts*a.endpoint.timeout
	if err == nil && !a.request.unhurried && late > 0 && a.received < trickleRate*int64(late.Seconds()) {
		err = errTrickle
	}
	if err != nil && err != io.EOF {
		a.err = err
	}
	return n, err
}

// listen starts the timeout within which the server has to send something.
func (a *answer) listen() {
	if a.silence == nil {
		a.silence = a.endpoint.client.clock.AfterFunc(a.endpoint.timeout, func() { a.cancel(errSilent) })
	} else {
		a.silence.Reset(a.endpoint.timeout)
	}
}

// readAll reads a body of up to limit bytes. Each piece of it must come within the timeout: single bytes do not extend
// it here, as they do in Read, but a large log may take longer on a slow line.
func (a *answer) readAll(limit int64) (body []byte, err error) {
	const piece = 64 << 10
	from := bytes.Buffer{}
	for err == nil && int64(from.Len()) <= limit {
		a.listen()
		_, err = io.CopyN(&from, a.Body, min(piece, limit+1-int64(from.Len())))
	}
	a.silence.Stop()
	switch {
	case err == io.EOF:
		err = nil
	case err != nil:
		a.err = err
	default:
		err = errTooLarge
	}
	return from.Bytes(), err
}

// finish ends an answer that was read as far as it matters. It first reads up to maxTail bytes more, since
// the connection can be used again if that reaches the answer's end.
func (a *answer) finish() {
	_, _ = a.readAll(maxTail)
	a.close()
}

// close ends an answer, read or not, and gives back its slot. It may be called more than once.
func (a *answer) close() {
	if a.closed {
		return
	}
	a.closed = true
	a.end()
	a.Body.Close()
	if a.silence != nil {
		a.silence.Stop()
	}
	if a.slot {
		a.endpoint.leave()
	}
}
