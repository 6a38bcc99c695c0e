//go:build fdb

package fdb

import (
	"context"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// reads are the methods that the bindings' Transaction and Snapshot have in common.
type reads interface {
	Get(client.KeyConvertible) client.FutureByteSlice
	GetRange(client.Range, client.RangeOptions) client.RangeResult
}

// Get is kv.Reader's.
func (t *transaction) Get(key []byte) ([]byte, error) { return t.get(t.client, key) }

// GetAll is kv.Reader's.
func (t *transaction) GetAll(keys [][]byte) ([][]byte, error) { return t.getAll(t.client, keys) }

// GetRange is kv.Reader's.
func (t *transaction) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return t.getRange(t.client, r, o)
}

// Snapshot is kv.Tx's.
func (t *transaction) Snapshot() kv.Reader { return snapshot{t} }

// snapshot reads without read conflicts.
type snapshot struct{ t *transaction }

func (s snapshot) Get(key []byte) ([]byte, error) { return s.t.get(s.t.client.Snapshot(), key) }

func (s snapshot) GetAll(keys [][]byte) ([][]byte, error) {
	return s.t.getAll(s.t.client.Snapshot(), keys)
}

func (s snapshot) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return s.t.getRange(s.t.client.Snapshot(), r, o)
}

func (t *transaction) get(from reads, key []byte) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	f := from.Get(client.Key(key))
	t.wait(f)
	value, err := f.Get()
	return value, t.result(err)
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
	options := client.RangeOptions{Limit: o.Limit, Reverse: o.Reverse, Mode: client.StreamingModeWantAll}
	if o.Limit > 0 {
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
