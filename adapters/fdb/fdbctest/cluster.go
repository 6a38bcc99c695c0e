//go:build fdb && fdbctest

package fdbctest

import (
	"context"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/prng"
	"couchrelay/sim/fakefdb"
)

// Cluster is the cluster behind a cluster file: a store in memory that can go away and misbehave.
type Cluster struct {
	DB *fakefdb.Database

	mu      sync.Mutex                       // guards the fields below
	now     instant.Time                     // the cluster's clock; Advance moves it
	decide  func(fakefdb.Op) fakefdb.Outcome // how operations fare, nil for well
	gone    []fakefdb.Kind                   // operations that the cluster does not answer
	here    chan struct{}                    // closed while there are none of those
	waits   func()                           // called by an operation that begins to wait for the cluster
	given   int                              // see ReadVersionsGiven
	trips   map[string]int                   // by tag, see RoundTrips
	buggify *prng.Source                     // of the faults that the client injects; nil for none
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
	if _, on := os.LookupEnv(Buggify); on {
		r := prng.Fork(uint64(len(clusters)), "client buggify")
		c.buggify = &r
	}
	clusters[path] = c
	return c
}

// Buggify is the variable of the environment that tells the client to inject faults. Clusters of the double that
// are made while it is set inject some of the client's, one in ten operations.
const Buggify = "FDB_NETWORK_OPTION_CLIENT_BUGGIFY_ENABLE"

// injected are the faults that the client injects when it is told to.
var injected = map[fakefdb.Kind][]fakefdb.Fault{
	fakefdb.Read: {fakefdb.TooOldEarly, fakefdb.FutureVersion},
	fakefdb.Commit: {fakefdb.Conflict, fakefdb.CommitTooOld, fakefdb.ProxyMemory, fakefdb.UnknownDropped,
		fakefdb.UnknownLanded},
}

// Leave makes the cluster answer no more operations of some kinds, or of all kinds when none is named: they
// wait, as with the real client. The channel is closed once the first of them waits.
func (c *Cluster) Leave(kinds ...fakefdb.Kind) <-chan struct{} {
	if len(kinds) == 0 {
		kinds = []fakefdb.Kind{fakefdb.ReadVersion, fakefdb.Read, fakefdb.Commit}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone, c.here = kinds, make(chan struct{})
	waiting := make(chan struct{})
	c.waits = sync.OnceFunc(func() { close(waiting) })
	return waiting
}

// Return makes it reachable again.
func (c *Cluster) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = nil
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
	if slices.Contains(w.gone, op.Kind) {
		return fakefdb.Outcome{Fault: fakefdb.Outage, Before: whileAway}
	}
	if w.decide == nil {
		if of := injected[op.Kind]; w.buggify != nil && len(of) > 0 && w.buggify.Intn(10) == 0 {
			return fakefdb.Outcome{Fault: of[w.buggify.Intn(len(of))]}
		}
		return fakefdb.Outcome{}
	}
	return w.decide(op)
}

// whileAway is how long an operation waits that meets an outage.
const whileAway = time.Duration(math.MaxInt64)

func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	switch {
	case d == 0, d != whileAway && isNear(ctx):
		return ctx.Err()
	case d == whileAway:
		w.mu.Lock()
		here, waits := w.here, w.waits
		w.mu.Unlock()
		waits()
		select {
		case <-here:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
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
