package fakefdb

import (
	"fmt"
	"strings"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Pairs is the present contents, in order. The slices belong to the store.
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

// Dump prints the present contents, a pair on each line, keys as tuples where they are, for the
// messages of failing tests.
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
