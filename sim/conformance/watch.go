package conformance

import (
	"context"

	"couchrelay/core/kv"
)

// watch commits a transaction that watches name.
func (e *env) watch(name string) kv.Watch {
	e.Helper()
	tx := e.begin()
	w := tx.Watch(e.key(name))
	e.commit(tx)
	tx.Cancel() // does not end it
	return w
}

// fires waits for w in the background and returns a channel with the result.
func (e *env) fires(w kv.Watch) (done chan error) {
	done = make(chan error, 1)
	go func() { done <- w.Wait(e.ctx) }()
	return done
}

// fails checks that w ends by itself with an error.
func (e *env) fails(w kv.Watch) {
	e.Helper()
	if err := w.Wait(e.ctx); kv.CodeOf(err) == 0 {
		e.Errorf("it ends with %v", err)
	}
}

var watches = []test{
	{"set", func(e *env) {
		e.put("a", "1")
		done := e.fires(e.watch("a"))
		e.put("a", "2")
		e.must(<-done)
	}},
	{"set before the wait", func(e *env) {
		w := e.watch("a")
		e.put("a", "2")
		e.must(w.Wait(e.ctx))
	}},
	{"clear of a range", func(e *env) {
		e.put("b", "1")
		done := e.fires(e.watch("b"))
		e.do(func(tx kv.Tx) { tx.ClearRange(e.span("a", "c")) })
		e.must(<-done)
	}},
	{"add", func(e *env) {
		done := e.fires(e.watch("n"))
		e.do(func(tx kv.Tx) { tx.Add(e.key("n"), 1) })
		e.must(<-done)
	}},
	{"versionstamped key", func(e *env) {
		tx := e.begin()
		tx.SetVersionstampedValue(e.key("a"), stampTemplate(""))
		w := e.watch("a")
		e.commit(tx)
		e.must(w.Wait(e.ctx))
	}},
	{"changed between the read and the commit", func(e *env) {
		tx := e.begin()
		w := tx.Watch(e.key("a"))
		e.put("a", "2")
		e.commit(tx)
		e.must(w.Wait(e.ctx))
	}},
	{"several on one key", func(e *env) {
		one, two := e.watch("a"), e.watch("a")
		other := e.watch("b")
		e.put("a", "2")
		e.must(one.Wait(e.ctx))
		e.must(two.Wait(e.ctx))
		other.Cancel()
	}},
	{"one of several keys", func(e *env) {
		for _, changed := range []string{"a", "b", "c"} {
			tx := e.begin()
			w := tx.Watch(e.key("a"), e.key("b"), e.key("c"))
			e.commit(tx)
			done := e.fires(w)
			e.put(changed, "1")
			e.must(<-done)
			e.put("b", changed) // which it does not watch any more
		}
	}},
	{"of an own write", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), []byte("own"))
		w := tx.Watch(e.key("a"))
		e.commit(tx)
		e.put("a", "2")
		e.must(w.Wait(e.ctx))
	}},
	{"cancel", func(e *env) {
		w := e.watch("a")
		done := e.fires(w)
		w.Cancel()
		e.code(<-done, kv.OperationCancelled)
	}},
	{"end of the context", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		w := e.watch("a")
		defer w.Cancel()
		if err := w.Wait(ctx); err != nil { // nil would be a spurious signal
			e.is(err, context.Canceled)
		}
	}},
	{"of a transaction that failed", func(e *env) {
		tx := e.begin()
		e.value(tx, "a", none)
		w := tx.Watch(e.key("b"))
		tx.Set(e.key("c"), nil)
		e.put("a", "1")
		err := tx.Commit()
		e.code(err, kv.NotCommitted)
		e.must(tx.OnError(err))
		e.fails(w)
	}},
	{"of a transaction that was cancelled", func(e *env) {
		tx := e.begin()
		w := tx.Watch(e.key("b"))
		tx.Cancel()
		e.fails(w)
	}},
	{"of an unreadable key", func(e *env) {
		tx := e.begin()
		tx.SetVersionstampedValue(e.key("a"), stampTemplate(""))
		e.code(tx.Watch(e.key("a")).Wait(e.ctx), kv.AccessedUnreadable)
	}},
}
