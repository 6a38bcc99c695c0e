//go:build fdb

package fdb

import (
	"context"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// watch is a kv.Watch. The client loses it when the storage server of its key fails or moves the key
// away, and then says so; a cluster that recovers may also forget it without a word.
type watch struct {
	future client.FutureNil
	err    error // why there is no future
}

// Watch is kv.Tx's.
func (t *transaction) Watch(key []byte) kv.Watch {
	if err := t.check(); err != nil {
		return &watch{err: err}
	}
	if _, err := t.begin(); err != nil { // what changes from now on is a change
		return &watch{err: err}
	}
	return &watch{future: t.client.Watch(client.Key(key))}
}

// Wait is kv.Watch's.
func (w *watch) Wait(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	stop := context.AfterFunc(ctx, w.future.Cancel)
	defer stop()
	err := w.future.Get()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return wrap(err)
}

// Cancel is kv.Watch's.
func (w *watch) Cancel() {
	if w.future != nil {
		w.future.Cancel()
	}
}
