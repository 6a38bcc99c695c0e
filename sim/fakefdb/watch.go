package fakefdb

import (
	"bytes"
	"context"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/watchers"
)

// watch is a kv.Watch. Its fields are guarded by the store's lock.
type watch struct {
	db    *Database
	keys  []kv.KeyValue // with the values that the transaction saw
	delay time.Duration // from the change to the signal
	done  bool
	err   error  // the result of a watch that is done
	wake  func() // wakes the caller of Wait; nil when there is none
}

// Watch is kv.Tx's.
func (t *transaction) Watch(keys ...[]byte) kv.Watch {
	w := &watch{db: t.db}
	values, err := ryw.Watched(t.Buffer, keys)
	t.misread.next = false // a watch only compares
	if err != nil {
		w.finish(err)
		return w
	}
	for i, seen := range values {
		w.keys = append(w.keys, kv.KeyValue{Key: bytes.Clone(keys[i]), Value: seen})
	}
	t.watches = append(t.watches, w)
	return w
}

// startWatches puts the watches of a committed transaction into effect.
func (t *transaction) startWatches() {
	for _, w := range t.watches {
		op := Op{Kind: StartWatch, Tx: t.number, Attempt: t.attempt, Options: t.options, Key: w.keys[0].Key}
		out := t.db.world.Decide(op)
		t.db.start(w, out)
	}
	t.watches = nil
}

func (db *Database) start(w *watch, out Outcome) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch out.Fault {
	case WatchLost:
		return
	case WatchDelayed:
		w.delay = out.Late
	case WatchSpurious:
		db.world.After(out.Late, func() { w.finish(nil) })
	case WatchFailed:
		db.world.After(out.Late, func() { w.finish(kv.NewError(out.Fault.code())) })
	}
	switch {
	case w.done: // cancelled before the commit
	case out.Fault == WatchRefused || db.watches.Len()+len(w.keys) > watchers.Max:
		w.finishLocked(kv.NewError(kv.TooManyWatches))
	default:
		for _, k := range w.keys {
			if !db.watches.Add(k.Key, k.Value, db.data.latest(k.Key), w) {
				db.forget(w)
				w.changed()
				return
			}
		}
	}
}

// forget takes a watch out of the registry. The lock is held.
func (db *Database) forget(w *watch) {
	for _, k := range w.keys {
		db.watches.Remove(k.Key, w)
	}
}

// dropWatches ends the watches of a transaction that did not commit.
func (t *transaction) dropWatches() {
	for _, w := range t.watches {
		w.finish(kv.NewError(kv.TransactionCancelled))
	}
	t.watches = nil
}

// fireWatches ends the watches whose values the mutations have changed. The lock is held.
func (db *Database) fireWatches(mutations []ryw.Mutation) {
	for _, w := range db.watches.Changed(mutations, db.data.latest) {
		db.forget(w)
		w.changed()
	}
}

// changed fires the watch, since the value is another one. The lock is held.
func (w *watch) changed() {
	if w.delay > 0 {
		w.db.world.After(w.delay, func() { w.finish(nil) })
	} else {
		w.finishLocked(nil)
	}
}

func (w *watch) finish(err error) {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.finishLocked(err)
}

func (w *watch) finishLocked(err error) {
	if w.done {
		return
	}
	w.done, w.err = true, err
	if err == nil {
		w.db.stats.WatchesFired++
	}
	w.db.forget(w)
	if w.wake != nil {
		w.wake()
	}
}

// Wait is kv.Watch's.
func (w *watch) Wait(ctx context.Context) error {
	err := w.db.world.Await(ctx, func(wake func()) {
		w.db.mu.Lock()
		defer w.db.mu.Unlock()
		if w.done {
			wake()
		} else {
			w.wake = wake
		}
	})
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.wake = nil
	if err != nil {
		w.finishLocked(err)
		return err
	}
	return w.err
}

// Cancel is kv.Watch's.
func (w *watch) Cancel() { w.finish(kv.NewError(kv.OperationCancelled)) }
