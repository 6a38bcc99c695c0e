package loop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/embedded"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// watching is a store that tells of its first watch.
type watching struct {
	kv.Database
	set chan struct{}
}

func (w watching) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return watchingTx{w.Database.Begin(ctx, o), w.set}
}

type watchingTx struct {
	kv.Transaction
	set chan struct{}
}

func (tx watchingTx) Watch(keys ...[]byte) kv.Watch {
	defer close(tx.set)
	return tx.Transaction.Watch(keys...)
}

// newFollower is a follower of one database, which it begins to follow. It ends with the test.
func newFollower(t *testing.T, o FollowOptions) *Follower {
	t.Helper()
	root := tuple.Subspace(tuple.Pack("test"))
	o.Store = follow.NewStore(root, jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "u"})))
	o.Worker = follow.Config{Worker: "w", Exclusive: true, Pages: follow.DefaultPages()}
	f := NewFollower(o)
	followed := []follow.Database{{Section: "s", Name: "db", URL: "http://127.0.0.1:1/db"}}
	if err := kv.Do(t.Context(), o.DB, func(tx kv.Tx) error {
		_, _, err := follow.Follow(tx, f.Store, followed, []tuple.UUID{instance}, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	go f.Run(t.Context())
	f.Configure([]string{followed[0].ID()})
	return f
}

// TestFollowerIsRefused: a run whose connections cannot be made ends with a warning, and is tried again.
func TestFollowerIsRefused(t *testing.T) {
	var log bytes.Buffer // only Run's goroutine writes into it
	wall, connects := clock.NewMock(), make(chan struct{})
	f := newFollower(t, FollowOptions{
		DB: fakefdb.New(), Clock: wall, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Connect: func(string) (*couch.Pair, error) {
			connects <- struct{}{}
			return nil, errors.New("no section [tls x]")
		},
	})
	end := time.After(20 * time.Second)
	for n := 0; n < 2; {
		select {
		case <-connects:
			n++
		case <-time.After(time.Millisecond):
			wall.Add(time.Second)
		case <-end:
			t.Fatalf("connected %d times", n)
		}
	}
	f.Drain()
	awaited(t, "the follower to leave", f.ended)
	if !regexp.MustCompile(`level=WARN .*no section \[tls x\]`).Match(log.Bytes()) {
		t.Errorf("the log says %s", &log)
	}
}

// TestFollower: a follower that leaves ends its request for changes and its wait for those of the mirror, and keeps
// nothing of its runs.
func TestFollower(t *testing.T) {
	server, asked, gone := idle(t)
	db := watching{fakefdb.New(), make(chan struct{})}
	client := couch.New(couch.Options{Version: "x"})
	defer client.Close()
	f := newFollower(t, FollowOptions{
		DB: db, Clock: clock.New(), Logger: slog.New(slog.DiscardHandler),
		Connect: func(string) (*couch.Pair, error) { return client.Pair(*replicationOf(t, server.URL)) },
	})
	awaited(t, "a long poll", asked)
	awaited(t, "a watch of the mirror", db.set)
	f.Drain()
	awaited(t, "the follower to leave", f.ended)
	awaited(t, "the end of its request", gone)
	if len(f.links) > 0 || len(f.waits) > 0 {
		t.Errorf("%d links and %d waits are left", len(f.links), len(f.waits))
	}
}

// withoutStore is a follower whose store is closed.
func withoutStore(t *testing.T, wall clock.Clock, log io.Writer) *Follower {
	t.Helper()
	db, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f := NewFollower(FollowOptions{
		DB: db, Store: follow.NewStore(nil, jobstore.New(nil, jobstore.Config{})), Clock: wall,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	f.ctx = t.Context()
	return f
}

// TestFailedTransactionOfFollower: the worker is told why a transaction failed, and not only that it did.
func TestFailedTransactionOfFollower(t *testing.T) {
	var log strings.Builder
	f := withoutStore(t, clock.New(), &log)
	go f.ask(follow.Ask{ID: 7, Request: follow.Sweep{}})
	told, is := (<-f.events).(follow.Answer)
	if !is || told.ID != 7 || told.Outcome != follow.StoreDown || told.Text != embedded.ErrClosed.Error() {
		t.Errorf("answered %+v", told)
	}
	f.DB = fakefdb.New()
	go f.ask(follow.Ask{ID: 8, Request: follow.Beat{Worker: "w"}}) // which has no lease
	if told, is := (<-f.events).(follow.Answer); !is || told.ID != 8 || told.Outcome != follow.LeaseLost {
		t.Errorf("answered %+v", told)
	}
	if strings.Count(log.String(), "follow_store_error") != 1 {
		t.Errorf("the log says %q", log.String())
	}
}

// TestFollowerWithoutStore: a run whose store is down is not told at once that its mirror may have changed, again and
// again.
func TestFollowerWithoutStore(t *testing.T) {
	wall := clock.NewMock()
	f := withoutStore(t, wall, io.Discard)
	go f.await(t.Context(), follow.Await{Run: 7})
	select {
	case ev := <-f.events:
		t.Fatalf("%v at once", ev)
	case <-time.After(50 * time.Millisecond):
	}
	for {
		wall.Add(follow.Unwatched)
		select {
		case ev := <-f.events:
			if ev != (follow.Changed{Run: 7}) {
				t.Errorf("%v", ev)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
