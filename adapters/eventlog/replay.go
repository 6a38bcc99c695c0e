package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// ErrFormat is wrapped by errors about logs that cannot be read, from the line that they name on.
var ErrFormat = errors.New("not a readable event log")

// Step is one event that was played again.
type Step struct {
	Number  int // from 1
	At      time.Duration
	Run     uint64 // 0 for the node
	Event   string
	Effects []string
}

// Difference is the first step at which the machines decide otherwise than they did.
type Difference struct {
	Step
	Recorded []string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("event %d, %s, is decided otherwise than recorded", d.Number, d.Event)
}

// Panic is a step at which a machine panics: after an event that cannot come in its state.
type Panic struct {
	Step
	Value any
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("event %d, %s: panic: %v", p.Number, p.Event, p.Value)
}

// Report says how far a log was played.
type Report struct {
	Program string // that wrote the log
	Node    string
	Events  int
	Runs    int
	Took    time.Duration // from the first event to the last
	// Cut says that the log was not closed: it ends where the process, or the disk, did.
	Cut bool
}

// player plays a log.
type player struct {
	report  Report
	began   instant.Time
	node    *node.Node
	runs    map[uint64]*replayed
	scratch []byte
	see     func(Step)
}

// replayed is a run that is played again, with the ids that its plan says to filter functions.
type replayed struct {
	machine *replication.Run
	ids     map[string]replication.IDs
}

// Replay gives all events of a log to machines of this program and compares what they decide. see is called
// after each step and may be nil. The error is a *Difference or a *Panic, or wraps ErrFormat, or comes from reading; the report
// is good up to there.
func Replay(in io.Reader, see func(Step)) (Report, error) {
	p := &player{runs: map[uint64]*replayed{}, see: see}
	if see == nil {
		p.see = func(Step) {}
	}
	lines := bufio.NewReaderSize(in, 1<<20)
	sum := uint32(0)
	for n := 1; ; n++ {
		raw, err := lines.ReadBytes('\n')
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			p.report.Cut = true
			return p.report, p.begun(n)
		}
		if err != nil {
			return p.report, err
		}
		closed, err := p.line(raw, &sum, n)
		if err != nil || closed {
			return p.report, err
		}
	}
}

// begun says whether there was a header at all.
func (p *player) begun(n int) error {
	if p.node == nil {
		return fmt.Errorf("%w: line %d ends before it is whole, and there is no header", ErrFormat, n)
	}
	return nil
}

// line handles a line; closed says that it is the last.
func (p *player) line(raw []byte, sum *uint32, n int) (closed bool, err error) {
	l, err := parse(raw, sum, n)
	switch {
	case err != nil:
		return false, err
	case l.Header != nil && n == 1:
		return false, p.header(l.Header)
	case p.node == nil:
		return false, fmt.Errorf("%w: it does not begin with a header", ErrFormat)
	case l.Plan != nil:
		p.plan(l.Plan)
	case l.Step != nil:
		err = p.step(l.Step)
		if err != nil && !errors.As(err, new(*Difference)) && !errors.As(err, new(*Panic)) {
			err = fmt.Errorf("%w: line %d: %w", ErrFormat, n, err)
		}
	case l.End != "":
		return true, nil
	default:
		err = fmt.Errorf("%w: line %d is of no known kind", ErrFormat, n)
	}
	return false, err
}

func parse(raw []byte, sum *uint32, n int) (l line, err error) {
	digits, body, _ := bytes.Cut(bytes.TrimSuffix(raw, []byte("\n")), []byte(" "))
	want, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil || len(digits) != 8 {
		return l, fmt.Errorf("%w: line %d does not begin with a checksum", ErrFormat, n)
	}
	if *sum = crc32.Update(*sum, castagnoli, body); *sum != uint32(want) {
		return l, fmt.Errorf("%w: line %d was changed, or lines before it are missing: its checksum is %08x, and not %08x", ErrFormat, n, *sum, want)
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return l, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err)
	}
	return l, nil
}

func (p *player) header(h *header) error {
	if h.Format != format {
		return fmt.Errorf("%w: the format is %q, and should be %q", ErrFormat, h.Format, format)
	}
	if h.Version != Version {
		return fmt.Errorf("%w: version %d, written by %s; this program reads version %d", ErrFormat, h.Version, h.Program, Version)
	}
	p.report.Program, p.report.Node, p.began = h.Program, h.Node.Name, h.Began
	p.node = node.New(h.Node)
	return nil
}

func (p *player) plan(rec *plan) {
	r := &replayed{ids: map[string]replication.IDs{"": rec.IDs}}
	r.machine = replication.New(replication.Plan{
		Options: rec.Options, Created: rec.Created, Resumed: rec.Resumed, ResumedID: rec.ResumedID, Delay: time.Duration(rec.Delay), Seed: rec.Seed,
		IDs: func(code string) replication.IDs { return r.ids[code] },
	})
	p.runs[rec.Run] = r
	p.report.Runs++
}

func (p *player) step(rec *step) (err error) {
	p.report.Events++
	p.report.Took = rec.Steady.Sub(p.began)
	s := Step{Number: p.report.Events, At: p.report.Took, Run: rec.Run}
	var sum uint64
	defer func() {
		if r := recover(); r != nil {
			err = &Panic{Step: s, Value: r, Stack: debug.Stack()}
		}
	}()
	if rec.Run == 0 {
		sum, err = p.stepNode(rec, &s)
	} else {
		sum, err = p.stepRun(rec, &s)
	}
	if err != nil {
		return err
	}
	p.see(s)
	if sum != rec.Digest || !slices.Equal(s.Effects, rec.Effects) {
		return &Difference{Step: s, Recorded: rec.Effects}
	}
	return nil
}

func (p *player) stepNode(rec *step, s *Step) (sum uint64, err error) {
	ev, err := rec.nodeEvent()
	if err != nil {
		return 0, err
	}
	s.Event = ev.String()
	effects := p.node.Step(node.Clock{Steady: rec.Steady, Wall: rec.Wall}, ev)
	for _, e := range effects {
		if kill, is := e.(node.KillRun); is {
			delete(p.runs, kill.Run)
		}
	}
	s.Effects, sum, p.scratch = described(effects, p.scratch)
	return sum, nil
}

func (p *player) stepRun(rec *step, s *Step) (sum uint64, err error) {
	r := p.runs[rec.Run]
	if r == nil {
		return 0, fmt.Errorf("there is no run %d", rec.Run)
	}
	ev, err := rec.runEvent()
	if err != nil {
		return 0, err
	}
	if reply, is := ev.(replication.Reply); is && rec.IDs != nil {
		if f, is := reply.Result.(peer.Filter); is {
			r.ids[f.Code] = *rec.IDs
		}
	}
	s.Event = ev.String()
	effects := r.machine.Step(rec.Steady, ev)
	s.Effects, sum, p.scratch = described(effects, p.scratch)
	if ends(effects) {
		delete(p.runs, rec.Run)
	}
	return sum, nil
}
