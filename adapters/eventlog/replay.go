package eventlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// ErrFormat is in the chain of errors about logs that cannot be read. Such an error names the first
// unreadable line.
var ErrFormat = errors.New("not a readable event log")

// Step is one event that was replayed.
type Step struct {
	Number  int           // from 1
	At      time.Duration // since the header
	Run     uint64        // 0 for the node
	Event   string
	Effects []string
}

// Difference is the first step at which this program decides otherwise than the one that wrote the log: other
// effects, or another event between node and runs.
type Difference struct {
	Step                   // the step of this program; its Event is empty if there is none
	RecordedEvent string   // empty if the log ends before the step
	Recorded      []string // the recorded effects
}

func (d *Difference) Error() string {
	if d.Event == d.RecordedEvent {
		return fmt.Sprintf("event %d, %s, is decided otherwise than recorded", d.Number, d.Event)
	}
	now, then := cmp.Or(d.Event, "none"), cmp.Or(d.RecordedEvent, "none")
	return fmt.Sprintf("event %d is %s, and recorded is %s", d.Number, now, then)
}

// Panic is a step at which a machine panics, because the event cannot come in its state.
type Panic struct {
	Step
	Value any
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("event %d, %s: panic: %v", p.Number, p.Event, p.Value)
}

// Report tells how far a log was replayed.
type Report struct {
	Program string        // the program that wrote the log
	Node    string        // name of the node
	Events  int           // steps replayed
	Runs    int           // runs that began
	Took    time.Duration // from the header to the last event
	// Cut is set if the log was not closed: the process was killed, or its disk was full.
	Cut bool
}

// player replays a log through a host. It tells the host the events from outside, as the log has them. Events
// between node and runs come from the host itself; the player compares them with the log, and takes from it
// only the clock by which each was handled.
type player struct {
	report  Report
	began   instant.Time             // of the header
	host    *host.Host               // nil before the header
	clock   node.Clock               // of the step that is played; Wall is 0 in steps of runs
	plans   map[uint64]*recordedPlan // of runs that the host has not closed
	made    *made                    // the host's last step, nil if it dropped the event as too late
	scratch []byte                   // of digest, used again
	see     func(Step)               // never nil
}

// made is a step of a machine of the host.
type made struct {
	run     uint64
	event   fmt.Stringer
	effects []string
	digest  uint64
}

// recordedPlan is the plan of a run, with the ids that it gives for filter functions.
type recordedPlan struct {
	replication.Plan
	ids map[string]replication.IDs // by digest of the filter function; "" is the empty one
}

// Replay gives the events of a log to a host of this program, and compares its decisions with the recorded
// ones. see is called after each step and may be nil. The error is a *Difference or a *Panic, or wraps
// ErrFormat, or comes from reading; the report covers the steps before it.
func Replay(in io.Reader, see func(Step)) (Report, error) {
	p := &player{plans: map[uint64]*recordedPlan{}, see: see}
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

// begun returns an error if a log ended at line n without a header.
func (p *player) begun(n int) error {
	if p.host == nil {
		return fmt.Errorf("%w: line %d ends before it is whole, and there is no header", ErrFormat, n)
	}
	return nil
}

// line handles line n, and reports whether it is the end of a closed log.
func (p *player) line(raw []byte, sum *uint32, n int) (closed bool, err error) {
	l, err := parse(raw, sum, n)
	switch {
	case err != nil:
		return false, err
	case l.Header != nil && n == 1:
		return false, p.header(l.Header)
	case p.host == nil:
		return false, fmt.Errorf("%w: it does not begin with a header", ErrFormat)
	case l.Plan != nil:
		p.plan(l.Plan)
	case l.Step != nil:
		err = p.step(l.Step)
		if err != nil && !errors.As(err, new(*Difference)) && !errors.As(err, new(*Panic)) {
			err = fmt.Errorf("%w: line %d: %w", ErrFormat, n, err)
		}
	case l.End != "":
		return true, p.rest()
	default:
		err = fmt.Errorf("%w: line %d is of no known kind", ErrFormat, n)
	}
	return false, err
}

// parse decodes line n and checks its checksum. sum is that of the lines before, and then of this one.
func parse(raw []byte, sum *uint32, n int) (l line, err error) {
	digits, body, _ := bytes.Cut(bytes.TrimSuffix(raw, []byte("\n")), []byte(" "))
	want, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil || len(digits) != 8 {
		return l, fmt.Errorf("%w: line %d does not begin with a checksum", ErrFormat, n)
	}
	if *sum = crc32.Update(*sum, castagnoli, body); *sum != uint32(want) {
		return l, fmt.Errorf("%w: line %d was changed, or lines before it are missing: "+
			"its checksum is %08x, and not %08x", ErrFormat, n, *sum, want)
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return l, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err)
	}
	return l, nil
}

// check returns an error unless this program reads logs with the header.
func (h *header) check() error {
	if h.Format != format {
		return fmt.Errorf("%w: the format is %q, and should be %q", ErrFormat, h.Format, format)
	}
	if h.Version != Version {
		return fmt.Errorf("%w: version %d, written by %s; this program reads version %d",
			ErrFormat, h.Version, h.Program, Version)
	}
	return nil
}

func (p *player) header(h *header) error {
	if err := h.check(); err != nil {
		return err
	}
	p.report.Program, p.report.Node, p.began = h.Program, h.Node.Name, h.Began
	p.host = host.New(host.Config{Node: h.Node, Observer: p, Plan: p.planOf})
	return nil
}

// planOf returns the recorded plan of a run that begins. If there is none, the run did not begin when the log
// was written, and its first step will be the difference.
func (p *player) planOf(s node.StartRun) replication.Plan {
	if r := p.plans[s.Run]; r != nil {
		return r.Plan
	}
	return replication.Plan{IDs: func(string) replication.IDs { return replication.IDs{} }}
}

// plan keeps a recorded plan for the run that is about to begin.
func (p *player) plan(rec *plan) {
	r := &recordedPlan{ids: map[string]replication.IDs{"": rec.IDs}}
	r.Plan = replication.Plan{
		Options: rec.Options, Created: rec.Created, Resumed: rec.Resumed, ResumedID: rec.ResumedID,
		Delay: time.Duration(rec.Delay), Seed: rec.Seed, Reset: rec.Reset,
		Listed: rec.Listed, MaxListed: rec.MaxListed, List: rec.List, ListSaved: rec.ListSaved,
		Crashes: rec.Crashes, IDs: func(code string) replication.IDs { return r.ids[code] },
	}
	if rec.Refused {
		r.Listed = 1
	}
	p.plans[rec.Run] = r
	p.report.Runs++
}

// NodeStepped is host.Observer's.
func (p *player) NodeStepped(_ node.Clock, ev node.Event, effects []node.Effect) {
	p.made = &made{event: ev}
	p.made.effects, p.made.digest, p.scratch = described(effects, p.scratch)
}

// RunBegins is host.Observer's.
func (p *player) RunBegins(uint64, replication.Plan) {}

// RunStepped is host.Observer's.
func (p *player) RunStepped(run uint64, _ instant.Time, ev replication.Event, effects []replication.Effect) {
	p.made = &made{run: run, event: ev}
	p.made.effects, p.made.digest, p.scratch = described(effects, p.scratch)
}

// step replays a recorded step and compares the outcome.
func (p *player) step(rec *step) (err error) {
	recorded, err := p.event(rec)
	if err != nil {
		return err
	}
	p.report.Events++
	p.report.Took = rec.Steady.Sub(p.began)
	s := Step{Number: p.report.Events, At: p.report.Took, Run: rec.Run, Event: recorded.String()}
	defer func() {
		if r := recover(); r != nil {
			err = &Panic{Step: s, Value: r, Stack: debug.Stack()}
		}
	}()
	p.clock = node.Clock{Steady: rec.Steady, Wall: rec.Wall}
	told := p.advance(rec.Run, recorded)
	d := &Difference{Step: s, RecordedEvent: s.Event, Recorded: rec.Effects}
	if p.made == nil { // the host dropped an event that it did not drop when the log was written
		d.Event, d.Effects = "", nil
		return d
	}
	d.Run, d.Event, d.Effects = p.made.run, p.made.event.String(), p.made.effects
	p.see(d.Step)
	if p.made.digest != rec.Digest || !slices.Equal(d.Effects, rec.Effects) ||
		!told && !p.same(rec.Run, recorded) {
		return d
	}
	return nil
}

// event returns the event of a recorded step. If it brings a filter function, the plan learns the ids for it.
func (p *player) event(rec *step) (fmt.Stringer, error) {
	if rec.Run == 0 {
		return rec.nodeEvent()
	}
	r := p.plans[rec.Run]
	if r == nil {
		return nil, fmt.Errorf("there is no run %d", rec.Run)
	}
	ev, err := rec.runEvent()
	if err != nil {
		return nil, err
	}
	if reply, is := ev.(replication.Reply); is && rec.IDs != nil {
		if f, is := reply.Result.(peer.Filter); is {
			r.ids[f.Code] = *rec.IDs
		}
	}
	return ev, nil
}

// advance makes the host take one step. If the host has an event of its own to handle, it handles that;
// otherwise the host is told the recorded event, and advance returns true.
func (p *player) advance(run uint64, recorded fmt.Stringer) (told bool) {
	if ended, is := recorded.(node.RunEnded); is && p.plans[ended.Run] == nil {
		p.host.Refuse(ended.Run, ended.End.Trouble.Reason) // the driver could not open it
	}
	if told = p.host.Next() == nil; told {
		switch ev := recorded.(type) {
		case node.Event:
			p.host.Tell(ev)
		case replication.Event:
			p.host.Tell(host.RunEvent{Run: run, Event: ev})
		}
	}
	p.made = nil
	for _, e := range p.host.Step(p.clock) {
		if gone, is := e.(host.Close); is {
			delete(p.plans, gone.Run)
		}
	}
	return told
}

// same reports whether the host's last step was for the recorded event.
func (p *player) same(run uint64, recorded fmt.Stringer) bool {
	var now, then uint64
	now, p.scratch = digest([]any{redacted(p.made.event)}, p.scratch)
	then, p.scratch = digest([]any{recorded}, p.scratch)
	return p.made.run == run && now == then
}

// rest returns a difference if the host has another step to make at the end of a closed log.
func (p *player) rest() error {
	next := p.host.Next()
	if next == nil {
		return nil
	}
	return &Difference{Step: Step{Number: p.report.Events + 1, At: p.report.Took, Event: next.String()}}
}
