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

// watch ends a request whose peer keeps it waiting. It runs while it is the peer's turn: to accept a
// connection, to take what we have written, to answer.
type watch struct {
	timer    *clock.Timer
	timeout  time.Duration
	answered atomic.Bool
}

func (e *endpoint) watch(cancel context.CancelCauseFunc) *watch {
	w := &watch{timeout: e.timeout}
	w.timer = e.client.clock.AfterFunc(e.timeout, func() {
		if !w.answered.Load() {
			cancel(errSilent)
		}
	})
	return w
}

func (w *watch) wait() { w.timer.Reset(w.timeout) }
func (w *watch) rest() { w.timer.Stop() }

// end is for when the answer has come; the request's body may still be on its way.
func (w *watch) end() {
	w.answered.Store(true)
	w.timer.Stop()
}

// upload is the body of a request. net/http reads it on a goroutine of its own, and may do so after
// the answer has come.
type upload struct {
	watch *watch
	sent  atomic.Int64 // bytes
	broke atomic.Pointer[brokenOff]

	mu      sync.Mutex // held while from is read
	from    io.Reader
	stopped bool
}

// brokenOff is why a body ended early.
type brokenOff struct{ err error }

var errStopped = errors.New("the body is no longer needed")

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
	u.watch.wait()
	return n, err
}

// Close does nothing: whoever made the body knows when what is behind it ends.
func (u *upload) Close() error { return nil }

// stop waits until nobody reads what is behind the body, now or later.
func (u *upload) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
}
