package engine

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"
)

// coroutine is code that can be suspended in the middle. It is reused: when its task is done it waits for the
// next one, since making a coroutine and growing its stack cost more than most tasks.
type coroutine struct {
	e     *Engine
	owner *Process
	task  func() // nil while it has none
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	turn  int  // grows with every wait and every task, so that a wake-up of an earlier one is recognised as stale
	woken bool // the present wait was ended by its wake function or timer, rather than by its context
	dead  bool
}

// killed is the value of the panic that unwinds a coroutine whose process has ended.
type killed struct{}

// Panic is a panic of a coroutine. It carries the coroutine's own stack: the panic goes on in the caller that
// resumed the coroutine, whose stack does not show where it began.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) String() string { return fmt.Sprint(p.Value) }

// Go starts f as a coroutine of owner, in an event of its own, which has the name. A nil owner is the world.
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

// run carries out one task after the other.
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

// Owner returns the process that owns the running coroutine. It is nil outside of coroutines, and in
// coroutines of the world.
func (e *Engine) Owner() *Process {
	if e.running == nil {
		return nil
	}
	return e.running.owner
}

// Self returns an identity of the running coroutine, to be compared only. It is nil outside of coroutines.
func (e *Engine) Self() any {
	if e.running == nil {
		return nil
	}
	return e.running
}

// wake ends the coroutine's wait, unless a later turn has begun.
func (c *coroutine) wake(turn int) {
	if c.turn == turn {
		c.woken = true
		c.resume(turn)
	}
}

// resume lets the coroutine go on, unless a later turn has begun.
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

// leave removes the coroutine from its owner's list.
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

// Close ends all remaining coroutines, which would otherwise stay in memory for ever. It ends the run:
// afterwards only the engine's clock, counts and hash may be read.
func (e *Engine) Close() {
	e.running = nil
	for len(e.coroutines) > 0 {
		for c := range e.coroutines { // in any order: what they do on their way out is not part of the run
			c.close()
		}
	}
}

// close kills a coroutine and recovers from a panic of its deferred functions, which may run in a broken
// world.
func (c *coroutine) close() {
	defer func() { _ = recover() }() // the run has its outcome; a panic now adds nothing to it
	c.kill()
}

// Await calls arm and suspends the running coroutine until the function given to arm is called, or until ctx
// ends, whose error it then returns. The function may be called before arm returns; only its first call
// counts.
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

// suspending begins a wait of the running coroutine. Only a *Context can end the wait: other contexts are
// checked once, before it.
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

// suspend gives control back to the engine until the coroutine is resumed. x is nil for a wait without a
// *Context.
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

// Context is a context of virtual time. At most one coroutine waits with it at a time.
type Context struct {
	e       *Engine
	owner   *Process
	err     error
	waiting *coroutine // the coroutine that waits with this context now, or nil
}

// NewContext returns a context for a coroutine of owner. With a limit above 0 it ends after that time.
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

// Deadline is context.Context's. It reports no deadline, since deadlines are in virtual time and no caller
// asks.
func (x *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is context.Context's. It returns nil: a coroutine must not block on a channel, which would stop the
// engine.
func (x *Context) Done() <-chan struct{} { return nil }

// Err is context.Context's.
func (x *Context) Err() error { return x.err }

// Value is context.Context's.
func (x *Context) Value(any) any { return nil }
