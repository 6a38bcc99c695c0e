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

// transaction is a kv.Transaction; the Buffer is its part without the store.
type transaction struct {
	*ryw.Buffer
	db      *Database
	ctx     context.Context
	options kv.Options
	view    *view        // what it reads, nil before the first read and at the end
	version int64        // of the view, 0 before the first read
	began   instant.Time // when the view was taken
	stamp   *[10]byte
	watches []*watch // that wait for the commit
	ended   error    // no further attempts, for this reason
}

// ReadVersion is kv.Tx's.
func (t *transaction) ReadVersion() (int64, error) {
	if t.ended != nil {
		return 0, t.ended
	}
	err := t.snapshot()
	return t.version, err
}

// snapshot makes sure that there is a view to read from.
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

// letGo gives the view back.
func (t *transaction) letGo() {
	if t.view != nil {
		t.db.release(t.view)
		t.view = nil
	}
}

// source is the snapshot of a transaction.
type source transaction

// KnownVersion is ryw.Source's.
func (s *source) KnownVersion() int64 { return s.version }

// read runs f on the snapshot.
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
	return f(t.view)
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

// get is the value of key, nil when there is none.
func (v *view) get(key []byte) ([]byte, error) { return get(v.snapshot, key) }

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
	t.letGo()
	t.startWatches()
	return nil
}

// send has the commit done with others and waits for it.
func (t *transaction) send(c *ryw.Commit) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if len(c.Reads) > 0 { // by explicit conflict ranges alone
		if err := t.snapshot(); err != nil {
			return err
		}
	}
	t.letGo()
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

// errNoVersion is what Versionstamp says before a commit and after one without writes.
var errNoVersion = errors.New("transaction has no versionstamp: it committed no writes")

// Versionstamp is kv.Transaction's.
func (t *transaction) Versionstamp() ([10]byte, error) {
	if t.stamp == nil {
		return [10]byte{}, errNoVersion
	}
	return *t.stamp, nil
}

// OnError is kv.Transaction's. It does not wait: a conflict here means that another transaction has
// got on, and the next attempt sees what it did.
func (t *transaction) OnError(err error) error {
	switch {
	case t.ended != nil:
		return t.ended
	case !kv.Retryable(err):
	case t.ctx.Err() != nil:
		err = t.ctx.Err()
	default:
		t.letGo()
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

func (t *transaction) end(err error) {
	if t.ended == nil {
		t.ended = err
		t.Fail(err)
		t.letGo()
		t.dropWatches()
	}
}

// Watch is kv.Tx's.
func (t *transaction) Watch(key []byte) kv.Watch {
	w := &watch{db: t.db, key: bytes.Clone(key), done: make(chan struct{})}
	seen, err := t.Get(key)
	if err != nil {
		w.finish(err)
		return w
	}
	w.seen = seen
	t.watches = append(t.watches, w)
	return w
}
