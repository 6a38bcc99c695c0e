package engine

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"
)

// coroutine is code that waits in the middle. When its task is done it waits for another, since a new
// coroutine and the growth of its stack cost more than most tasks.
type coroutine struct {
	e     *Engine
	owner *Process
	task  func() // nil while it has none
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	turn  int  // counts waits and tasks, so that late wake-ups are recognised
	woken bool // from its present wait, which did not end with its context
	dead  bool
}

// killed unwinds a coroutine whose process has ended.
type killed struct{}

// Panic is a panic of a coroutine, with the stack that it had there: the stack of who resumed the coroutine
// says nothing.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) String() string { return fmt.Sprint(p.Value) }

// Go starts f as a coroutine of owner, in an event of its own.
func (e *Engine) Go(owner *Process, name string, f func()) {
	c := e.idleCoroutine()
	c.owner, c.task = owner, f
	if owner != nil {
		owner.coroutines = append(owner.coroutines, c)
	}
	e.wakeAfter(0, name, c, c.turn)
}

// idleCoroutine takes a coroutine that has no task, or makes one.
func (e *Engine) idleCoroutine() *coroutine {
	if last := len(e.idle) - 1; last >= 0 {
		c := e.idle[last]
		e.idle = e.idle[:last]
		return c
	}
	c := &coroutine{e: e}
	c.next, c.stop = iter.Pull(c.run)
	e.coroutines[c] = true
	return c
}

// run does one task after the other.
func (c *coroutine) run(yield func(struct{}) bool) {
	defer func() {
		if r := recover(); r != nil && r != (killed{}) {
			panic(&Panic{Value: r, Stack: debug.Stack()})
		}
	}()
	c.yield = yield
	for {
		c.task()
		c.task = nil
		if !yield(struct{}{}) {
			return
		}
	}
}

// Owner is the process whose coroutine is running; nil outside of coroutines and for those of the world.
func (e *Engine) Owner() *Process {
	if e.running == nil {
		return nil
	}
	return e.running.owner
}

// Self tells the running coroutine from others; nil outside of coroutines.
func (e *Engine) Self() any {
	if e.running == nil {
		return nil
	}
	return e.running
}

// wake ends what the coroutine waits for, if that still is the given turn.
func (c *coroutine) wake(turn int) {
	if c.turn == turn {
		c.woken = true
		c.resume(turn)
	}
}

// resume lets the coroutine go on if it still waits for the given turn.
func (c *coroutine) resume(turn int) {
	if c.dead || c.turn != turn {
		return
	}
	before := c.e.running
	c.e.running = c
	_, more := c.next()
	c.e.running = before
	switch {
	case !more:
		c.dead = true
		delete(c.e.coroutines, c)
		c.leave()
	case c.task == nil:
		c.turn++
		c.leave()
		c.e.idle = append(c.e.idle, c)
	}
}

// leave ends that the coroutine is its owner's.
func (c *coroutine) leave() {
	if c.owner == nil {
		return
	}
	if i := slices.Index(c.owner.coroutines, c); i >= 0 {
		c.owner.coroutines = slices.Delete(c.owner.coroutines, i, i+1)
	}
	c.owner = nil
}

func (c *coroutine) kill() {
	if !c.dead {
		c.dead = true
		delete(c.e.coroutines, c)
		c.stop()
	}
}

// Close ends all coroutines that are left, which would otherwise stay in memory for ever. The run is over
// then: nothing may be asked of the engine but its clock and its counts.
func (e *Engine) Close() {
	e.running = nil
	for len(e.coroutines) > 0 {
		for c := range e.coroutines { // in any order: what they do on their way out is not part of the run
			c.close()
		}
	}
}

// close kills a coroutine and survives what it does on its way out of a world that may be broken.
func (c *coroutine) close() {
	defer func() { _ = recover() }() // the run has its outcome; a panic now adds nothing to it
	c.kill()
}

// Await calls arm and suspends the running coroutine until the function given to arm is called, which may
// happen before arm returns, or until ctx ends: then it returns ctx's error.
func (e *Engine) Await(ctx context.Context, arm func(wake func())) error {
	c, x, err := e.suspending(ctx)
	if err != nil {
		return err
	}
	turn, asked := c.turn, false
	arm(func() {
		if !asked {
			asked = true
			e.wakeAfter(0, "", c, turn)
		}
	})
	return c.suspend(x)
}

// Sleep suspends the running coroutine for d, or until ctx ends, whose error it returns.
func (e *Engine) Sleep(ctx context.Context, d time.Duration) error {
	c, x, err := e.suspending(ctx)
	if err != nil {
		return err
	}
	e.wakeAfter(d, "", c, c.turn)
	return c.suspend(x)
}

// suspending begins a wait of the running coroutine, which ends with ctx if that is one of virtual time.
func (e *Engine) suspending(ctx context.Context) (*coroutine, *Context, error) {
	c := e.running
	if c == nil {
		panic("engine: nothing to suspend")
	}
	if c.dead {
		panic(killed{})
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	c.turn++
	c.woken = false
	x, _ := ctx.(*Context)
	if x != nil {
		x.waiting = c
	}
	return c, x, nil
}

// suspend lets others go on until the coroutine is resumed.
func (c *coroutine) suspend(x *Context) error {
	lives := c.yield(struct{}{})
	if x != nil {
		x.waiting = nil
	}
	if !lives {
		panic(killed{})
	}
	if !c.woken {
		return x.err
	}
	return nil
}

// Context is a context of virtual time, for one coroutine.
type Context struct {
	e       *Engine
	owner   *Process
	err     error
	waiting *coroutine // nil while it does not
}

// NewContext makes a context for a coroutine of owner. A limit above 0 ends it after that time.
func (e *Engine) NewContext(owner *Process, limit time.Duration) *Context {
	x := &Context{e: e, owner: owner}
	if limit > 0 {
		e.After(limit, owner, "", func() { x.end(context.DeadlineExceeded) })
	}
	return x
}

// Cancel ends the context.
func (x *Context) Cancel() { x.end(context.Canceled) }

func (x *Context) end(err error) {
	if x.err != nil {
		return
	}
	x.err = err
	if c := x.waiting; c != nil {
		turn := c.turn
		x.e.After(0, x.owner, "", func() { c.resume(turn) })
		x.waiting = nil
	}
}

// Deadline is context.Context's; nobody in the core asks.
func (x *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is context.Context's; in virtual time nobody may wait for a channel.
func (x *Context) Done() <-chan struct{} { return nil }

// Err is context.Context's.
func (x *Context) Err() error { return x.err }

// Value is context.Context's.
func (x *Context) Value(any) any { return nil }
