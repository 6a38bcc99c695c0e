package couch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"couchrelay/core/peer"

	"github.com/benbjohnson/clock"
)

const (
	// maxTail is how much of an answer is read in the hope of its end, so that the connection can be
	// used again.
	maxTail = 4 << 10
	// A server that sends less than trickleRate bytes a second counts as silent once it has kept us
	// waiting for so many timeouts.
	trickleRate, trickleTimeouts = 100, 10
	// A connection is not used again after a stream of more than maxKept bytes: a server that refuses one
	// closes the connection when it likes to, which may be when the next document is on its way.
	maxKept = 1 << 20
)

var errTrickle = errors.New("hardly anything came")

// request is what to ask of an endpoint.
type request struct {
	method string
	path   string       // percent-encoded, relative to the database; empty for the database itself
	query  string       // encoded
	header []peer.Param // over the endpoint's
	// open makes the body, size bytes, as often as it is called. Nil means that there is none, or that
	// stream is the body, which can be sent once.
	open   func() io.Reader
	size   int64
	stream *upload
	// admitted says that the caller holds a slot of the endpoint for this request.
	admitted bool
	// unhurried says that the answer may come as slowly as it likes, as a feed's does.
	unhurried bool
}

// answer is an answer whose body is still to be read. Whoever has one ends it with close or finish.
type answer struct {
	*http.Response
	endpoint *endpoint
	request  request
	ctx      context.Context
	cancel   context.CancelCauseFunc
	quiet    *clock.Timer  // runs while we wait for the body
	waited   time.Duration // for the body
	received int64         // bytes of the body
	err      error         // that ended the body early
	slot     bool          // of the endpoint is to be given back
	closed   bool
}

// errSilent is the cause of a request's end when its peer kept it waiting for too long.
var errSilent = errors.New("nothing came for the connection timeout")

// send carries out a request up to the answer's headers, whatever its status, redirects followed.
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

// attempt sends a request to one URL.
func (e *endpoint) attempt(parent context.Context, r request, to *url.URL) (*answer, *peer.Failure) {
	if f := e.pace(parent, r); f != nil {
		return nil, f
	}
	ctx, cancel := context.WithCancelCause(parent)
	a := &answer{endpoint: e, request: r, ctx: ctx, cancel: cancel}
	w := e.watch(cancel)
	req := &http.Request{
		Method: r.method, URL: to, Host: e.host, Header: e.headers(r, e.stranger(to)), ContentLength: r.size,
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
	resp, err := e.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	w.end()
	if err != nil {
		f := e.failed(ctx, r, err)
		cancel(nil)
		if r.stream != nil {
			e.moved.Store(nil)
		}
		return nil, f
	}
	a.Response = resp
	e.client.report(e.key(r), resp.StatusCode, a.retryAfter())
	if resp.StatusCode < 300 && up != nil && up.sent.Load() < r.size {
		defer a.close()
		return nil, e.failure(r, peer.Malformed, "answered success before it had the request")
	}
	return a, nil
}

// retryAfter reads the header of that name, seconds or a date, which is by the server's clock.
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

// Read reads the body. It ends with an error when nothing comes for the endpoint's timeout, or too
// little for much longer.
func (a *answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	now := a.endpoint.client.clock.Now
	start := now()
	a.listen()
	n, err := a.Body.Read(p)
	a.quiet.Stop()
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

// listen starts the clock for what comes next.
func (a *answer) listen() {
	if a.quiet == nil {
		a.quiet = a.endpoint.client.clock.AfterFunc(a.endpoint.timeout, func() { a.cancel(errSilent) })
	} else {
		a.quiet.Reset(a.endpoint.timeout)
	}
}

// readAll reads a body of up to limit bytes, which must be here before the timeout: a trickle does
// not stretch it.
func (a *answer) readAll(limit int64) ([]byte, error) {
	a.listen()
	defer func() { a.quiet.Stop() }()
	body, err := io.ReadAll(io.LimitReader(a.Body, limit+1))
	switch {
	case err != nil:
		a.err = err
	case int64(len(body)) > limit:
		err = errTooLarge
	}
	return body, err
}

// finish ends an answer that was read as far as it matters: if its end is near, the connection can be
// used again.
func (a *answer) finish() {
	if a.err == nil {
		_, _ = a.readAll(maxTail)
	}
	a.close()
}

// close ends an answer, read or not. It may be called again.
func (a *answer) close() {
	if a.closed {
		return
	}
	a.closed = true
	a.cancel(nil)
	a.Body.Close()
	if a.quiet != nil {
		a.quiet.Stop()
	}
	if a.slot {
		a.endpoint.leave()
	}
}
