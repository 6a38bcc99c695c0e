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
	futures []client.FutureNil // one for each key
	err     error              // why there are no futures; nil if there are some
}

// Watch is kv.Tx's.
func (t *transaction) Watch(keys ...[]byte) kv.Watch {
	if err := t.check(); err != nil {
		return &watch{err: err}
	}
	if _, err := t.begin(); err != nil { // a change counts from the read version on, so there must be one
		return &watch{err: err}
	}
	w := &watch{}
	for _, key := range keys {
		w.futures = append(w.futures, t.client.Watch(client.Key(key)))
	}
	return w
}

// Wait is kv.Watch's. The first key that changes, or whose watch is lost, ends the watches of the others.
func (w *watch) Wait(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	stop := context.AfterFunc(ctx, w.Cancel)
	defer stop()
	ends := make(chan error, len(w.futures))
	for _, f := range w.futures {
		go func() { ends <- f.Get() }()
	}
	err := <-ends
	w.Cancel()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return wrap(err)
}

// Cancel is kv.Watch's.
func (w *watch) Cancel() {
	for _, f := range w.futures {
		f.Cancel()
	}
}
