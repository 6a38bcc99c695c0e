package web

import (
	"context"
	"time"

	"couchrelay/core/kv"
)

const (
	// lookAnyway is how often a request that waits looks by itself: a store may lose a watch silently.
	lookAnyway = 30 * time.Second
	// lookAgain is how often it does while it gets no watch.
	lookAgain = time.Second
)

// Wait runs look in transactions until it returns no watch, and returns what it returned then. It waits for the
// watch in between, at most as long as the request lasts.
func Wait[T any](q *Request, db kv.Database, look func(kv.Tx) (T, kv.Watch, error)) (T, error) {
	type seen struct {
		value T
		watch kv.Watch
	}
	for {
		s, err := Run(q, db, kv.Options{}, func(tx kv.Tx) (s seen, err error) {
			s.value, s.watch, err = look(tx)
			return s, err
		})
		if err != nil || s.watch == nil {
			return s.value, err
		}
		if !q.await(s.watch, lookAnyway) {
			// Without a pause this would be a busy loop: a store that has no watches left says so at once.
			q.await(nil, lookAgain)
		}
		if q.Context().Err() != nil {
			return s.value, context.Cause(q.Context())
		}
	}
}

// await waits for a watch, if there is one, or for a time. It reports false if the watch was lost.
func (q *Request) await(w kv.Watch, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(q.Context(), limit)
	defer cancel()
	if w == nil {
		<-ctx.Done()
		return true
	}
	return w.Wait(ctx) == nil || ctx.Err() != nil
}
