package relay

import (
	"bufio"
	"context"
	"io"
	"testing"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/inspect"

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
