package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/inspect"
	"couchrelay/adapters/web"

	"github.com/benbjohnson/clock"
)

// Upkeep looks after the store of the service.
type Upkeep interface {
	// Check checks the store, and repairs it if that is wanted; see inspect.Run. The error is ErrBusy while another
	// check goes on.
	Check(ctx context.Context, repair bool, tell func(inspect.Told) error) (inspect.Summary, error)
	// Backup writes a backup of the store. The error is ErrNoBackup if the store is none that this service backs up.
	Backup(ctx context.Context, to io.Writer) (archive.Tail, error)
}

// ErrNoBackup is the error of a backup of a store that is not in a directory of this machine.
var ErrNoBackup = errors.New("this store is on FoundationDB: back it up with fdbbackup")

// ErrBusy is the error of work on the store of which there is one at a time.
var ErrBusy = errors.New("another check of this store is under way on this node")

// Paths of the upkeep of the store.
const (
	checkPath  = "/_node/{node}/_check"
	backupPath = "/_node/{node}/_backup"
)

// backup answers with a backup. One that is not whole is cut off, which its reader notices.
func (s upkeepAPI) backup(q *web.Request) error {
	if s.Upkeep == nil {
		return noPart(q)
	}
	tail, err := s.Upkeep.Backup(q.Context(), begun{q})
	switch {
	case errors.Is(err, ErrNoBackup):
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: err.Error()}
	case err != nil:
		return err
	}
	s.Logger.Info("backed_up", "by", q.User.Name, "rows", tail.Rows, "bytes", tail.Bytes)
	return nil
}

// begun begins an answer with its first bytes.
type begun struct{ q *web.Request }

func (b begun) Write(p []byte) (int, error) {
	if !b.q.Began() {
		b.q.Begin(http.StatusOK, "application/octet-stream")
	}
	return b.q.W.Write(p)
}

// upkeepAPI is about the upkeep of the store over HTTP.
type upkeepAPI struct{ *service }

func (s upkeepAPI) check(q *web.Request) error { return s.look(q, false) }

func (s upkeepAPI) repair(q *web.Request) error { return s.look(q, true) }

// look answers with a line of JSON for each finding, and one for the summary, which shows that the check came to its
// end. Blank lines show that it goes on.
func (s upkeepAPI) look(q *web.Request, repair bool) error {
	if s.Upkeep == nil {
		return noPart(q)
	}
	answer := lines{q: q}
	defer answer.alive(s.Clock.Ticker(aliveEach))()
	summary, err := s.Upkeep.Check(q.Context(), repair, func(t inspect.Told) error {
		return answer.put(struct {
			Finding inspect.Told `json:"finding"`
		}{t})
	})
	switch {
	case errors.Is(err, ErrBusy):
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: err.Error()}
	case err != nil:
		return err
	}
	return answer.put(struct {
		Summary inspect.Summary `json:"summary"`
	}{summary})
}

// aliveEach is the time between two blank lines. A sound store has nothing to tell for minutes if it is large.
const aliveEach = time.Second

// lines are an answer of lines with JSON.
type lines struct {
	q  *web.Request
	mu sync.Mutex // guards q
}

func (l *lines) put(value any) error {
	text, err := web.Encode(value)
	if err != nil {
		return err
	}
	return l.write(text)
}

func (l *lines) write(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.q.Began() {
		l.q.Begin(http.StatusOK, "application/x-ndjson")
	}
	if _, err := l.q.W.Write(append(text, '\n')); err != nil {
		return err
	}
	return http.NewResponseController(l.q.W).Flush()
}

// alive writes a blank line at each tick until stop is called.
func (l *lines) alive(ticks *clock.Ticker) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				_ = l.write(nil) // a client that is gone ends the check by its context
			case <-end:
				return
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(end)
		<-ended
	}
}
