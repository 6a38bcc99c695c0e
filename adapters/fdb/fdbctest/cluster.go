//go:build fdbctest

package fdbctest

import (
	"context"
	"sync"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/fakefdb"
)

// Cluster is the cluster behind a cluster file: a store in memory that can go away and misbehave.
type Cluster struct {
	DB *fakefdb.Database

	mu     sync.Mutex                       // guards the fields below
	now    instant.Time                     // the cluster's clock; Advance moves it
	decide func(fakefdb.Op) fakefdb.Outcome // how operations fare, nil for well
	here   chan struct{}                    // closed while the cluster answers
	given  int                              // see ReadVersionsGiven
	trips  map[string]int                   // by tag, see RoundTrips
}

var (
	clustersLock sync.Mutex
	clusters     = map[string]*Cluster{} // by path of the cluster file; guarded by clustersLock
)

// NewCluster puts a new, empty cluster behind the path of a cluster file. The client opens it by that path;
// the contents of the file are not read.
func NewCluster(path string) *Cluster {
	c := &Cluster{now: instant.Seconds(1_000_000), here: make(chan struct{}), trips: map[string]int{}}
	close(c.here)
	c.DB = fakefdb.New(fakefdb.InWorld((*world)(c)))
	clustersLock.Lock()
	defer clustersLock.Unlock()
	clusters[path] = c
	return c
}

// Leave makes the cluster unreachable: operations that need it wait, as with the real client.
func (c *Cluster) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here = make(chan struct{})
}

// Return makes it reachable again.
func (c *Cluster) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.here)
}

// Advance moves the cluster's clock.
func (c *Cluster) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Decide makes f decide how operations fare; nil lets all succeed. Many goroutines call f, one at a time.
func (c *Cluster) Decide(f func(fakefdb.Op) fakefdb.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide = f
}

// ReadVersionsGiven counts the attempts whose read version came from the caller.
func (c *Cluster) ReadVersionsGiven() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given
}

// world is the cluster as the store's world: with real goroutines, and a clock that only tests and operations
// move.
type world Cluster

func (w *world) Now() instant.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	return w.now
}

func (w *world) Decide(op fakefdb.Op) fakefdb.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.here:
	default:
		if op.Kind != fakefdb.BackOff && op.Kind != fakefdb.StartWatch {
			return fakefdb.Outcome{Fault: fakefdb.Outage}
		}
	}
	if w.decide == nil {
		return fakefdb.Outcome{}
	}
	return w.decide(op)
}

func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	here := w.here
	w.mu.Unlock()
	select {
	case <-here:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) Await(ctx context.Context, arm func(wake func())) error {
	done := make(chan struct{})
	arm(sync.OnceFunc(func() { close(done) }))
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) After(d time.Duration, f func()) {
	go func() {
		_ = w.Sleep(context.Background(), d)
		f()
	}()
}
