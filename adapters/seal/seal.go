package seal

import (
	"bytes"
	"cmp"
	"context"

	"couchrelay/core/kv"
)

// Database is a kv.Database that seals the values of some rows of another one. Those rows are written with Set alone,
// and hold Overhead bytes less than kv.MaxValueSize. What other operations write is not sealed.
type Database struct {
	kv.Database
	Ring *Ring
	rows Rows
}

var _ kv.Database = (*Database)(nil)

// New returns the database around db, with a ring that has no keys yet.
func New(db kv.Database, rows Rows) *Database {
	return &Database{Database: db, Ring: &Ring{}, rows: rows}
}

// Begin is kv.Database's.
func (db *Database) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return &transaction{Transaction: db.Database.Begin(ctx, o), db: db}
}

// transaction seals and opens the values of one transaction of the store.
type transaction struct {
	kv.Transaction
	db   *Database
	lost error // of the first value that did not open; the commit returns it
}

// open returns a value as it was before it was sealed.
func (t *transaction) open(key, value []byte) ([]byte, error) {
	if value == nil || !t.db.rows.Sealed(key) {
		return value, nil
	}
	plain, err := t.db.Ring.open(t.db.rows.name(key), value)
	if err != nil {
		err = &kv.UnreadableError{Key: bytes.Clone(key), Err: err}
	}
	t.lost = cmp.Or(t.lost, err)
	return plain, err
}

// Set is kv.Tx's.
func (t *transaction) Set(key, value []byte) {
	if t.db.rows.Sealed(key) {
		value = t.db.Ring.seal(t.db.rows.name(key), value)
	}
	t.Transaction.Set(key, value)
}

// Get is kv.Reader's.
func (t *transaction) Get(key []byte) ([]byte, error) { return opened{t.Transaction, t}.Get(key) }

// GetAll is kv.Reader's.
func (t *transaction) GetAll(keys [][]byte) ([][]byte, error) {
	return opened{t.Transaction, t}.GetAll(keys)
}

// GetRange is kv.Reader's.
func (t *transaction) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return opened{t.Transaction, t}.GetRange(r, o)
}

// Snapshot is kv.Tx's.
func (t *transaction) Snapshot() kv.Reader { return opened{t.Transaction.Snapshot(), t} }

// Commit is kv.Transaction's.
func (t *transaction) Commit() error {
	if t.lost != nil {
		return t.lost
	}
	return t.Transaction.Commit()
}

// OnError is kv.Transaction's.
func (t *transaction) OnError(err error) error {
	err = t.Transaction.OnError(err)
	if err == nil {
		t.lost = nil
	}
	return err
}

// opened is a reader of a transaction's rows that opens what is sealed.
type opened struct {
	kv.Reader
	t *transaction
}

func (r opened) Get(key []byte) ([]byte, error) {
	value, err := r.Reader.Get(key)
	if err != nil {
		return nil, err
	}
	return r.t.open(key, value)
}

func (r opened) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := r.Reader.GetAll(keys)
	if err != nil {
		return nil, err
	}
	for i, value := range values {
		if values[i], err = r.t.open(keys[i], value); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (r opened) GetRange(in kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	pairs, err := r.Reader.GetRange(in, o)
	if err != nil {
		return nil, err
	}
	for i, p := range pairs {
		if pairs[i].Value, err = r.t.open(p.Key, p.Value); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// Rows says which rows of a store are sealed.
type Rows struct {
	// Root is the beginning of the keys of the service. It is no part of what binds a value to its row, so a store may
	// be restored below another one.
	Root []byte
	// Sealed reports whether the value of a row is sealed.
	Sealed func(key []byte) bool
}

// name is what binds a value to its row.
func (r Rows) name(key []byte) []byte { return bytes.TrimPrefix(key, r.Root) }
