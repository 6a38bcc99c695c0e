package fakefdb_test

import (
	"container/heap"
	"context"
	"iter"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/fakefdb"
)

// world is a small simulation: coroutines of which one runs at a time, and a queue of events.
type world struct {
	now     instant.Time
	events  events
	seq     int
	running *coroutine
	decide  func(fakefdb.Op) fakefdb.Outcome
}

type event struct {
	at  instant.Time
	seq int
	f   func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// coroutine is a client. Its context's end is noticed when it is resumed.
type coroutine struct {
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	turn  int // counts suspensions, so that late wake-ups are recognised
}

func (w *world) Now() instant.Time                    { return w.now }
func (w *world) Decide(op fakefdb.Op) fakefdb.Outcome { return w.decide(op) }
func (w *world) After(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.events, event{w.now.Add(d), w.seq, f})
}
func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	return w.Await(ctx, func(wake func()) { w.After(d, wake) })
}

func (w *world) Await(ctx context.Context, arm func(wake func())) error {
	c := w.running
	c.turn++
	turn, woken := c.turn, false
	arm(func() {
		woken = true
		w.After(0, func() { w.resume(c, turn) })
	})
	c.yield(struct{}{})
	if !woken {
		return ctx.Err()
	}
	return nil
}

func (w *world) resume(c *coroutine, turn int) {
	if c.turn != turn {
		return
	}
	w.running = c
	c.next()
	w.running = nil
}

// start lets f run as a coroutine.
func (w *world) start(f func()) *coroutine {
	c := &coroutine{}
	c.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		f()
	})
	w.After(0, func() { w.resume(c, 0) })
	return c
}

// interrupt resumes a coroutine whose context has ended.
func (w *world) interrupt(c *coroutine) { w.After(0, func() { w.resume(c, c.turn) }) }

// run plays events until none is left.
func (w *world) run() {
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.f()
	}
}

func newWorld(decide func(fakefdb.Op) fakefdb.Outcome) (*world, *fakefdb.Database) {
	w := &world{now: instant.Seconds(1_000_000), decide: decide}
	return w, fakefdb.New(fakefdb.InWorld(w))
}
