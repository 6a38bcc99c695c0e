package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"couchrelay/core/kv"
)

// Patience is how long a transaction of a request may take, its repetitions included. It is more than the
// store gives one attempt, so only a store that does not answer, or is very busy, exhausts it. Tests that ask for
// much have more of it: a machine may be slow.
var Patience = 8 * time.Second

var errSlow = fmt.Errorf("%w: it did not answer in %s", kv.ErrUnavailable, Patience)

// WhileAvailable returns a handler that ends the contexts of requests when the store goes away. available
// returns a context that lasts as long as the store is there, with a cause that has kv.ErrUnavailable in its
// chain; it has ended while the store is away, and a request that arrives then begins with an ended context.
// It goes as far as it needs no transaction.
func WhileAvailable(available func() context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		store := available()
		if store.Err() != nil {
			cancel(context.Cause(store)) // AfterFunc would do it a moment later
		}
		defer context.AfterFunc(store, func() { cancel(context.Cause(store)) })()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Run runs fn in a transaction for a request, as kv.RunWith does. It gives up when the store goes away or
// does not answer, with kv.ErrUnavailable in the error's chain.
func Run[T any](q *Request, db kv.Database, o kv.Options, fn func(kv.Tx) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(q.Context(), Patience, errSlow)
	defer cancel()
	result, err := kv.RunWith(ctx, db, o, func(tx kv.Tx) (T, error) {
		result, err := fn(tx)
		q.sent = q.sent || err == nil && q.Method != http.MethodGet && q.Method != http.MethodHead
		return result, err
	})
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return result, err
}

// retryAfter is the time in seconds after which a client should come again that was told of a store which
// does not answer.
const retryAfter = "5"

// SendUnavailable answers 503 with a value that says why.
func (q *Request) SendUnavailable(value any) error {
	q.W.Header().Set("Retry-After", retryAfter)
	return q.SendJSON(http.StatusServiceUnavailable, value)
}

// inDoubt is what a client is told whose request may have changed something before the store went away.
const inDoubt = "; the request may have been carried out, wholly or in part: look before you repeat it " +
	"(documents that are written with their _rev need no look)"
