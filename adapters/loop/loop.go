// Package loop runs the machines of the core in production: one goroutine steps a node and its runs, one
// event at a time, and other goroutines carry out what they ask for. It decides nothing.
package loop

import (
	"container/heap"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
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
	// Broken is told of broken invariants of runs and transactions, which then fail; without it they end the process.
	// It is called from several goroutines.
	Broken func(*invariant.Broken)
}

const (
	// awaitLimit bounds a wait for a watch, which may be lost.
	awaitLimit = time.Minute
	// requestLimit bounds one transaction of the node, retries and all.
	requestLimit = 30 * time.Second
)

// Loop hosts a node.
type Loop struct {
	Options
	time  clockTime
	node  *node.Node
	runs  map[uint64]*run
	wakes wakes
	// interval is how often runs report, by the settings that the node had last.
	interval time.Duration
	events   chan any // node.Event or runEvent, from other goroutines
	queue    []any    // the same, that steps brought about; handled before all others
	ended    chan struct{}
	ctx      context.Context
	exited   bool
	name     atomic.Pointer[string] // of the node
}

// runEvent is an event of a run's machine.
type runEvent struct {
	run uint64
	ev  replication.Event
}

// New prepares a loop.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, time: newTime(o.Clock), node: node.New(o.Node), runs: map[uint64]*run{}, events: make(chan any, 256), ended: make(chan struct{}),
	}
	l.interval = o.Node.ProgressInterval
	l.name.Store(&o.Node.Name)
	return l
}

// Name is the node's, from any goroutine.
func (l *Loop) Name() string { return *l.name.Load() }

// Run hosts the node until it has left after a Drain, or until ctx ends: then everything is dropped at
// once, and what the store does not know is lost, which is only time.
func (l *Loop) Run(ctx context.Context) {
	defer close(l.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.ctx = ctx
	timer := l.Clock.Timer(0)
	defer timer.Stop()
	defer func() {
		for _, r := range l.runs {
			r.drop()
		}
	}()
	l.Log.NodeBegins(l.Options.Node, l.time.steady())
	l.handle(node.Start{})
	for !l.exited {
		arm(timer, l.time, min(l.node.Deadline(), l.wakes.next()))
		select {
		case ev := <-l.events:
			l.handle(ev)
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		l.wakeDue()
	}
}

// Drain asks the node to stop its runs in order and leave.
func (l *Loop) Drain() { l.post(node.Drain{}) }

// Configure changes the node's settings.
func (l *Loop) Configure(s node.Settings) { l.post(node.Configure{Settings: s}) }

// post brings an event to the loop, from any goroutine but the loop's own.
func (l *Loop) post(ev any) {
	select {
	case l.events <- ev:
	case <-l.ended:
	}
}

// handle handles an event and all that it brings about.
func (l *Loop) handle(ev any) {
	l.queue = append(l.queue, ev)
	for len(l.queue) > 0 {
		ev, l.queue = l.queue[0], l.queue[1:]
		switch ev := ev.(type) {
		case node.Event:
			l.stepNode(ev)
		case runEvent:
			l.stepRun(ev.run, ev.ev)
		}
	}
}

func (l *Loop) wakeDue() {
	now := l.time.steady()
	for l.wakes.next() <= now {
		w := heap.Pop(&l.wakes).(wake)
		if r := l.runs[w.run]; r != nil && r.queued == w.at {
			r.queued = instant.Never
			l.handle(runEvent{w.run, replication.Wake{}})
		}
	}
	if l.node.Deadline() <= now {
		l.handle(node.Wake{})
	}
}

func (l *Loop) stepNode(ev node.Event) {
	if c, is := ev.(node.Configure); is {
		l.interval = c.Settings.ProgressInterval
	}
	now := l.time.both()
	effects := l.node.Step(now, ev)
	l.Log.NodeStepped(now, ev, effects)
	for _, e := range effects {
		l.perform(e)
	}
}

func (l *Loop) perform(e node.Effect) {
	switch e := e.(type) {
	case node.Ask:
		go l.ask(e)
	case node.Await:
		go l.await(e)
	case node.StartRun:
		l.startRun(e)
	case node.Confirm:
		l.queue = append(l.queue, runEvent{e.Run, replication.Identified{}})
	case node.StopRun:
		l.queue = append(l.queue, runEvent{e.Run, replication.Stop{}})
	case node.KillRun:
		l.dropRun(e.Run)
	case node.Note:
		l.Logger.Info(e.What, "job", e.Job, "detail", e.Text)
	case node.Rename:
		l.name.Store(&e.Name)
	case node.Exit:
		l.exited = true
	}
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

func (l *Loop) startRun(s node.StartRun) {
	pair, err := l.Client.Pair(*s.Work.Replication)
	if err != nil {
		trouble := replication.Trouble{Error: "invalid_replication", Reason: err.Error()}
		l.queue = append(l.queue, node.RunEnded{Run: s.Run, End: replication.End{Cause: replication.Crashed, Trouble: trouble}})
		return
	}
	rec := s.Work.Record
	plan := replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: l.Store.Config.Server, Created: rec.Created, Resumed: rec.Stats.Counters(), ResumedID: rec.RepID,
		Throttled: rec.Throttled, Delay: s.Delay, Seed: s.Seed, ProgressInterval: l.interval,
		Broken: l.Broken,
	})
	l.Log.RunBegins(s.Run, plan)
	r := newRun(l.ctx, plan, pair, func(ev replication.Event) { l.post(runEvent{s.Run, ev}) })
	r.id, r.log = s.Run, l.Log
	l.runs[s.Run] = r
	l.queue = append(l.queue, runEvent{s.Run, replication.Begin{}})
}

// stepRun steps a run and tells the node what it says.
func (l *Loop) stepRun(id uint64, ev replication.Event) {
	r := l.runs[id]
	if r == nil {
		return
	}
	said := r.step(l.time.steady(), ev)
	if at := r.machine.Deadline(); at < r.queued {
		r.queued = at
		heap.Push(&l.wakes, wake{at, id})
	}
	for _, e := range said {
		switch e := e.(type) {
		case replication.Identify:
			l.queue = append(l.queue, node.RunIdentifies{Run: id, ID: e.ID, Base: e.Base})
		case replication.Progress:
			l.queue = append(l.queue, node.RunProgress{Run: id, Info: e.Info})
		case replication.End:
			l.dropRun(id)
			l.queue = append(l.queue, node.RunEnded{Run: id, End: e})
		}
	}
}

func (l *Loop) dropRun(id uint64) {
	if r := l.runs[id]; r != nil {
		r.drop()
		delete(l.runs, id)
	}
}

// wake is a deadline of a run. One that the run has moved meanwhile wakes it for nothing.
type wake struct {
	at  instant.Time
	run uint64
}

// wakes is a heap of deadlines.
type wakes []wake

func (w wakes) next() instant.Time {
	if len(w) == 0 {
		return instant.Never
	}
	return w[0].at
}

func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].at < w[j].at }
func (w wakes) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *wakes) Push(x any)        { *w = append(*w, x.(wake)) }
func (w *wakes) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
