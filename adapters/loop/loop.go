// Package loop drives the machines of the core in production. One goroutine steps a host (package core/host),
// or a single run without a node; other goroutines carry out the effects and post their results back to it as
// events. The loop must not decide anything: a decision made here would escape the simulator.
package loop

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
	"couchrelay/core/explain"
	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// Options are the parts of the process that a loop works with. All but Log, Meter and Broken are required.
type Options struct {
	DB     kv.Database
	Store  *jobstore.Store
	Client *couch.Client // not closed by the loop
	Clock  clock.Clock
	Logger *slog.Logger
	Node   node.Config
	// Memory bounds the documents that a run holds at once, in bytes; 0 means replication.DefaultMemory.
	Memory int
	// Log records all events and decisions of the machines; nil records nothing.
	Log *eventlog.Writer
	// Meter counts what the machines do; nil counts nothing.
	Meter Meter
	// Broken is told of broken invariants in runs and transactions, which then fail. If it is nil, a broken
	// invariant ends the process. Several goroutines call it.
	Broken func(*invariant.Broken)
	// Away returns why the store answers no request at present, nil while it may answer. The store logs that
	// itself, so the loop logs the errors of requests at the debug level meanwhile. If Away is nil, the loop
	// logs all of them. Several goroutines may call it.
	Away func() error
}

const (
	// awaitLimit bounds the wait for a watch, since a watch may be lost silently.
	awaitLimit = time.Minute
	// requestLimit bounds one transaction of the node, its retries included.
	requestLimit = 30 * time.Second
)

// Loop drives a host. Only the goroutine of Run uses its fields, except events, ended and name.
type Loop struct {
	Options
	time   clockTime
	host   *host.Host
	links  map[uint64]*link       // by run; a run whose pair could not be made has none
	events chan host.Event        // from other goroutines to Run
	looks  chan func()            // by which other goroutines look at the host, for Run to call
	ended  chan struct{}          // closed when Run returns: events are dropped from then on
	ctx    context.Context        // of all effects; ends with Run
	waits  [2]context.CancelFunc  // ends the wait in flight, by topic
	exited bool                   // the node has left
	name   atomic.Pointer[string] // of the node, which may rename itself
	quiet  bool                   // errors of requests were not worth a warning, so neither is their end
}

// New prepares a loop. It does nothing before Run.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, time: newTime(o.Clock), links: map[uint64]*link{},
		events: make(chan host.Event, 256), looks: make(chan func()), ended: make(chan struct{}),
		waits: [2]context.CancelFunc{func() {}, func() {}},
	}
	c := host.Config{Node: o.Node, Server: o.Store.Config.Server, Memory: o.Memory, Broken: o.Broken,
		MaxListed: o.Store.Config.MaxRefused}
	c.Observer = observerOf(o)
	l.host = host.New(c)
	l.name.Store(&o.Node.Name)
	return l
}

// Name returns the node's present name. Any goroutine may call it.
func (l *Loop) Name() string { return *l.name.Load() }

// Run drives the host until its node has left after a Drain, or until ctx ends. The end of ctx drops
// everything in flight at once, as a crash would: what is not in the store by then costs time, never data.
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
		case look := <-l.looks:
			look()
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

// Drain asks the node to stop its runs with a checkpoint each, give its jobs back and leave.
func (l *Loop) Drain() { l.post(node.Drain{}) }

// Configure changes the node's settings.
func (l *Loop) Configure(s node.Settings) { l.post(node.Configure{Settings: s}) }

// post hands an event to Run, and drops it if Run has returned. Any goroutine may call it except Run's own,
// which would wait for itself when events is full.
func (l *Loop) post(ev host.Event) {
	select {
	case l.events <- ev:
	case <-l.ended:
	}
}

// handle tells the host an event, and steps it until it has no further event of its own.
func (l *Loop) handle(ev host.Event) {
	for l.host.Tell(ev); l.host.Next() != nil; {
		for _, e := range l.host.Step(l.time.both()) {
			l.perform(e)
		}
	}
	if l.Meter != nil {
		l.Meter.Tallied(l.host.Tally())
	}
}

// perform carries out an effect, or starts a goroutine that does. It must not block.
func (l *Loop) perform(e host.Effect) {
	switch e := e.(type) {
	case node.Ask:
		go l.ask(e)
	case node.Await:
		l.waits[e.Topic]() // the one before, which is not answered any more
		ctx, cancel := context.WithCancel(l.ctx)
		l.waits[e.Topic] = cancel
		go l.await(ctx, e)
	case node.StartRun:
		rec := e.Work.Record
		l.Logger.Info("started", "job", e.Work.JobID, "database", rec.Database, "document", rec.DocID,
			"replication", rec.RepID, "source", jobstore.RedactURL(rec.Source),
			"target", jobstore.RedactURL(rec.Target)) // a query may hold a token
		l.open(e)
	case host.RunEffect:
		l.links[e.Run].perform(e.Effect)
	case host.Close:
		if k := l.links[e.Run]; k != nil {
			k.close()
			delete(l.links, e.Run)
		}
	case node.Note:
		l.log(e)
	case node.Rename:
		l.name.Store(&e.Name)
	case node.Exit:
		l.exited = true
	}
}

// log writes a note to the log.
func (l *Loop) log(e node.Note) {
	level := slog.LevelInfo
	if e.Warns() {
		level = slog.LevelWarn
	}
	if e.What == "store_error" {
		l.quiet = l.Away != nil && l.Away() != nil
	}
	if l.quiet && (e.What == "store_error" || e.What == "store_back") {
		level = slog.LevelDebug
	}
	about := []any{"job", e.Job}
	if e.Class != "" {
		class, _ := explain.ClassOf(e.Class)
		about = append(about, "class", class.Class, "error", e.Class)
	}
	l.Logger.Log(l.ctx, level, e.What, append(about, "detail", e.Text)...)
}

// open makes the pair of a run that starts. Nothing is sent yet, so it fails only for reasons in the
// replication itself; the host then ends the run.
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

// ask performs a request of the node in a transaction and posts its result. The transaction may be repeated,
// also after an unknown result, so requests are idempotent.
func (l *Loop) ask(a node.Ask) {
	ctx, cancel := context.WithTimeout(l.ctx, requestLimit)
	defer cancel()
	now := instant.Of(l.Clock.Now())
	result, err := kv.RunWith(ctx, l.DB, kv.Options{Tag: "node"},
		func(tx kv.Tx) (result node.Result, err error) {
			broken := invariant.Guard(l.Broken,
				func() { result, err = node.Perform(tx, l.Store, a.Request, now) })
			if broken != nil {
				return nil, broken
			}
			return result, err
		})
	done := node.Done{ID: a.ID, Result: result}
	if err != nil {
		done = node.Failed(a.ID, err)
	}
	l.post(done)
}

// await waits until a counter has changed, its watch is lost, or awaitLimit has passed, and posts Notified in
// each case: for the node that is only a reason to check. If there can be no watch, it waits for awaitLimit,
// since Notified at once would start a busy loop; the node polls in the meantime. A wait whose ctx has ended
// was replaced by a newer one of its topic, and posts nothing.
func (l *Loop) await(replaced context.Context, a node.Await) {
	ctx, cancel := context.WithTimeout(replaced, awaitLimit)
	defer cancel()
	watch, err := kv.Run(ctx, l.DB, func(tx kv.Tx) (kv.Watch, error) { return node.Arm(tx, l.Store, a) })
	switch {
	case err != nil:
		<-ctx.Done() // the store is down
	case watch != nil:
		if err := watch.Wait(ctx); kv.CodeOf(err) == kv.TooManyWatches {
			<-ctx.Done()
		}
	}
	if replaced.Err() == nil {
		l.post(node.Notified{Topic: a.Topic})
	}
}
