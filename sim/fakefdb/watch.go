package fakefdb

import (
	"bytes"
	"context"
	"slices"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
)

// watch is a kv.Watch. Its fields are guarded by the store's lock.
type watch struct {
	db     *Database
	key    []byte
	seen   []byte        // the value as the transaction saw it
	delay  time.Duration // from the change to the signal
	lost   bool          // changes go unnoticed
	listed bool          // in Database.watches
	done   bool
	err    error  // of a watch that is done
	wake   func() // the waiter's, nil when nobody waits
	due    bool   // the change was seen and the signal is on its way
}

// Watch is kv.Tx's.
func (t *transaction) Watch(key []byte) kv.Watch {
	w := &watch{db: t.db, key: bytes.Clone(key)}
	seen, err := t.Get(key)
	if err != nil {
		w.finish(err)
		return w
	}
	w.seen = seen
	t.watches = append(t.watches, w)
	return w
}

// startWatches puts the watches of a committed transaction into effect.
func (t *transaction) startWatches() {
	for _, w := range t.watches {
		out := t.db.world.Decide(Op{Kind: StartWatch, Tx: t.number, Attempt: t.attempt, Options: t.options, Key: w.key})
		t.db.start(w, out)
	}
	t.watches = nil
}

func (db *Database) start(w *watch, out Outcome) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case w.done:
		return
	case db.waiting >= MaxWatches:
		w.finishLocked(kv.NewError(kv.TooManyWatches))
		return
	}
	switch out.Fault {
	case WatchLost:
		w.lost = true
	case WatchDelayed:
		w.delay = out.Late
	case WatchSpurious:
		db.world.After(out.Late, func() { w.finish(nil) })
	case WatchFailed:
		db.world.After(out.Late, func() { w.finish(kv.NewError(out.Fault.code())) })
	}
	w.listed = true
	db.waiting++
	db.watches[string(w.key)] = append(db.watches[string(w.key)], w)
	w.compare(db.data.latest(w.key))
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
	if db.waiting == 0 {
		return
	}
	for _, m := range mutations {
		if m.Kind == ryw.ClearRange {
			db.fireRange(kv.Range{Begin: m.Key, End: m.Value})
			continue
		}
		for _, w := range slices.Clone(db.watches[string(m.Key)]) {
			w.compare(db.data.latest(m.Key))
		}
	}
}

// fireRange looks at every watch, in the order of keys: clears of ranges are rare.
func (db *Database) fireRange(r kv.Range) {
	var keys []string
	for key := range db.watches {
		if r.Contains([]byte(key)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		for _, w := range slices.Clone(db.watches[key]) {
			w.compare(db.data.latest(w.key))
		}
	}
}

// compare ends the watch if the present value is another one. The lock is held.
func (w *watch) compare(now []byte) {
	switch {
	case w.lost || w.due || (now == nil) == (w.seen == nil) && bytes.Equal(now, w.seen):
	case w.delay > 0:
		w.due = true
		w.db.world.After(w.delay, func() { w.finish(nil) })
	default:
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
	if w.listed {
		w.db.waiting--
		key := string(w.key)
		rest := slices.DeleteFunc(w.db.watches[key], func(o *watch) bool { return o == w })
		if w.db.watches[key] = rest; len(rest) == 0 {
			delete(w.db.watches, key)
		}
	}
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
		return err
	}
	return w.err
}

// Cancel is kv.Watch's.
func (w *watch) Cancel() { w.finish(kv.NewError(kv.OperationCancelled)) }
