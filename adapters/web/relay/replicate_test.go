package relay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

const oneShot = `{"source":"http://h/a","target":"http://h/b"}`

// TestHalfClosedConnection: who stops sending and goes on listening is not told that a replication is done
// which is not.
func TestHalfClosedConnection(t *testing.T) {
	s := newService(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "POST /_replicate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(oneShot), oneShot)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		body, _ := io.ReadAll(answer.Body)
		t.Errorf("answered %s %q", answer.Status, body)
	}
}

// fullOfWatches is a store that takes no more watches.
type fullOfWatches struct {
	kv.Database
	begun *atomic.Int64
}

type withoutWatches struct{ kv.Transaction }

type noWatch struct{}

func (f fullOfWatches) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	f.begun.Add(1)
	return withoutWatches{f.Database.Begin(ctx, o)}
}

func (withoutWatches) Watch(...[]byte) kv.Watch { return noWatch{} }

func (noWatch) Wait(context.Context) error { return kv.NewError(kv.TooManyWatches) }
func (noWatch) Cancel()                    {}

// TestWaitingWithoutWatches: a request that gets no watch looks at its job now and then, not all the time, and
// so does a feed.
func TestWaitingWithoutWatches(t *testing.T) {
	var begun atomic.Int64
	s := newService(t, func(o *Options) { o.DB = fullOfWatches{o.DB, &begun} })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	for _, request := range []string{
		"POST /_replicate " + oneShot, "GET /_replicator/_changes?feed=longpoll&timeout=400",
	} {
		begun.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for begun.Load() == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second / 2)
			cancel()
		}()
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		began := time.Now()
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		cancel()
		n, took := begun.Load(), time.Since(began)
		if n > 4+int64(took.Seconds()) || took < time.Second/4 { // once a second
			t.Errorf("%s: %d transactions in %s", request, n, took)
		}
	}
}

// TestWaitingIsIdle: a request that waits does not look at its job meanwhile, and is answered as soon as the job is
// over.
func TestWaitingIsIdle(t *testing.T) {
	var begun atomic.Int64
	waits := make(chan struct{}, 10)
	var db kv.Database
	var store *jobstore.Store
	s := newService(t, func(o *Options) { db, store = o.DB, o.Store; o.DB = counting{o.DB, &begun, waits} })
	answer := make(chan int)
	go func() {
		r, err := http.Post(s.URL+"/_replicate", "application/json", strings.NewReader(oneShot))
		if err != nil {
			answer <- 0
			return
		}
		r.Body.Close()
		answer <- r.StatusCode
	}()
	select {
	case <-waits:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not wait")
	}
	begun.Store(0)
	time.Sleep(1500 * time.Millisecond)
	if n := begun.Load(); n > 0 {
		t.Errorf("%d transactions while it waits", n)
	}
	err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		list, err := store.Jobs.List(tx, jobs.Page{Limit: 1})
		if err != nil {
			return err
		}
		return store.Cancel(tx, list[0].ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-answer:
		if status != http.StatusNotFound {
			t.Errorf("answered %d", status)
		}
	case <-time.After(20 * time.Second):
		t.Error("not answered")
	}
}

// counting is a store that counts transactions, and tells when a watch is waited for.
type counting struct {
	kv.Database
	begun *atomic.Int64
	waits chan<- struct{}
}

type telling struct {
	kv.Transaction
	waits chan<- struct{}
}

type tellingWatch struct {
	kv.Watch
	waits chan<- struct{}
}

func (c counting) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	c.begun.Add(1)
	return telling{c.Database.Begin(ctx, o), c.waits}
}

func (tx telling) Watch(keys ...[]byte) kv.Watch {
	return tellingWatch{tx.Transaction.Watch(keys...), tx.waits}
}

func (w tellingWatch) Wait(ctx context.Context) error {
	w.waits <- struct{}{}
	return w.Watch.Wait(ctx)
}

// TestWaitingNeedsNoBody: a request that waits for its replication, maybe for hours, takes no memory for bodies from
// others.
func TestWaitingNeedsNoBody(t *testing.T) {
	s := newService(t, func(o *Options) { o.Limits = func() web.Limits { return web.Limits{Memory: 150_000} } })
	long := strings.Repeat("x", 100_000)
	ask := func(ctx context.Context, source string) (answered string) {
		body := `{"source":"http://h/` + source + `","target":"http://h/b","doc_ids":["` + long + `"]}`
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/_replicate", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return ""
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		return answer.Status
	}
	ctx, leave := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		if answered := ask(ctx, "1"); answered != "" {
			t.Errorf("the first is answered %s", answered)
		}
	})
	for !strings.Contains(s.Text(s.Ask("GET /_scheduler/jobs")), `"total_rows":1,`) && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	answered := "not"
	for end := time.Now().Add(20 * time.Second); answered != "" && time.Now().Before(end); {
		short, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		answered = ask(short, "2") // which may come before the first gives its memory back
		leave()
	}
	if answered != "" {
		t.Errorf("while it waits the second is answered %s", answered)
	}
	leave()
	first.Wait()
}
