//go:build fdb

package fdb

import (
	"context"
	"math"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// reads are the methods that the bindings' Transaction and Snapshot have in common.
type reads interface {
	Get(client.KeyConvertible) client.FutureByteSlice
	GetRange(client.Range, client.RangeOptions) client.RangeResult
}

// Get is kv.Reader's.
func (t *transaction) Get(key []byte) ([]byte, error) {
	return only(t.getAll(t.client, [][]byte{key}))
}

// GetAll is kv.Reader's.
func (t *transaction) GetAll(keys [][]byte) ([][]byte, error) { return t.getAll(t.client, keys) }

// GetRange is kv.Reader's.
func (t *transaction) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return t.getRange(t.client, r, o)
}

// Prefetch is kv.Reader's. FoundationDB's client keeps what a transaction has read, absent keys and the gaps of
// ranges included (SnapshotCache.h). Later reads, with and without conflicts, ask the cluster only for what is
// missing in that cache. So the results of the reads here are thrown away.
//
// A read that fails makes the commit fail with its error. That is right for errors of the cluster, but a
// key with a pending versionstamp may be read by mistake: after the first such write there is no prefetch.
func (t *transaction) Prefetch(keys [][]byte, ranges []kv.Range) {
	if t.stamping || t.check() != nil {
		return
	}
	if _, err := t.begin(); err != nil {
		return // the next read fails too, or tries again
	}
	from := t.client.Snapshot()
	futures := make([]client.FutureByteSlice, len(keys))
	for i, key := range keys {
		futures[i] = from.Get(client.Key(key))
	}
	var batches []*client.RangeIterator // each has its first batch under way
	for _, r := range ranges {
		if !r.Empty() {
			found := from.GetRange(keyRange(r), client.RangeOptions{Mode: client.StreamingModeWantAll})
			batches = append(batches, found.Iterator())
		}
	}
	stop := context.AfterFunc(t.ctx, t.client.Cancel) // see getRange
	for _, b := range batches {
		b.Advance()
	}
	stop()
	for _, f := range futures {
		t.wait(f)
		_, _ = f.Get()
	}
}

// Snapshot is kv.Tx's.
func (t *transaction) Snapshot() kv.Reader { return snapshot{t} }

// snapshot reads without read conflicts.
type snapshot struct{ t *transaction }

func (s snapshot) Get(key []byte) ([]byte, error) {
	return only(s.t.getAll(s.t.client.Snapshot(), [][]byte{key}))
}

func (s snapshot) GetAll(keys [][]byte) ([][]byte, error) {
	return s.t.getAll(s.t.client.Snapshot(), keys)
}

func (s snapshot) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return s.t.getRange(s.t.client.Snapshot(), r, o)
}

func (s snapshot) Prefetch(keys [][]byte, ranges []kv.Range) { s.t.Prefetch(keys, ranges) }

// only is the value of a single key.
func only(values [][]byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// getAll asks for all values before it waits for the first, so they take one round trip together. It waits
// for all of them even if one fails: futures must not outlive the call.
func (t *transaction) getAll(from reads, keys [][]byte) ([][]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	futures := make([]client.FutureByteSlice, len(keys))
	for i, key := range keys {
		futures[i] = from.Get(client.Key(key))
	}
	values := make([][]byte, len(keys))
	var failed error
	for i, f := range futures {
		t.wait(f)
		value, err := f.Get()
		if values[i] = value; err != nil && failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, t.result(failed)
	}
	return values, nil
}

// getRange reads a range. It waits for the read version first. The bindings hide the futures of a range, so
// the end of the context can only cancel the transaction, and that has an effect once the client has found a
// cluster (see wait), which a read version proves.
func (t *transaction) getRange(from reads, r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if _, err := t.begin(); err != nil {
		return nil, err
	}
	options := client.RangeOptions{Reverse: o.Reverse, Mode: client.StreamingModeWantAll}
	if o.Limit > 0 {
		options.Limit = min(o.Limit, math.MaxInt32) // a C.int in the bindings, where more would be negative
		options.Mode = client.StreamingModeExact
	}
	stop := context.AfterFunc(t.ctx, t.client.Cancel)
	found, err := from.GetRange(keyRange(r), options).GetSliceWithError()
	stop()
	if err != nil {
		return nil, t.result(err)
	}
	var pairs []kv.KeyValue
	for _, p := range found {
		pairs = append(pairs, kv.KeyValue{Key: p.Key, Value: p.Value})
	}
	return pairs, nil
}
