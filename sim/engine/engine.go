// Package engine is the time of a simulation: a queue of events in virtual time, coroutines of which one
// runs at a time, processes that can be paused and killed, and a hash over all that happened. It has no
// chance of its own and knows nothing of stores or replications.
package engine

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv/mix"
)

// Engine plays events in the order of their times, those of one time in the order in which they were
// planned.
type Engine struct {
	now     instant.Time
	queue   queue
	planned uint64
	played  uint64
	hash    uint64
	running *coroutine
	// coroutines are all that live; idle are those without a task, the last of which gets the next.
	coroutines map[*coroutine]bool
	idle       []*coroutine
	// Trace, when set, is told of every event before it is played, and of what Logf says.
	Trace func(at instant.Time, step uint64, actor, text string)
	// Step, when set, is called after every event.
	Step func()
}

// New starts the clock.
func New(start instant.Time) *Engine {
	return &Engine{now: start, coroutines: map[*coroutine]bool{}}
}

// Now is the present.
func (e *Engine) Now() instant.Time { return e.now }

// Played is the number of events so far.
func (e *Engine) Played() uint64 { return e.played }

// Hash tells runs apart: it covers every event's time and name, and everything given to Note. Equal runs
// have equal hashes at every step.
func (e *Engine) Hash() uint64 { return e.hash }

// Note mixes something into the hash: what an event changed.
func (e *Engine) Note(x uint64) { e.hash = mix.Pair(e.hash, x) }

// Logf writes a line into the trace, if there is one.
func (e *Engine) Logf(actor, format string, args ...any) {
	if e.Trace != nil {
		e.Trace(e.now, e.played, actor, fmt.Sprintf(format, args...))
	}
}

// After plans f at d from now. It belongs to owner: when that is killed it does not happen, while it is
// paused it waits. A nil owner is the world itself.
func (e *Engine) After(d time.Duration, owner *Process, name string, f func()) {
	e.plan(d, event{owner: owner, name: name, f: f})
}

// wakeAfter plans that a coroutine goes on at d from now, if it has waited for that alone.
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

// Run plays events until done says so, asked after each, or until the given time; the clock then stands
// there. It says whether events are left.
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

// due says whether an event happens now: not if its owner is dead, later if it is paused.
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

// Process owns events and coroutines.
type Process struct {
	Name        string
	life        int // changes when it is killed
	pausedUntil instant.Time
	coroutines  []*coroutine
}

func (p *Process) String() string {
	if p == nil {
		return "world"
	}
	return p.Name
}

// Paused says whether the process stands still.
func (e *Engine) Paused(p *Process) bool { return p.pausedUntil > e.now }

// Pause lets the process stand still for d: nothing of it happens, though its messages travel on.
func (e *Engine) Pause(p *Process, d time.Duration) { p.pausedUntil = max(p.pausedUntil, e.now.Add(d)) }

// Resume ends a pause: what waited for its end happens now.
func (e *Engine) Resume(p *Process) {
	p.pausedUntil = 0
	e.queue.release(p, e.now)
}

// Kill ends the process: its events and coroutines are gone. What it asked of others goes on. The same
// process may go on to plan events as its next life.
func (e *Engine) Kill(p *Process) {
	p.life++
	p.pausedUntil = 0
	dying := p.coroutines
	p.coroutines = nil
	for _, c := range dying {
		c.kill()
	}
}
