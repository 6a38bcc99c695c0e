package engine

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv/mix"
)

// Engine plays events in the order of their times. Events of the same time are played in the order in which
// they were planned.
type Engine struct {
	now     instant.Time
	queue   queue
	planned uint64
	played  uint64
	hash    uint64
	running *coroutine
	// coroutines has all coroutines that live, idle those of them that have no task. The last idle one gets
	// the next task.
	coroutines map[*coroutine]bool
	idle       []*coroutine
	// Trace, when not nil, is called for every event that has a name, before it is played, and for every
	// Logf.
	Trace func(at instant.Time, step uint64, actor, text string)
	// Step, when not nil, is called after every event.
	Step func()
}

// New returns an engine without events, whose clock shows start.
func New(start instant.Time) *Engine {
	return &Engine{now: start, coroutines: map[*coroutine]bool{}}
}

// Now returns the present moment.
func (e *Engine) Now() instant.Time { return e.now }

// Played returns the number of events so far.
func (e *Engine) Played() uint64 { return e.played }

// Hash tells runs apart. It covers the time and the name of every event so far, and everything given to Note.
// Equal runs have equal hashes after every event.
func (e *Engine) Hash() uint64 { return e.hash }

// Note mixes x, such as a hash of what the present event changed, into the hash.
func (e *Engine) Note(x uint64) { e.hash = mix.Pair(e.hash, x) }

// Logf adds a line to the trace, if there is one.
func (e *Engine) Logf(actor, format string, args ...any) {
	if e.Trace != nil {
		e.Trace(e.now, e.played, actor, fmt.Sprintf(format, args...))
	}
}

// After plans to call f at d from now, in an event with the name. The event belongs to owner: it is dropped
// when the owner is killed, and postponed while the owner is paused. A nil owner is the world itself.
func (e *Engine) After(d time.Duration, owner *Process, name string, f func()) {
	e.plan(d, event{owner: owner, name: name, f: f})
}

// wakeAfter plans to wake a coroutine at d from now, unless its turn has ended by then.
func (e *Engine) wakeAfter(d time.Duration, name string, c *coroutine, turn int) {
	e.plan(d, event{owner: c.owner, name: name, c: c, turn: turn})
}

func (e *Engine) plan(d time.Duration, ev event) {
	e.planned++
	ev.at, ev.order = e.now.Add(max(d, 0)), e.planned
	if ev.owner != nil {
		ev.life = ev.owner.life
	}
	e.queue.push(ev)
}

// Run plays events until done, which may be nil, returns true after one of them, or until all events up to
// the given time are played; then the clock shows that time. It reports whether events are left.
func (e *Engine) Run(until instant.Time, done func() bool) bool {
	for !e.queue.empty() && e.queue.next() <= until {
		ev := e.queue.pop()
		e.now = ev.at
		if !e.due(&ev) {
			continue
		}
		e.played++
		e.hash = mix.Pair(e.hash, uint64(ev.at)+mix.String(ev.name))
		if e.Trace != nil && ev.name != "" {
			e.Trace(e.now, e.played, ev.owner.String(), ev.name)
		}
		if ev.f != nil {
			ev.f()
		} else {
			ev.c.wake(ev.turn)
		}
		if e.Step != nil {
			e.Step()
		}
		if done != nil && done() {
			return !e.queue.empty()
		}
	}
	if until != instant.Never {
		e.now = max(e.now, until)
	}
	return !e.queue.empty()
}

// due reports whether an event happens now. It does not if its owner was killed since it was planned; if the
// owner is paused, due plans the event again for the end of the pause.
func (e *Engine) due(ev *event) bool {
	p := ev.owner
	switch {
	case p == nil:
		return true
	case p.life != ev.life:
		return false
	case p.pausedUntil > e.now:
		e.planned++
		ev.at, ev.order, ev.held = p.pausedUntil, e.planned, true
		e.queue.push(*ev)
		return false
	}
	return true
}

// Process is an owner of events and coroutines, which can be paused and killed.
type Process struct {
	Name        string
	life        int          // grows with every Kill, so that events of earlier lives are recognised
	pausedUntil instant.Time // in the past when it is not paused
	coroutines  []*coroutine // that have not ended
}

func (p *Process) String() string {
	if p == nil {
		return "world"
	}
	return p.Name
}

// Paused reports whether the process is paused.
func (e *Engine) Paused(p *Process) bool { return p.pausedUntil > e.now }

// Pause stops the process for d, or until the end of a longer pause that it is in. None of its events happen
// meanwhile, but its messages, which belong to the world, travel on.
func (e *Engine) Pause(p *Process, d time.Duration) { p.pausedUntil = max(p.pausedUntil, e.now.Add(d)) }

// Resume ends a pause. The postponed events happen now.
func (e *Engine) Resume(p *Process) {
	p.pausedUntil = 0
	e.queue.release(p, e.now)
}

// Kill drops all events and coroutines of the process. What it has asked of others goes on. Events that are
// planned for the same process afterwards belong to its next life.
func (e *Engine) Kill(p *Process) {
	p.life++
	p.pausedUntil = 0
	dying := p.coroutines
	p.coroutines = nil
	for _, c := range dying {
		c.kill()
	}
}
