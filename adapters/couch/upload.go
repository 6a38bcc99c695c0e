package couch

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"
)

// watch cancels a request, with errSilent, when the server does nothing for the timeout. Its timer runs while
// it is the server's turn: to accept a connection, to take bytes, to answer. It rests while a body waits for
// its bytes, since the delay is then another server's. After the answer's headers, answer.listen takes over.
type watch struct {
	timer    *clock.Timer
	timeout  time.Duration
	answered atomic.Bool // end was called: a timer that fires now, or is set again, must do nothing
}

// watch returns a watch whose timer runs.
func (e *endpoint) watch(cancel context.CancelCauseFunc) *watch {
	w := &watch{timeout: e.timeout}
	w.timer = e.client.clock.AfterFunc(e.timeout, func() {
		if !w.answered.Load() {
			cancel(errSilent)
		}
	})
	return w
}

// wait starts the timeout anew.
func (w *watch) wait() { w.timer.Reset(w.timeout) }

// rest stops the timer until the next wait.
func (w *watch) rest() { w.timer.Stop() }

// end ends the watch when the answer has come. net/http may still read the request's body, and so call wait.
func (w *watch) end() {
	w.answered.Store(true)
	w.timer.Stop()
}

// upload is the body of a request. net/http reads it on a goroutine of its own, also after the answer has
// come and RoundTrip has returned.
type upload struct {
	watch *watch                    // of the attempt that sends the body; set before net/http reads
	sent  atomic.Int64              // bytes that net/http has read, which the server need not have
	ended atomic.Bool               // net/http has read from to its end
	broke atomic.Pointer[brokenOff] // set when from failed, nil until then

	mu      sync.Mutex // guards the fields below, and is held during a Read of from
	from    io.Reader
	stopped bool // stop was called: from is not read any more
}

// brokenOff holds the error by which the source of a body ended it early.
type brokenOff struct{ err error }

var errStopped = errors.New("the body is no longer needed")

// Read reads the body. Waiting for from does not count against the server.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return 0, errStopped
	}
	u.watch.rest()
	n, err := u.from.Read(p)
	u.sent.Add(int64(n))
	if err != nil && err != io.EOF {
		u.broke.Store(&brokenOff{err})
		return n, err
	}
	u.ended.Store(err == io.EOF)
	u.watch.wait()
	return n, err
}

// hasSent reports whether net/http has read all of a body of this size.
func (u *upload) hasSent(size int64) bool {
	if size == unknownSize {
		return u.ended.Load()
	}
	return u.sent.Load() >= size
}

// Close does nothing: net/http may call it while the body's source is still needed. The caller that made the
// body ends the source after stop.
func (u *upload) Close() error { return nil }

// stop waits for a Read in progress and makes later ones fail. After it the caller may use from itself.
func (u *upload) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
}
