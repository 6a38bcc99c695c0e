package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// stuck is a store that does not answer reads, or commits, before the context ends.
type stuck struct {
	kv.Database
	reads, commits bool
}

type stuckTx struct {
	kv.Transaction
	s   *stuck
	ctx context.Context
}

func (s *stuck) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return stuckTx{s.Database.Begin(ctx, o), s, ctx}
}

func (tx stuckTx) Get(key []byte) ([]byte, error) {
	if tx.s.reads {
		<-tx.ctx.Done()
		return nil, tx.ctx.Err()
	}
	return tx.Transaction.Get(key)
}

func (tx stuckTx) Commit() error {
	if tx.s.commits {
		<-tx.ctx.Done()
		return tx.ctx.Err()
	}
	return tx.Transaction.Commit()
}

// TestStoreThatIsAway: a request that needs the store is refused as soon as the store is known to be away, or
// after a few seconds, and is told whether it may have changed something. One that needs no store is
// answered.
func TestStoreThatIsAway(t *testing.T) {
	away := errors.Join(kv.ErrUnavailable, errors.New("switched off"))
	store := &stuck{Database: fakefdb.New()}
	work := func(q *Request) error {
		_, err := Run(q, store, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
			_, err := tx.Get([]byte("k"))
			tx.Set([]byte("k"), nil)
			return struct{}{}, err
		})
		if err != nil {
			return err
		}
		return q.SendJSON(http.StatusOK, OK)
	}
	for _, c := range []struct {
		name, request  string
		reads, commits bool
		leaves         time.Duration // when the store is known to be away
		status         int
		after          time.Duration
		reason         string
		doubt          bool
	}{
		{"there", "PUT /store", false, false, time.Hour, 200, 0, "", false},
		{"away before", "PUT /store", true, true, 0, 503, 0, "switched off", false},
		{"away before, not needed", "GET /none", true, true, 0, 200, 0, "", false},
		{"away before, without Run", "GET /work", true, true, 0, 503, 0, "switched off", false},
		{"away during a read", "GET /store", true, true, time.Second, 503, time.Second, "switched off", false},
		{"away during the commit", "PUT /store", false, true, time.Second, 503, time.Second, "switched off", true},
		{"away, nothing to write", "GET /store", false, true, time.Second, 503, time.Second, "switched off", false},
		{"does not answer", "PUT /store", true, true, time.Hour, 503, Patience, "did not answer in 8s", false},
		{"does not acknowledge", "PUT /store", false, true, time.Hour, 503, Patience, "did not answer in 8s", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			available, leave := context.WithCancelCause(t.Context())
			store.reads, store.commits = c.reads, c.commits
			if c.leaves == 0 {
				leave(away)
			}
			timer := time.AfterFunc(c.leaves, func() { leave(away) })
			defer timer.Stop()
			h := WhileAvailable(func() context.Context { return available }, NewRouter(nil, []Route{
				{Method: Any, Path: "/store", Handler: work},
				{Method: "GET", Path: "/work", Handler: func(q *Request) error {
					<-q.Context().Done()
					return fmt.Errorf("at work: %w", q.Context().Err())
				}},
				{Method: "GET", Path: "/none", Handler: func(q *Request) error { return q.SendJSON(200, OK) }},
			}))
			method, path, _ := strings.Cut(c.request, " ")
			began, w := time.Now(), httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
			body := w.Body.String()
			if w.Code != c.status || time.Since(began) != c.after || !strings.Contains(body, c.reason) {
				t.Errorf("%s: %d %s after %s", c.name, w.Code, body, time.Since(began))
			}
			refused := strings.Contains(body, `"service_unavailable"`)
			if refused != (w.Code == 503) || refused != (w.Header().Get("Retry-After") == "5") {
				t.Errorf("%s: %v %s", c.name, w.Header(), body)
			}
			if strings.Contains(body, "look before you repeat it") != c.doubt {
				t.Errorf("%s: %s", c.name, body)
			}
		})
	}
}

// TestClientGoes: a request whose client has gone is no outage.
func TestClientGoes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := &stuck{Database: fakefdb.New(), reads: true}
	read := func(q *Request) error {
		_, err := Run(q, store, kv.Options{}, func(tx kv.Tx) ([]byte, error) { return tx.Get(nil) })
		return err
	}
	h := WhileAvailable(context.Background, NewRouter(nil, []Route{{Method: "GET", Path: "/", Handler: read}}))
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler {
			t.Errorf("recovered %v", cause)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
}
