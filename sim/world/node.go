package world

import (
	"encoding/binary"
	"fmt"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/mix"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
	"couchrelay/sim/fakefdb"
)

// Limits of the production runtime.
const (
	// RequestLimit bounds one transaction of a node or a user, retries and all.
	RequestLimit = 30 * time.Second
	// AwaitLimit bounds a wait for a watch, which may be lost.
	AwaitLimit = time.Minute
)

// Node is a process that drives the core's machines as the production runtime does. Observers may read it, by
// its exported methods.
type Node struct {
	*engine.Process
	life
	disturbances
	w     *World
	site  *decide.Site
	roles node.Roles
	title string // the name that it is configured to have; other nodes may have the same

	lives int  // begun so far
	older bool // it is of an earlier release; see older.go
	// settings are those that the node is to have. Its machine may not have been told them yet.
	settings node.Settings
	// changing reports that the settings have changed and that the machine is told just before the jobs of
	// its next accept arrive, so that both meet.
	changing bool
}

// life is what a node is from one start to the next. It is new with every start.
type life struct {
	alive    bool       // false before the first start, and after a crash or an exit
	draining bool       // it was told to leave
	worker   string     // its name as a worker, which no other life of any node has
	host     *host.Host // nil before the first start
	follower *follower  // nil if the node follows no databases
	runs     []*Run     // whose connections are open, in the order in which they started
	limiter  ratelimit.Limiter
	booted   instant.Time
	wakeAt   instant.Time // of the wake that is planned; instant.Never without one
	waits    [2]int       // begun, by topic; only the last one is answered
}

func newNode(w *World, name string, roles node.Roles) *Node {
	process := &engine.Process{Name: name}
	return &Node{
		Process: process, disturbances: disturbances{w: w, process: process}, w: w, roles: roles, title: name,
		site: w.Decider.Site(name), settings: w.Config.Settings,
	}
}

// nodeOf returns the node whose process owns a coroutine, or nil for users and the world itself.
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
	p.bootFollower()
}

// live begins a life. The machine is made, but not started.
func (p *Node) live() {
	p.lives++
	p.older = p.older && layout(p.w) < 2 // that release starts on no newer one
	worker := fmt.Sprintf("%s/%d", p.Name, p.lives)
	p.life = life{alive: true, worker: worker, booted: p.w.Engine.Now(), wakeAt: instant.Never}
	p.disturbances.restart()
	p.host = host.New(host.Config{
		Node: node.Config{
			Settings: p.settings, Name: p.title, Roles: p.roles, Worker: p.worker,
			Exclusive: p.w.Config.Exclusive(), Seed: p.site.Seed64(), Settling: node.DefaultSettling,
			Batches: p.w.Config.batches(),
		},
		Server: p.w.store.Config.Server, Memory: p.w.Config.Memory, Observer: witness{p},
		MaxListed: p.w.store.Config.MaxRefused,
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

// configure tells the machine the node's settings, in an event of its own.
func (p *Node) configure() {
	p.changing = false
	p.w.Engine.After(0, p.Process, "configure", func() {
		if p.alive && !p.draining {
			p.handle(node.Configure{Settings: p.settings})
		}
	})
}

// drain tells the machine to drain, in an event of its own: a paused node is told after its pause.
func (p *Node) drain() {
	p.w.Engine.After(0, p.Process, "drain", func() {
		if p.alive && !p.draining {
			p.draining = true
			p.w.emit(NodeChanged{p, NodeDraining, ""})
			if p.follower != nil {
				p.follower.handle(follow.Drain{})
			}
			p.handle(node.Drain{})
		}
	})
}

// heal ends all disturbances of the node and restores its settings, with a churn of at least one: without
// rotation a waiting job would never get a slot.
func (p *Node) heal() {
	p.disturbances.heal()
	p.changing = false
	p.settings = p.w.Config.Settings
	p.settings.MaxChurn = max(p.settings.MaxChurn, 1)
	switch {
	case !p.alive:
		p.older = false
		p.boot()
	case p.older:
		p.drain()
	case !p.draining:
		p.handle(node.Configure{Settings: p.settings})
	}
}

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
	p.w.Engine.After(at.Sub(p.Steady()), p.Process, "wake", func() {
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
	for _, e := range p.host.Step(p.Clock()) {
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
		p.waits[e.Topic]++
		p.w.Engine.Go(p.Process, "await", func() { p.await(e, p.waits[e.Topic]) })
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
	p.older = false
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
	a.Request = p.asOlder(a.Request)
	wall, asked := p.Clock().Wall, p.w.Engine.Now()
	p.w.asks.begin(p.w.Engine.Self(), Asked{Request: a.Request, Wall: wall, Lag: p.lag})
	if expire, is := a.Request.(node.Expire); is {
		p.w.givenUp(p, expire.Worker)
	}
	trips := 0
	result, err := kv.RunWith(ctx, p.w.db, kv.Options{Tag: "node"}, func(tx kv.Tx) (node.Result, error) {
		got, err := node.Perform(tx, p.w.store, a.Request, wall)
		trips = fakefdb.TripsOf(tx)
		return got, err
	})
	done := node.Done{ID: a.ID, Result: result}
	p.w.asks.end(p.w.Engine.Self())
	if err != nil {
		p.w.emit(AskFailed{p, a.Request, err})
		done = node.Failed(a.ID, err)
	} else {
		p.w.emit(Answered{p, a.Request, result, asked, trips})
	}
	p.stall(false)
	if got, is := result.(node.Accepted); is && p.changing && len(got.Work) > 0 {
		p.configure()
	}
	p.w.Engine.After(0, p.Process, "done", func() { p.handle(done) })
}

// armed tells observers the value of the counter that a watch begins to wait for. It reads the key itself, so
// that an observer can compare it with what the core made of it.
func (p *Node) armed(tx kv.Tx, a node.Await) error {
	keys := p.w.store.Keys.Jobs
	counters := [][]byte{keys.Call.Pack(a.Worker)}
	if a.Topic == node.ReadyJobs {
		counters = nil
		for bucket := range int64(jobs.Buckets) {
			if a.Part == 0 || a.Part>>bucket&1 != 0 {
				counters = append(counters, keys.Signal.Pack(bucket))
			}
		}
	}
	values, err := tx.Snapshot().GetAll(counters)
	is := int64(0)
	for _, v := range values {
		if len(v) == 8 {
			is += int64(binary.LittleEndian.Uint64(v))
		}
	}
	if err == nil {
		p.w.emit(Armed{p, a, is})
	}
	return err
}

func (p *Node) await(a node.Await, number int) {
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
	if p.waits[a.Topic] == number {
		p.w.Engine.After(0, p.Process, "notified", func() { p.handle(node.Notified{Topic: a.Topic}) })
	}
}

// Configure gives the node other settings, of which it hears at once.
func (p *Node) Configure(s node.Settings) {
	p.settings = s
	p.configure()
}
