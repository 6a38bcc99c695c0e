// Package loop drives the machines of the core in production: one goroutine steps a host (package
// core/host), or one run without a node, and other goroutines carry out what it asks for. It decides
// nothing.
package loop

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// Options are what a loop works with.
type Options struct {
	DB     kv.Database
	Store  *jobstore.Store
	Client *couch.Client
	Clock  clock.Clock
	Logger *slog.Logger
	Node   node.Config
	// Log records what the machines are told and decide; nil records nothing.
	Log *eventlog.Writer
	// Broken is told of broken invariants of runs and transactions, which then fail; without it they end
	// the process. It is called from several goroutines.
	Broken func(*invariant.Broken)
}

const (
	// awaitLimit bounds a wait for a watch, which may be lost.
	awaitLimit = time.Minute
	// requestLimit bounds one transaction of the node, retries and all.
	requestLimit = 30 * time.Second
)

// Loop drives a host.
type Loop struct {
	Options
	time   clockTime
	host   *host.Host
	links  map[uint64]*link // of the runs that the host has, but for refused ones
	events chan host.Event  // from other goroutines
	ended  chan struct{}
	ctx    context.Context
	exited bool
	name   atomic.Pointer[string] // of the node
}

// New prepares a loop.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, time: newTime(o.Clock), links: map[uint64]*link{},
		events: make(chan host.Event, 256), ended: make(chan struct{}),
	}
	c := host.Config{Node: o.Node, Server: o.Store.Config.Server, Broken: o.Broken}
	if o.Log != nil {
		c.Observer = o.Log
	}
	l.host = host.New(c)
	l.name.Store(&o.Node.Name)
	return l
}

// Name is the node's, from any goroutine.
func (l *Loop) Name() string { return *l.name.Load() }

// Run drives the host until its node has left after a Drain, or until ctx ends: then everything is dropped at
// once, and what the store does not know is lost, which is only time.
func (l *Loop) Run(ctx context.Context) {
	defer close(l.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.ctx = ctx
	timer := l.Clock.Timer(0)
	defer timer.Stop()
	defer func() {
		for _, k := range l.links {
			k.close()
		}
	}()
	l.Log.NodeBegins(l.Options.Node, l.time.steady())
	l.handle(node.Start{})
	for !l.exited {
		arm(timer, l.time, l.host.Deadline())
		select {
		case ev := <-l.events:
			l.handle(ev)
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := l.time.steady()
		for ev := l.host.Due(now); ev != nil; ev = l.host.Due(now) {
			l.handle(ev)
		}
	}
}

// Drain asks the node to stop its runs in order and leave.
func (l *Loop) Drain() { l.post(node.Drain{}) }

// Configure changes the node's settings.
func (l *Loop) Configure(s node.Settings) { l.post(node.Configure{Settings: s}) }

// post brings an event to the loop, from any goroutine but the loop's own.
func (l *Loop) post(ev host.Event) {
	select {
	case l.events <- ev:
	case <-l.ended:
	}
}

// handle handles an event and all that it brings about.
func (l *Loop) handle(ev host.Event) {
	for l.host.Tell(ev); l.host.Next() != nil; {
		for _, e := range l.host.Step(l.time.both()) {
			l.perform(e)
		}
	}
}

func (l *Loop) perform(e host.Effect) {
	switch e := e.(type) {
	case node.Ask:
		go l.ask(e)
	case node.Await:
		go l.await(e)
	case node.StartRun:
		l.open(e)
	case host.RunEffect:
		l.links[e.Run].perform(e.Effect)
	case host.Close:
		if k := l.links[e.Run]; k != nil {
			k.close()
			delete(l.links, e.Run)
		}
	case node.Note:
		l.Logger.Info(e.What, "job", e.Job, "detail", e.Text)
	case node.Rename:
		l.name.Store(&e.Name)
	case node.Exit:
		l.exited = true
	}
}

// open connects to the databases of a run.
func (l *Loop) open(s node.StartRun) {
	pair, err := l.Client.Pair(*s.Work.Replication)
	if err != nil {
		l.host.Refuse(s.Run, err.Error())
		return
	}
	l.links[s.Run] = newLink(l.ctx, pair, func(reply replication.Reply) {
		l.post(host.RunEvent{Run: s.Run, Event: reply})
	})
}

// ask performs a request in a transaction.
func (l *Loop) ask(a node.Ask) {
	ctx, cancel := context.WithTimeout(l.ctx, requestLimit)
	defer cancel()
	now := instant.Of(l.Clock.Now())
	result, err := kv.RunWith(ctx, l.DB, kv.Options{Tag: "node"}, func(tx kv.Tx) (result node.Result, err error) {
		broken := invariant.Guard(l.Broken, func() { result, err = node.Perform(tx, l.Store, a.Request, now) })
		if broken != nil {
			return nil, broken
		}
		return result, err
	})
	done := node.Done{ID: a.ID, Result: result}
	if err != nil {
		done = node.Done{ID: a.ID, Fault: node.FaultOf(err), Text: err.Error()}
	}
	l.post(done)
}

// await waits until a counter differs, the watch is lost, or long enough.
func (l *Loop) await(a node.Await) {
	ctx, cancel := context.WithTimeout(l.ctx, awaitLimit)
	defer cancel()
	watch, err := kv.Run(ctx, l.DB, func(tx kv.Tx) (kv.Watch, error) { return node.Arm(tx, l.Store, a) })
	switch {
	case err != nil:
		<-ctx.Done() // the store is down; the node polls meanwhile
	case watch != nil:
		// A lost watch is as good a reason to look as any. Without one to have, the node polls.
		if err := watch.Wait(ctx); kv.CodeOf(err) == kv.TooManyWatches {
			<-ctx.Done()
		}
	}
	l.post(node.Notified{Topic: a.Topic})
}
