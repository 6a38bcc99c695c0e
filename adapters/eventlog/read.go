package eventlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
)

// Header is what a log says of itself.
type Header struct {
	Program string       // that wrote it
	Began   instant.Time // by the clock of the node
	Node    node.Config
}

// Record is an event as it was recorded.
type Record struct {
	At      time.Duration // since the header
	Run     uint64        // 0 for the node
	Event   fmt.Stringer  // a node.Event or replication.Event
	Effects []string      // what was decided, in words; each is cut at a length
}

// Read tells of the header and the events of a log without replaying them, so that it also reads logs of
// versions that decide otherwise. cut reports that the log was not closed. The error wraps ErrFormat, or comes
// from reading.
func Read(in io.Reader, begin func(Header), see func(Record)) (cut bool, err error) {
	lines := bufio.NewReaderSize(in, 1<<20)
	sum, began := uint32(0), instant.Time(0)
	for n := 1; ; n++ {
		raw, err := lines.ReadBytes('\n')
		switch ended := err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF); {
		case ended && n == 1:
			return true, fmt.Errorf("%w: line 1 ends before it is whole", ErrFormat)
		case ended:
			return true, nil
		case err != nil:
			return false, err
		}
		l, err := parse(raw, &sum, n)
		switch {
		case err != nil:
			return false, err
		case (l.Header != nil) != (n == 1):
			return false, fmt.Errorf("%w: line %d: a header is the first line, and no other", ErrFormat, n)
		case l.Header != nil:
			if err := l.Header.check(); err != nil {
				return false, err
			}
			began = l.Header.Began
			begin(Header{l.Header.Program, began, l.Header.Node})
		case l.Step != nil:
			ev, err := l.Step.decoded()
			if err != nil {
				return false, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err)
			}
			see(Record{At: l.Step.Steady.Sub(began), Run: l.Step.Run, Event: ev, Effects: l.Step.Effects})
		case l.End != "":
			return false, nil
		}
	}
}

// decoded returns the event of a step.
func (s *step) decoded() (fmt.Stringer, error) {
	if s.Run == 0 {
		return s.nodeEvent()
	}
	return s.runEvent()
}
