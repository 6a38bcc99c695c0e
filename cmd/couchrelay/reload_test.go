package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/kv"
)

// silentStore is a store that can stop to answer, as a cluster does.
type silentStore struct {
	store
	silent *atomic.Bool
}

func (s silentStore) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	for s.silent.Load() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return s.store.Begin(ctx, o)
}

// TestReloadWithoutStore: a reload by a signal ends although the store does not answer, so that the node can be put
// into maintenance then.
func TestReloadWithoutStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, open := silentStore{silent: &atomic.Bool{}}, r.open
	r.open = func() store { s.store = open(); return s }
	r.restartAs("0123456789abcdef")
	s.silent.Store(true)
	defer s.silent.Store(false)
	ended := make(chan error, 1)
	go func() { ended <- r.svc.ReloadConfig(context.Background()) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("reloaded without the store")
		}
	case <-time.After(changeTime + 10*time.Second):
		t.Error("the reload goes on for ever")
	}
}
