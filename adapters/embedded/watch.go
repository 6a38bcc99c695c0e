package embedded

import (
	"context"

	"couchrelay/core/kv"
	"couchrelay/core/kv/watchers"
)

// watch is a kv.Watch.
type watch struct {
	db        *Database
	key, seen []byte
	ended     bool // guarded by Database.mu
	err       error
	done      chan struct{} // closed when err is set
}

// startWatches puts the watches of a committed transaction into effect.
func (t *transaction) startWatches() {
	for _, w := range t.watches {
		w.start()
	}
	t.watches = nil
}

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
	now, err := w.db.view.get(w.key)
	switch {
	case err != nil:
		w.finishLocked(err)
	case w.db.watches.Len() >= watchers.Max:
		w.finishLocked(kv.NewError(kv.TooManyWatches))
	case !w.db.watches.Add(w.key, w.seen, now, w):
		w.finishLocked(nil)
	}
}

// dropWatches ends the watches of a transaction that did not commit.
func (t *transaction) dropWatches() {
	for _, w := range t.watches {
		w.finish(kv.NewError(kv.TransactionCancelled))
	}
	t.watches = nil
}

func (w *watch) finish(err error) {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.finishLocked(err)
}

func (w *watch) finishLocked(err error) {
	if w.ended {
		return
	}
	w.ended, w.err = true, err
	w.db.watches.Remove(w.key, w)
	close(w.done)
}

// Wait is kv.Watch's.
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
