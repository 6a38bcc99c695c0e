//go:build fdb

package fdb

import (
	"context"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// watch is a kv.Watch. It may end without a change, and it may also be lost without an end. When the key's
// storage server fails or hands the key over, the client ends the watch with an error. A cluster that
// recovers may forget it silently, so callers bound Wait with a context and read the key again.
type watch struct {
	future client.FutureNil
	err    error // why there is no future; nil if there is one
}

// Watch is kv.Tx's.
func (t *transaction) Watch(key []byte) kv.Watch {
	if err := t.check(); err != nil {
		return &watch{err: err}
	}
	if _, err := t.begin(); err != nil { // a change counts from the read version on, so there must be one
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
