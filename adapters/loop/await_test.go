package loop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/watchers"
	"couchrelay/core/node"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAwaitWithoutWatches: a node that gets no watch does not check again at once.
func TestAwaitWithoutWatches(t *testing.T) {
	db, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(context.Background())
	err = kv.Do(ctx, db, func(tx kv.Tx) error {
		for i := range watchers.Max {
			tx.Watch(fmt.Append(nil, i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitsQuietly(ctx, cancel, t, db)
}

// TestAwaitWithoutStore: a node whose store is down is not told at once that it may look, again and again.
func TestAwaitWithoutStore(t *testing.T) {
	db, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	awaitsQuietly(ctx, cancel, t, db)
}

// TestAwaitTells: what has changed before the wait begins is told at once, with its topic.
func TestAwaitTells(t *testing.T) {
	r := newRig(t)
	for _, topic := range []node.Topic{node.ReadyJobs, node.WorkerCalls} {
		go r.Loop.await(t.Context(), node.Await{Topic: topic, Worker: "w", Seen: -1})
		if ev := <-r.events; ev != (node.Notified{Topic: topic}) {
			t.Errorf("%s: told %v", topic, ev)
		}
	}
}

// TestAwaitReplaces: a wait ends the one before of its topic, which would tell of the same changes.
func TestAwaitReplaces(t *testing.T) {
	db, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := New(Options{Clock: clock.New(), DB: db, Store: jobstore.New(nil, jobstore.Config{})})
	l.ctx = ctx
	var ended []node.Topic
	for i := range l.waits {
		topic := node.Topic(i)
		l.waits[topic] = func() { ended = append(ended, topic) }
	}
	l.perform(node.Await{Topic: node.ReadyJobs})
	if !slices.Equal(ended, []node.Topic{node.ReadyJobs}) {
		t.Errorf("ended %v", ended)
	}
}

// awaitsQuietly fails when an Await is answered before its context ends.
func awaitsQuietly(ctx context.Context, cancel func(), t *testing.T, db kv.Database) {
	t.Helper()
	l := New(Options{Clock: clock.New(), DB: db, Store: jobstore.New(nil, jobstore.Config{})})
	l.ctx = ctx
	ended := make(chan struct{})
	go func() {
		l.await(ctx, node.Await{Topic: node.ReadyJobs})
		close(ended)
	}()
	select {
	case ev := <-l.events:
		cancel()
		t.Fatalf("%v before there was anything to tell", ev)
	case <-time.After(50 * time.Millisecond):
	}
	cancel() // as when another wait takes its place: then there is nothing to tell
	<-ended
	if len(l.events) > 0 {
		t.Errorf("%v of a wait that was replaced", <-l.events)
	}
}
