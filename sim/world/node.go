package world

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/mix"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
)

// Limits of the production runtime.
const (
	// RequestLimit bounds one transaction of a node or a user, retries and all.
	RequestLimit = 30 * time.Second
	// AwaitLimit bounds a wait for a watch, which may be lost.
	AwaitLimit = time.Minute
)

// Node is a process that drives the core's machines as the production runtime does. Observers may read it, by its methods.
type Node struct {
	*engine.Process
	w     *World
	site  *decide.Site
	roles node.Roles
	title string // the name that it is configured to have

	alive    bool
	lives    int
	worker   string // its name in this life
	settings node.Settings
	host     *host.Host // of this life, or the last
	runs     []*Run     // whose connections are open
	limiter  ratelimit.Limiter
	booted   instant.Time
	skew     time.Duration // of the wall clock
	lag      time.Duration // for which the steady clock stood still
	wakeAt   instant.Time  // of the planned wake
	draining bool
	// isolated is until when the store is not reached; tillGone that this, or a suspension, ends when another begins to
	// give it up.
	isolated instant.Time
	tillGone bool
	cutOff   []func() // wakes what waits for that
	// reachesSince is until when it was kept from the store last.
	reachesSince instant.Time
	// changing is that its settings have changed, and that it hears of that before the jobs of its next accept.
	changing bool
	// pausedLast is when it last stood still, awoke when it last did without knowing.
	pausedLast, awoke instant.Time
	// stalls is how long it stands still at its next transaction: before a step of that, or else before the answer.
	stalls       time.Duration
	stallsBefore bool
}

func newProcess(w *World, name string, roles node.Roles) *Node {
	return &Node{Process: &engine.Process{Name: name}, w: w, roles: roles, title: name, site: w.Decider.Site(name), settings: w.Config.Settings}
}

// nodeOf is the node with an owner of coroutines; nil for users and the world.
func (w *World) nodeOf(owner *engine.Process) *Node {
	for _, p := range w.nodes {
		if p.Process == owner {
			return p
		}
	}
	return nil
}

// boot starts the process.
func (p *Node) boot() {
	p.live()
	p.handle(node.Start{})
}

// live begins a life, in which the machine has not started yet.
func (p *Node) live() {
	p.lives++
	p.worker = fmt.Sprintf("%s/%d", p.Name, p.lives)
	p.alive, p.draining, p.booted, p.wakeAt = true, false, p.w.Engine.Now(), instant.Never
	p.limiter, p.stalls, p.lag, p.awoke = ratelimit.Limiter{}, 0, 0, 0
	p.pausedLast = min(p.pausedLast, p.booted)
	p.host = host.New(host.Config{
		Node: node.Config{
			Settings: p.settings, Name: p.title, Roles: p.roles, Worker: p.worker,
			Exclusive: p.w.Config.Exclusive(), Seed: p.site.Seed64(),
		},
		Server: p.w.store.Config.Server, Memory: p.w.Config.Memory, Observer: witness{p},
	})
	p.w.Engine.Logf(p.Name, "^ started, life %d", p.lives)
	p.w.emit(NodeChanged{p, NodeUp, fmt.Sprint("life ", p.lives)})
}

// crash ends the process at once.
func (p *Node) crash() {
	if !p.alive {
		return
	}
	p.w.Engine.Logf(p.Name, "! crashed with %d runs", len(p.runs))
	p.w.emit(NodeChanged{p, NodeDown, fmt.Sprintf("crashed with %d runs", len(p.runs))})
	p.end()
	p.w.Engine.Kill(p.Process)
}

// end forgets everything that the process knew.
func (p *Node) end() {
	p.alive = false
	for _, r := range p.runs {
		p.w.emit(RunEnded{r})
	}
	p.runs = nil
}

// pause has the process stand still.
func (p *Node) pause(what string, d time.Duration) {
	p.w.Engine.Logf(p.Name, "zz paused for %s", d)
	p.w.Engine.Pause(p.Process, d)
	p.pausedLast = max(p.pausedLast, p.w.Engine.Now().Add(d))
	p.w.emit(Fault{what, p.Name, "", d})
}

// suspend has the process stand still with its steady clock, as that of a machine does which is suspended: it cannot
// know how long.
func (p *Node) suspend(d time.Duration) {
	if p.w.Engine.Paused(p.Process) {
		return
	}
	p.lag += d
	p.pause(NodeSuspend, d)
	p.awoke = p.w.Engine.Now().Add(d)
}

// resume ends a pause.
func (p *Node) resume() {
	now := p.w.Engine.Now()
	if early := p.awoke.Sub(now); early > 0 {
		p.lag -= early
	}
	p.pausedLast, p.awoke = min(p.pausedLast, now), min(p.awoke, now)
	p.w.Engine.Resume(p.Process)
}

// stall has a process stand still whose time for that has come, before a step of a transaction or not.
func (p *Node) stall(before bool) {
	if d := p.stalls; d > 0 && before == p.stallsBefore {
		p.stalls = 0
		p.pause(NodeStall, d)
	}
}

// reconnect ends the isolation of a worker that another begins to give up, or its suspension.
func (w *World) reconnect(worker string) {
	for _, p := range w.nodes {
		if p.tillGone && strings.HasPrefix(worker, p.Name+"/") {
			if p.awoke > w.Engine.Now() {
				p.resume()
			}
			p.isolated, p.tillGone, p.reachesSince = 0, false, min(p.reachesSince, w.Engine.Now())
			for _, wake := range p.cutOff {
				wake()
			}
			p.cutOff = nil
		}
	}
}

// configure tells the node its settings.
func (p *Node) configure() {
	p.changing = false
	p.w.Engine.After(0, p.Process, "configure", func() {
		if p.alive && !p.draining {
			p.handle(node.Configure{Settings: p.settings})
		}
	})
}

// drain stops the process in order, once it is not paused.
func (p *Node) drain() {
	p.w.Engine.After(0, p.Process, "drain", func() {
		if p.alive && !p.draining {
			p.draining = true
			p.w.emit(NodeChanged{p, NodeDraining, ""})
			p.handle(node.Drain{})
		}
	})
}

// heal ends all that is wrong with the process, and lets jobs rotate: without that those that have no slot
// never get one.
func (p *Node) heal() {
	p.skew, p.isolated, p.stalls, p.tillGone, p.changing = 0, 0, 0, false, false
	p.reachesSince = min(p.reachesSince, p.w.Engine.Now())
	p.settings = p.w.Config.Settings
	p.settings.MaxChurn = max(p.settings.MaxChurn, 1)
	p.resume()
	switch {
	case !p.alive:
		p.boot()
	case !p.draining:
		p.handle(node.Configure{Settings: p.settings})
	}
}

func (p *Node) clock() node.Clock {
	return node.Clock{Steady: p.steady(), Wall: p.w.Engine.Now().Add(p.skew)}
}

// steady is the clock that the node, its runs and its limiter of requests have in common.
func (p *Node) steady() instant.Time { return p.w.Engine.Now().Add(-p.lag) }

// handle handles an event and all that it brings about.
func (p *Node) handle(ev host.Event) {
	for p.host.Tell(ev); p.alive && p.host.Next() != nil; {
		if ev, is := p.host.Next().(host.RunEvent); is {
			p.stepRun(p.find(ev.Run), ev.Event)
		} else {
			p.stepNode()
		}
	}
	if p.alive {
		p.planWake()
	}
}

// planWake plans the next wake of the node's machine.
func (p *Node) planWake() {
	at := p.host.Node().Deadline()
	if at >= p.wakeAt || at == instant.Never {
		return
	}
	p.wakeAt = at
	p.w.Engine.After(at.Sub(p.steady()), p.Process, "wake", func() {
		if p.wakeAt == at {
			p.wakeAt = instant.Never
		}
		p.handle(node.Wake{})
	})
}

func (p *Node) stepNode() {
	if p.w.Engine.Trace != nil {
		p.w.Engine.Logf(p.Name, "< %s", p.host.Next())
	}
	for _, e := range p.host.Step(p.clock()) {
		if p.w.Engine.Trace != nil {
			p.w.Engine.Logf(p.Name, "> %s", e)
		}
		p.perform(e)
	}
}

// perform performs an effect of a step of the node.
func (p *Node) perform(e host.Effect) {
	switch e := e.(type) {
	case node.Ask:
		p.w.Engine.Note(e.ID)
		p.w.Engine.Go(p.Process, "ask", func() { p.ask(e) })
	case node.Await:
		p.w.emit(Awaits{p, e})
		p.w.Engine.Go(p.Process, "await", func() { p.await(e) })
	case node.StartRun:
		p.open(e)
	case node.Confirm:
		if r := p.find(e.Run); r != nil {
			p.w.emit(RunConfirmed{r})
		}
	case node.KillRun:
		if r := p.find(e.Run); r != nil {
			p.w.emit(RunEnded{r})
		}
	case host.RunEffect:
		p.find(e.Run).giveUp(e.Effect.(replication.Cancel).ID)
	case host.Close:
		p.close(e.Run)
	case node.Exit:
		p.exit()
	}
}

// witness is the observer of a node's host.
type witness struct{ p *Node }

// NodeStepped is host.Observer's.
func (o witness) NodeStepped(_ node.Clock, ev node.Event, effects []node.Effect) {
	o.p.w.emit(NodeStepped{o.p, ev, effects})
}

// RunBegins is host.Observer's.
func (o witness) RunBegins(run uint64, _ replication.Plan) { o.p.find(run).machine = o.p.host.Run(run) }

// RunStepped is host.Observer's.
func (o witness) RunStepped(run uint64, _ instant.Time, _ replication.Event, effects []replication.Effect) {
	o.p.w.Engine.Note(mix.Pair(run, uint64(len(effects))))
	o.p.find(run).wants = effects
}

// exit ends a drained process, which is started again soon.
func (p *Node) exit() {
	p.w.Engine.Logf(p.Name, "_ left")
	p.w.emit(NodeChanged{p, NodeDown, "left in order"})
	p.end()
	p.w.Engine.Kill(p.Process)
	p.w.Engine.After(p.site.Duration(time.Second, time.Minute), nil, "start", func() {
		if !p.alive {
			p.boot()
		}
	})
}

// ask performs a request of the node in a transaction.
func (p *Node) ask(a node.Ask) {
	ctx := p.w.Engine.NewContext(p.Process, RequestLimit)
	wall, asked := p.clock().Wall, p.w.Engine.Now()
	p.w.asking(a.Request, wall, p.lag)
	if expire, is := a.Request.(node.Expire); is {
		p.w.reconnect(expire.Worker)
	}
	result, err := kv.RunWith(ctx, p.w.db, kv.Options{Tag: "node"}, func(tx kv.Tx) (node.Result, error) {
		return node.Perform(tx, p.w.store, a.Request, wall)
	})
	done := node.Done{ID: a.ID, Result: result}
	p.w.asked()
	if err != nil {
		p.w.emit(AskFailed{p, a.Request, err})
		done = node.Done{ID: a.ID, Fault: node.OutcomeOf(err), Text: err.Error()}
	} else {
		p.w.emit(Answered{p, a.Request, result, asked})
	}
	p.stall(false)
	if got, is := result.(node.Accepted); is && p.changing && len(got.Work) > 0 {
		p.configure()
	}
	p.w.Engine.After(0, p.Process, "done", func() { p.handle(done) })
}

// armed tells what a counter is at the moment at which the node begins to wait for a change of it.
func (p *Node) armed(tx kv.Tx, a node.Await) error {
	keys := p.w.store.Keys.Jobs
	key := keys.Signal
	if a.Topic == node.WorkerCalls {
		key = keys.Call.Pack(a.Worker)
	}
	row, err := tx.Snapshot().Get(key)
	is := int64(0)
	if len(row) == 8 {
		is = int64(binary.LittleEndian.Uint64(row))
	}
	if err == nil {
		p.w.emit(Armed{p, a, is})
	}
	return err
}

func (p *Node) await(a node.Await) {
	ctx := p.w.Engine.NewContext(p.Process, AwaitLimit)
	watch, err := kv.Run(ctx, p.w.db, func(tx kv.Tx) (kv.Watch, error) {
		watch, err := node.Arm(tx, p.w.store, a)
		if err == nil && watch != nil {
			err = p.armed(tx, a)
		}
		return watch, err
	})
	switch {
	case err != nil:
		_ = p.w.Engine.Await(ctx, func(func()) {})
	case watch != nil:
		if err := watch.Wait(ctx); kv.CodeOf(err) == kv.TooManyWatches {
			_ = p.w.Engine.Await(ctx, func(func()) {})
		}
	}
	p.w.Engine.After(0, p.Process, "notified", func() { p.handle(node.Notified{Topic: a.Topic}) })
}

// Configure gives the node other settings, of which it hears at once.
func (p *Node) Configure(s node.Settings) {
	p.settings = s
	p.configure()
}
