package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/inspect"
	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"

	"github.com/benbjohnson/clock"
)

// slow is a check that has nothing to tell until it is let go on.
type slow struct{ begun, goOn chan struct{} }

func (s slow) Check(context.Context, bool, func(inspect.Told) error) (inspect.Summary, error) {
	close(s.begun)
	<-s.goOn
	return inspect.Summary{Sound: true}, nil
}

func (slow) Backup(context.Context, io.Writer) (archive.Tail, error) { return archive.Tail{}, nil }

// TestCheckIsAlive: a check that has nothing to tell yet sends blank lines, so that its reader can tell it from a
// service that hangs.
func TestCheckIsAlive(t *testing.T) {
	mock, check := clock.NewMock(), slow{make(chan struct{}), make(chan struct{})}
	s := newService(t, func(o *Options) { o.Clock, o.Upkeep = mock, check })
	go func() {
		<-check.begun
		mock.Add(aliveEach)
	}()
	answer := s.Ask("GET /_node/_local/_check")
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "\n" {
		t.Errorf("the first line is %q, %v", line, err)
	}
	close(check.goOn)
	if line, err := lines.ReadString('\n'); err != nil || line == "\n" {
		t.Errorf("the last line is %q, %v", line, err)
	}
}

// elsewhere is a store that others back up, while it is being checked.
type elsewhere struct{}

func (elsewhere) Check(context.Context, bool, func(inspect.Told) error) (inspect.Summary, error) {
	return inspect.Summary{}, ErrBusy
}

func (elsewhere) Backup(context.Context, io.Writer) (archive.Tail, error) {
	return archive.Tail{}, ErrNoBackup
}

// TestUpkeepRefused: clients are told why there is no backup or check, and that it is not the service's fault.
func TestUpkeepRefused(t *testing.T) {
	s := newService(t, func(o *Options) { o.Upkeep = elsewhere{} })
	s.Fails("POST /_node/_local/_backup", 409, "conflict", ErrNoBackup.Error())
	s.Fails("GET /_node/_local/_check", 409, "conflict", ErrBusy.Error())
}

// TestIndexing: a list that an older store cannot give yet is one to ask for again.
func TestIndexing(t *testing.T) {
	told, is := errors.AsType[*web.Error](indexing(fmt.Errorf("list: %w", jobstore.ErrReindexing)))
	if !is || told.Status != http.StatusServiceUnavailable || told.Name != "indexing" {
		t.Errorf("%+v", told)
	}
	if err := indexing(io.ErrUnexpectedEOF); err != io.ErrUnexpectedEOF {
		t.Errorf("another error becomes %v", err)
	}
}
