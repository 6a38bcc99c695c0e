package embedded

import (
	"bytes"
	"context"
	"errors"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"

	"github.com/cockroachdb/pebble/v2"
)

// transaction is a kv.Transaction. It is for one goroutine. Its Buffer has the writes and conflict ranges,
// and reads the store through source.
type transaction struct {
	*ryw.Buffer
	db      *Database
	ctx     context.Context // ends reads and the wait for the commit
	options kv.Options
	view    *view        // a reference to the view it reads; nil before the first read and after the commit
	version int64        // of the view, 0 before the first read of an attempt
	began   instant.Time // when the view was taken, by the store's time
	stamp   *[10]byte    // versionstamp of the last commit, nil if it wrote nothing
	watches []*watch     // made in this attempt; the commit puts them into effect
	ended   error        // why there are no further attempts; nil as long as there may be some
}

// ReadVersion is kv.Tx's.
func (t *transaction) ReadVersion() (int64, error) {
	if t.ended != nil {
		return 0, t.ended
	}
	return t.version, t.Lose(t.snapshot())
}

// snapshot takes the latest view at the first read. All reads of an attempt see the same one.
func (t *transaction) snapshot() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if err := t.db.failure.err(); err != nil {
		return err
	}
	if t.view == nil {
		t.view = t.db.current()
		t.version, t.began = t.view.version, t.db.present()
	}
	return nil
}

// releaseView gives the view back, if there is one.
func (t *transaction) releaseView() {
	if t.view != nil {
		t.db.release(t.view)
		t.view = nil
	}
}

// source is a transaction as its own Buffer reads it: the contents of its view, without its writes.
type source transaction

// KnownVersion is ryw.Source's.
func (s *source) KnownVersion() int64 { return s.version }

// read calls f with the transaction's view, unless the transaction is too old. f must not keep the view.
func (s *source) read(f func(v *view) error) error {
	t := (*transaction)(s)
	if err := t.snapshot(); err != nil {
		return err
	}
	if t.db.present().Sub(t.began) > window {
		return kv.NewError(kv.TransactionTooOld)
	}
	if err := t.db.enter(); err != nil {
		return err
	}
	defer t.db.leave()
	return t.db.failure.of(f(t.view))
}

// Values is ryw.Source's.
func (s *source) Values(keys, values [][]byte) error {
	return s.read(func(v *view) (err error) {
		for i, key := range keys {
			if values[i], err = v.get(key); err != nil {
				return err
			}
		}
		return nil
	})
}

// get returns the value of a key, nil if there is none.
func (v *view) get(key []byte) ([]byte, error) { return get(v.snapshot, key) }

// get returns a copy of a key's value, nil if there is none. An empty value is not nil.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return append(make([]byte, 0, len(value)), value...), closer.Close()
}

// Commit is kv.Transaction's.
func (t *transaction) Commit() error {
	if t.ended != nil {
		return t.ended
	}
	readOnly := t.ReadOnly()
	limit := t.options.SizeLimit
	if limit <= 0 || limit > kv.MaxTxSize {
		limit = kv.MaxTxSize
	}
	c, err := t.Finish(limit)
	if err != nil {
		return err
	}
	t.Fail(kv.NewError(kv.UsedDuringCommit))
	if !readOnly {
		if err := t.send(c); err != nil {
			return err
		}
	}
	t.releaseView()
	t.startWatches()
	return nil
}

// send hands the commit to groups and waits for it. If the context ends or the store fails while it waits,
// the commit's fate is unknown: the group may still reach the disk. Neither error is retryable, so such a
// transaction is not tried again by mistake.
func (t *transaction) send(c *ryw.Commit) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if len(c.Reads) > 0 { // explicit conflict ranges without a read need a read version too
		if err := t.snapshot(); err != nil {
			return err
		}
	}
	t.releaseView()
	r := &request{commit: c, readVersion: t.version, began: t.began, done: make(chan struct{})}
	if err := t.db.groups.submit(r); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-t.ctx.Done():
		return t.ctx.Err()
	case <-t.db.failure.happened:
		return t.db.failure.err()
	}
	if r.failed != 0 {
		return kv.NewError(r.failed)
	}
	t.stamp = &r.stamp
	return nil
}

// errNoVersion is the error of Versionstamp before a commit and after one without writes.
var errNoVersion = errors.New("transaction has no versionstamp: it committed no writes")

// Versionstamp is kv.Transaction's.
func (t *transaction) Versionstamp() ([10]byte, error) {
	if t.stamp == nil {
		return [10]byte{}, errNoVersion
	}
	return *t.stamp, nil
}

// OnError is kv.Transaction's. It does not back off: a conflict here means that another transaction has made
// progress, and its writes are visible to the next attempt.
func (t *transaction) OnError(err error) error {
	switch {
	case t.ended != nil:
		return t.ended
	case !kv.Retryable(err):
	case t.ctx.Err() != nil:
		err = t.ctx.Err()
	default:
		t.releaseView()
		t.dropWatches()
		t.Reset()
		t.version, t.stamp = 0, nil
		return nil
	}
	t.end(err)
	return err
}

// Cancel is kv.Transaction's.
func (t *transaction) Cancel() { t.end(kv.NewError(kv.TransactionCancelled)) }

// end makes err the result of all further calls. Only the first call has an effect.
func (t *transaction) end(err error) {
	if t.ended == nil {
		t.ended = err
		t.Fail(err)
		t.releaseView()
		t.dropWatches()
	}
}

// Watch is kv.Tx's.
func (t *transaction) Watch(keys ...[]byte) kv.Watch {
	w := &watch{db: t.db, done: make(chan struct{})}
	values, err := ryw.Watched(t.Buffer, keys)
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
