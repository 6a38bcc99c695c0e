package fakefdb

import (
	"fmt"
	"strings"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Pairs returns the present contents in order. The slices belong to the store.
func (db *Database) Pairs() []kv.KeyValue {
	db.mu.Lock()
	defer db.mu.Unlock()
	var pairs []kv.KeyValue
	everything := kv.Range{End: []byte{0xff}}
	db.data.scan(everything, db.last, false, func(key, value []byte) bool {
		pairs = append(pairs, kv.KeyValue{Key: key, Value: value})
		return true
	})
	return pairs
}

// Present returns a reader of the present contents. It reads outside of all transactions, takes no time and
// cannot fail.
func (db *Database) Present() kv.Reader { return present{db} }

type present struct{ db *Database }

// Get is kv.Reader's.
func (p present) Get(key []byte) ([]byte, error) {
	p.db.mu.Lock()
	defer p.db.mu.Unlock()
	return p.db.data.latest(key), nil
}

// GetAll is kv.Reader's.
func (p present) GetAll(keys [][]byte) ([][]byte, error) {
	p.db.mu.Lock()
	defer p.db.mu.Unlock()
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = p.db.data.latest(key)
	}
	return values, nil
}

// GetRange is kv.Reader's.
func (p present) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	p.db.mu.Lock()
	defer p.db.mu.Unlock()
	var pairs []kv.KeyValue
	p.db.data.scan(r, p.db.last, o.Reverse, func(key, value []byte) bool {
		pairs = append(pairs, kv.KeyValue{Key: key, Value: value})
		return o.Limit == 0 || len(pairs) < o.Limit
	})
	return pairs, nil
}

// Prefetch is kv.Reader's.
func (p present) Prefetch([][]byte, []kv.Range) {}

// Dump prints the present contents for messages of failing tests: a pair on each line, keys as tuples if they
// are.
func (db *Database) Dump() string {
	var b strings.Builder
	for _, p := range db.Pairs() {
		if t, err := tuple.Unpack(p.Key); err == nil {
			fmt.Fprintf(&b, "%v = %q\n", t, p.Value)
		} else {
			fmt.Fprintf(&b, "%q = %q\n", p.Key, p.Value)
		}
	}
	return b.String()
}
