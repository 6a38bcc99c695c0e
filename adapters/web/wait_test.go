package web

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// waitsFor is a watch that fires after a time, or fails at once.
type waitsFor struct {
	after time.Duration
	err   error
}

func (w waitsFor) Wait(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	ctx, cancel := context.WithTimeout(ctx, w.after)
	defer cancel()
	<-ctx.Done()
	if context.Cause(ctx) == context.DeadlineExceeded && w.after < lookAnyway {
		return nil
	}
	return ctx.Err()
}

func (waitsFor) Cancel() {}

// TestWait: a request looks again when its watch fires, seldom when that is lost silently, and now and then without
// one; it does not outlive its client.
func TestWait(t *testing.T) {
	full := kv.NewError(kv.TooManyWatches)
	for name, c := range map[string]struct {
		watch kv.Watch
		limit time.Duration // of the client's patience
		looks int           // until the request has what it waits for; 0 for never
		took  time.Duration
	}{
		"at once":          {nil, time.Hour, 1, 0},
		"told":             {waitsFor{after: 5 * time.Second}, time.Hour, 3, 10 * time.Second},
		"lost":             {waitsFor{after: time.Hour}, time.Hour, 3, 2 * lookAnyway},
		"none left":        {waitsFor{err: full}, time.Hour, 5, 4 * lookAgain},
		"client leaves":    {waitsFor{after: time.Hour}, 5 * time.Second, 0, 5 * time.Second},
		"leaves, no watch": {waitsFor{err: full}, 2500 * time.Millisecond, 0, 2500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			q := &Request{Request: httptest.NewRequestWithContext(ctx, "GET", "/", nil)}
			looks, began := 0, time.Now()
			got, err := Wait(q, fakefdb.New(), func(kv.Tx) (int, kv.Watch, error) {
				if looks++; looks == c.looks {
					return looks, nil, nil
				}
				return looks, c.watch, nil
			})
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: took %s", name, took)
			}
			if left := errors.Is(err, context.DeadlineExceeded); left != (c.looks == 0) || !left && got != c.looks {
				t.Errorf("%s: %d, %v", name, got, err)
			}
		})
	}
}
