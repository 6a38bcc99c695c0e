package embedded

import (
	"context"

	"couchrelay/core/kv"
	"couchrelay/core/kv/watchers"
)

// watch is a kv.Watch.
type watch struct {
	db    *Database
	keys  []kv.KeyValue // with the values that the transaction saw, its own writes among them; nil for none
	ended bool          // guarded by Database.mu
	err   error         // the result of Wait; set once, before done is closed
	done  chan struct{} // closed, under Database.mu, when the watch ends
}

// startWatches puts the watches of a committed transaction into effect. It is called after the commit is
// visible, so the transaction's own writes do not end them.
func (t *transaction) startWatches() {
	for _, w := range t.watches {
		w.start()
	}
	t.watches = nil
}

// start puts a watch into effect. If a key has another value by now than the transaction saw, the watch
// ends at once: the change must not be missed.
func (w *watch) start() {
	if err := w.db.enter(); err != nil {
		w.finish(err)
		return
	}
	defer w.db.leave()
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	if w.ended {
		return
	}
	for _, k := range w.keys {
		now, err := w.db.view.get(k.Key)
		switch {
		case err != nil:
			w.finishLocked(err)
		case w.db.watches.Len() >= watchers.Max:
			w.finishLocked(kv.NewError(kv.TooManyWatches))
		case !w.db.watches.Add(k.Key, k.Value, now, w):
			w.finishLocked(nil)
		}
		if w.ended {
			return
		}
	}
}

// dropWatches ends the watches of a transaction that did not commit.
func (t *transaction) dropWatches() {
	for _, w := range t.watches {
		w.finish(kv.NewError(kv.TransactionCancelled))
	}
	t.watches = nil
}

// finish ends a watch with a result, unless it has ended.
func (w *watch) finish(err error) {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.finishLocked(err)
}

// finishLocked is finish for callers that hold Database.mu.
func (w *watch) finishLocked(err error) {
	if w.ended {
		return
	}
	w.ended, w.err = true, err
	for _, k := range w.keys {
		w.db.watches.Remove(k.Key, w)
	}
	close(w.done)
}

// Wait is kv.Watch's. It also returns when the store fails or is closed.
func (w *watch) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		w.finish(ctx.Err())
		return ctx.Err()
	case <-w.db.failure.happened:
		return w.db.failure.err()
	case <-w.db.groups.finished:
		return ErrClosed
	}
}

// Cancel is kv.Watch's.
func (w *watch) Cancel() { w.finish(kv.NewError(kv.OperationCancelled)) }
