package fakefdb

import (
	"bytes"

	"couchrelay/core/kv"
)

// trips counts the round trips of an attempt's reads, as a client of FoundationDB makes them: what was read or
// prefetched before is near. The store itself makes one for each read (Stats.Reads), so that a prefetch changes
// nothing in a run but this count.
type trips struct {
	n      int
	keys   map[string]struct{} // near
	ranges []kv.Range          // near
}

// take counts the trip that brings keys and ranges, unless all are near.
func (t *trips) take(keys [][]byte, ranges ...kv.Range) {
	far := false
	for _, key := range keys {
		if _, near := t.keys[string(key)]; near || t.covers(kv.KeyRange(key)) {
			continue
		}
		if t.keys == nil {
			t.keys = map[string]struct{}{}
		}
		t.keys[string(key)], far = struct{}{}, true
	}
	for _, r := range ranges {
		if !t.covers(r) {
			t.ranges, far = append(t.ranges, r), true
		}
	}
	if far {
		t.n++
	}
}

// covers reports whether a range that is near has all of r.
func (t *trips) covers(r kv.Range) bool {
	for _, near := range t.ranges {
		if bytes.Compare(near.Begin, r.Begin) <= 0 && bytes.Compare(r.End, near.End) <= 0 {
			return true
		}
	}
	return false
}

// TripsOf returns how many round trips a transaction of this store has taken in its present attempt; see Landing.Trips.
func TripsOf(tx kv.Tx) int { return tx.(*transaction).trips.n }

// Prefetch is kv.Reader's. It brings nothing, and is counted.
func (t *transaction) Prefetch(keys [][]byte, ranges []kv.Range) { t.trips.take(keys, ranges...) }

func (s *snapshot) Prefetch(keys [][]byte, ranges []kv.Range) { s.trips.take(keys, ranges...) }
