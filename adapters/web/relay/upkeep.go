package relay

import (
	"context"
	"errors"
	"io"
	"net/http"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/inspect"
	"couchrelay/adapters/web"
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
// end.
func (s upkeepAPI) look(q *web.Request, repair bool) error {
	if s.Upkeep == nil {
		return noPart(q)
	}
	line := func(value any) error {
		if !q.Began() {
			q.Begin(http.StatusOK, "application/x-ndjson")
		}
		text, err := web.Encode(value)
		if err == nil {
			_, err = q.W.Write(append(text, '\n'))
		}
		if err == nil {
			err = http.NewResponseController(q.W).Flush()
		}
		return err
	}
	summary, err := s.Upkeep.Check(q.Context(), repair, func(t inspect.Told) error {
		return line(struct {
			Finding inspect.Told `json:"finding"`
		}{t})
	})
	switch {
	case errors.Is(err, ErrBusy):
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: err.Error()}
	case err != nil:
		return err
	}
	return line(struct {
		Summary inspect.Summary `json:"summary"`
	}{summary})
}
