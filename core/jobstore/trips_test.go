package jobstore

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// travelling is a reader that counts round trips: reads of what the transaction has not read, named or written before.
type travelling struct {
	kv.Reader
	near  []kv.Range
	trips int
}

func (r *travelling) trip(keys [][]byte, ranges ...kv.Range) {
	for _, key := range keys {
		ranges = append(ranges, kv.KeyRange(key))
	}
	far := false
	for _, at := range ranges {
		within := func(n kv.Range) bool {
			return bytes.Compare(n.Begin, at.Begin) <= 0 && bytes.Compare(at.End, n.End) <= 0
		}
		if !slices.ContainsFunc(r.near, within) {
			far, r.near = true, append(r.near, at)
		}
	}
	if far {
		r.trips++
	}
}

func (r *travelling) Get(key []byte) ([]byte, error) {
	r.trip([][]byte{key})
	return r.Reader.Get(key)
}

func (r *travelling) GetAll(keys [][]byte) ([][]byte, error) {
	r.trip(keys)
	return r.Reader.GetAll(keys)
}

func (r *travelling) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	r.trip(nil, at)
	return r.Reader.GetRange(at, o)
}

func (r *travelling) Prefetch(keys [][]byte, ranges []kv.Range) {
	r.trip(keys, slices.Clone(ranges)...)
}

// TestRoundTripsOfCheck: a check in pages takes a few round trips for each page, not some for each row.
func TestRoundTripsOfCheck(t *testing.T) {
	b := newFullBench(t)
	for i := range 60 {
		b.put(fmt.Sprint("many", i), fmt.Sprintf(`{"source":"http://h/a","target":"http://t/b%d"}`, i), admin)
	}
	rows := get(b, func(tx kv.Tx) (int, error) {
		all, err := tx.GetRange(kv.PrefixRange(tuple.Pack("test")), kv.RangeOptions{})
		return len(all), err
	})
	r := &travelling{Reader: b.db.Present()}
	if found := b.check(false, r); len(found) > 0 || r.trips > rows/10 {
		t.Errorf("%d rows take %d round trips; found %v", rows, r.trips, found)
	}
}

// travellingTx is a transaction that counts the round trips of its reads.
type travellingTx struct {
	kv.Tx
	reads *travelling
}

func (t travellingTx) Get(key []byte) ([]byte, error)            { return t.reads.Get(key) }
func (t travellingTx) GetAll(keys [][]byte) ([][]byte, error)    { return t.reads.GetAll(keys) }
func (t travellingTx) Snapshot() kv.Reader                       { return t.reads }
func (t travellingTx) Prefetch(keys [][]byte, ranges []kv.Range) { t.reads.Prefetch(keys, ranges) }
func (t travellingTx) Set(key, value []byte) {
	t.reads.near = append(t.reads.near, kv.KeyRange(key))
	t.Tx.Set(key, value)
}

func (t travellingTx) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return t.reads.GetRange(r, o)
}

// TestRoundTripsOfWrite: a write of many documents takes as many round trips as one of few, also where each of them
// has another replication than its job has claimed.
func TestRoundTripsOfWrite(t *testing.T) {
	body := `{"source":"http://h/%d","target":"http://t/%s"}`
	trips := func(n int) int {
		b := newBench(t)
		for i := range n {
			b.put(fmt.Sprint("r", i), fmt.Sprintf(body, i, "before"), admin)
			if err := b.claim(b.accept(), fmt.Sprint("claimed", i)); err != nil {
				t.Fatal(err)
			}
		}
		edits := make([]docs.Edit, n)
		for i := range edits {
			id := fmt.Sprint("r", i)
			rev := get(b, func(tx kv.Tx) (revtree.Rev, error) {
				db, err := b.s.Docs.Open(tx, "_replicator")
				if err != nil {
					return revtree.Rev{}, err
				}
				old, err := db.Read(id, docs.Want{})
				return old.Rev, err
			})
			edits[i] = docs.Edit{Token: uint64(i + 1),
				Document: docs.Document{ID: id, Rev: rev, Body: fmt.Appendf(nil, body, i, "after")}}
		}
		r := &travelling{}
		b.do1(func(tx kv.Tx) error {
			r.Reader = tx
			db, err := b.s.Docs.Open(travellingTx{tx, r}, "_replicator")
			if err != nil {
				return err
			}
			written, err := b.s.WriteDocs(travellingTx{tx, r}, db, edits, admin, b.now)
			for i := range written {
				if !written[i].Changed {
					t.Errorf("not written: %+v", written[i])
				}
			}
			return err
		})
		return r.trips
	}
	if few, many := trips(2), trips(20); many > few {
		t.Errorf("20 documents take %d round trips, and 2 take %d", many, few)
	}
}
