package embedded

import (
	"errors"

	"couchrelay/core/kv"

	"github.com/cockroachdb/pebble/v2"
)

// Moment is the store as of one commit, for as long as it is held, whatever is committed meanwhile: other than a
// transaction it does not grow too old. It may be used by one caller at a time. It holds disk space that compactions
// would free.
type Moment struct {
	db *Database
	v  *view
}

var _ kv.Reader = (*Moment)(nil)

// Moment returns the store as of its last commit. The caller closes it.
func (db *Database) Moment() (*Moment, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	return &Moment{db, db.current()}, nil
}

// Close gives the moment up.
func (m *Moment) Close() { m.db.release(m.v) }

// Version is the version of the last commit in it.
func (m *Moment) Version() int64 { return m.v.version }

// read calls f while the store cannot be closed.
func (m *Moment) read(f func() error) error {
	if err := m.db.enter(); err != nil {
		return err
	}
	defer m.db.leave()
	return m.db.failure.of(f())
}

// Get is kv.Reader's.
func (m *Moment) Get(key []byte) (value []byte, err error) {
	err = m.read(func() error { value, err = m.v.get(key); return err })
	return value, err
}

// GetAll is kv.Reader's.
func (m *Moment) GetAll(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		var err error
		if values[i], err = m.Get(key); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// GetRange is kv.Reader's.
func (m *Moment) GetRange(r kv.Range, o kv.RangeOptions) (pairs []kv.KeyValue, err error) {
	err = m.read(func() error {
		return m.db.scan(m.v, r, o.Reverse, func(key, value []byte) bool {
			pairs = append(pairs, kv.KeyValue{Key: key, Value: value})
			return len(pairs) != o.Limit
		})
	})
	return pairs, err
}

// Prefetch is kv.Reader's.
func (*Moment) Prefetch([][]byte, []kv.Range) {}

// Rows yields all rows of transactions in order, without copies: key and value are good until yield returns. It ends
// with the first error of yield. The store can be closed between two batches of rows, which ends it, too.
func (m *Moment) Rows(yield func(key, value []byte) error) error {
	end := []byte{0xff} // where the store's own keys begin
	for at, more := []byte(nil), true; more; {
		err := m.read(func() error {
			it, err := m.v.snapshot.NewIter(&pebble.IterOptions{LowerBound: at, UpperBound: end})
			if err != nil {
				return err
			}
			n := 0
			more = it.First()
			for ; more && n < rowsAtOnce && err == nil; more = it.Next() {
				err = yield(it.Key(), it.Value())
				n++
			}
			if more {
				at = append([]byte(nil), it.Key()...)
			}
			return errors.Join(err, it.Error(), it.Close())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rowsAtOnce is after how many rows the store may be closed.
const rowsAtOnce = 10_000
