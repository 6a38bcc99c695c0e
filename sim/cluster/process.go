package cluster

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
)

// Limits of the production runtime.
const (
	requestLimit = 30 * time.Second
	awaitLimit   = time.Minute
)

// process is a node: it drives the core's machines as the production runtime does.
type process struct {
	*engine.Process
	w     *Cluster
	site  *decide.Site
	roles node.Roles
	// title is the name that it is configured to have, called the one that it has.
	title, called string

	alive    bool
	lives    int
	worker   string // its name in this life
	settings node.Settings
	node     *node.Node
	runs     []*run
	limiter  ratelimit.Limiter
	booted   instant.Time
	born     []birth       // of all its lives
	skew     time.Duration // of the wall clock
	lag      time.Duration // for which the steady clock stood still
	wakeAt   instant.Time  // of the planned wake
	queue    []any         // events that steps brought about
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
	member       membership
	paces        map[reflect.Type]pace // of what it does regularly
	looks        [looks]look
	stood        instant.Time // pausedLast, as far as looks may be late because of that
	charging     charging
	crowded      bool // jobs waited for slots when it last looked
	sight        sight
	vain         vain
	expiring     map[string]uint64 // workers that it gives up, and by which request
	silences     map[string]silence
	ran          int // jobs after the last step
}

func newProcess(w *Cluster, name string, roles node.Roles) *process {
	return &process{Process: &engine.Process{Name: name}, w: w, roles: roles, title: name, site: w.Decider.Site(name), settings: w.Config.Settings}
}

// running is the process whose coroutine runs; nil for users and the world.
func (w *Cluster) running() *process { return w.process(w.Engine.Owner()) }

// process is the process with an owner of coroutines.
func (w *Cluster) process(owner *engine.Process) *process {
	for _, p := range w.nodes {
		if p.Process == owner {
			return p
		}
	}
	return nil
}

// boot starts the process.
func (p *process) boot() {
	p.lives++
	p.worker = fmt.Sprintf("%s/%d", p.Name, p.lives)
	p.alive, p.draining, p.booted, p.wakeAt = true, false, p.w.Engine.Now(), instant.Never
	p.limiter, p.stalls, p.lag, p.awoke = ratelimit.Limiter{}, 0, 0, 0
	p.pausedLast = min(p.pausedLast, p.booted)
	p.sight, p.called, p.vain = sight{}, p.title, vain{awaits: map[node.Topic]node.Await{}}
	p.born = append(p.born, birth{p.clock().Wall, p.worker})
	p.expiring, p.silences, p.ran = map[string]uint64{}, nil, 0
	p.member, p.crowded, p.paces, p.looks, p.charging = membership{applied: p.settings, since: p.booted}, false, map[reflect.Type]pace{}, [looks]look{}, charging{}
	p.w.net.forget(p.Process)
	p.node = node.New(node.Config{
		Settings: p.settings, Name: p.title, Roles: p.roles, Worker: p.worker, Exclusive: p.w.Config.Exclusive(), Seed: p.site.Seed64(),
	})
	p.w.Engine.Logf(p.Name, "^ started, life %d", p.lives)
	p.w.watch(NodeChanged{p.Name, NodeUp, fmt.Sprint("life ", p.lives)})
	p.handle(node.Start{})
}

// crash ends the process at once.
func (p *process) crash() {
	if !p.alive {
		return
	}
	p.w.Engine.Logf(p.Name, "! crashed with %d runs", len(p.runs))
	p.w.watch(NodeChanged{p.Name, NodeDown, fmt.Sprintf("crashed with %d runs", len(p.runs))})
	p.end()
	p.w.Engine.Kill(p.Process)
}

// end forgets everything that the process knew.
func (p *process) end() {
	p.alive = false
	for _, r := range p.runs {
		p.w.oracle.runEnded(r)
	}
	p.runs, p.queue = nil, nil
}

// pause has the process stand still.
func (p *process) pause(what string, d time.Duration) {
	p.w.Engine.Logf(p.Name, "zz paused for %s", d)
	p.w.Engine.Pause(p.Process, d)
	p.pausedLast = max(p.pausedLast, p.w.Engine.Now().Add(d))
	p.w.watch(Fault{what, p.Name, "", d})
}

// suspend has the process stand still with its steady clock, as that of a machine does which is suspended: it cannot
// know how long.
func (p *process) suspend(d time.Duration) {
	if p.w.Engine.Paused(p.Process) {
		return
	}
	p.lag += d
	p.pause(NodeSuspend, d)
	p.awoke = p.w.Engine.Now().Add(d)
}

// resume ends a pause.
func (p *process) resume() {
	now := p.w.Engine.Now()
	if early := p.awoke.Sub(now); early > 0 {
		p.lag -= early
	}
	p.pausedLast, p.awoke = min(p.pausedLast, now), min(p.awoke, now)
	p.w.Engine.Resume(p.Process)
}

// stall has a process stand still whose time for that has come, before a step of a transaction or not.
func (p *process) stall(before bool) {
	if d := p.stalls; d > 0 && before == p.stallsBefore {
		p.stalls = 0
		p.pause(NodeStall, d)
	}
}

// reconnect ends the isolation of a worker that another begins to give up, or its suspension.
func (w *Cluster) reconnect(worker string) {
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
func (p *process) configure() {
	p.changing = false
	p.w.Engine.After(0, p.Process, "configure", func() {
		if p.alive && !p.draining {
			p.handle(node.Configure{Settings: p.settings})
		}
	})
}

// drain stops the process in order, once it is not paused.
func (p *process) drain() {
	p.w.Engine.After(0, p.Process, "drain", func() {
		if p.alive && !p.draining {
			p.draining = true
			p.w.watch(NodeChanged{p.Name, NodeDraining, ""})
			p.handle(node.Drain{})
		}
	})
}

// heal ends all that is wrong with the process, and lets jobs rotate: without that those that have no slot
// never get one.
func (p *process) heal() {
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

func (p *process) clock() node.Clock {
	return node.Clock{Steady: p.steady(), Wall: p.w.Engine.Now().Add(p.skew)}
}

// steady is the clock that the node, its runs and its limiter of requests have in common.
func (p *process) steady() instant.Time { return p.w.Engine.Now().Add(-p.lag) }

// handle handles an event and all that it brings about.
func (p *process) handle(ev any) {
	p.queue = append(p.queue, ev)
	if len(p.queue) > 1 {
		return // a step further up is at it
	}
	for i := 0; i < len(p.queue) && p.alive; i++ {
		switch ev := p.queue[i].(type) {
		case node.Event:
			p.stepNode(ev)
		case runEvent:
			p.stepRun(ev.run, ev.ev)
		}
	}
	clear(p.queue)
	p.queue = p.queue[:0]
	if p.alive {
		p.planWake()
	}
}

// planWake plans the next wake of the node's machine.
func (p *process) planWake() {
	at := p.node.Deadline()
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

func (p *process) stepNode(ev node.Event) {
	if p.w.Engine.Trace != nil {
		p.w.Engine.Logf(p.Name, "< %s", ev)
	}
	effects := p.node.Step(p.clock(), ev)
	p.w.oracle.nodeStepped(p, ev, effects)
	for _, e := range effects {
		if p.w.Engine.Trace != nil {
			p.w.Engine.Logf(p.Name, "> %s", e)
		}
		p.perform(e)
	}
}

func (p *process) perform(e node.Effect) {
	switch e := e.(type) {
	case node.Ask:
		p.w.Engine.Note(e.ID)
		p.w.Engine.Go(p.Process, "ask", func() { p.ask(e) })
	case node.Await:
		p.w.oracle.awaits(p, e)
		p.w.Engine.Go(p.Process, "await", func() { p.await(e) })
	case node.StartRun:
		p.startRun(e)
	case node.Confirm:
		if r := p.find(e.Run); r != nil {
			p.w.oracle.confirmed(r)
			p.queue = append(p.queue, runEvent{r, replication.Identified{}})
		}
	case node.StopRun:
		if r := p.find(e.Run); r != nil {
			p.queue = append(p.queue, runEvent{r, replication.Stop{}})
		}
	case node.KillRun:
		p.dropRun(p.find(e.Run))
	case node.Exit:
		p.exit()
	}
}

// exit ends a drained process, which is started again soon.
func (p *process) exit() {
	p.w.Engine.Logf(p.Name, "_ left")
	p.w.watch(NodeChanged{p.Name, NodeDown, "left in order"})
	p.end()
	p.w.Engine.Kill(p.Process)
	p.w.Engine.After(p.site.Duration(time.Second, time.Minute), nil, "start", func() {
		if !p.alive {
			p.boot()
		}
	})
}

// ask performs a request of the node in a transaction.
func (p *process) ask(a node.Ask) {
	ctx := p.w.Engine.NewContext(p.Process, requestLimit)
	wall, asked := p.clock().Wall, p.w.Engine.Now()
	p.w.oracle.asking(a.Request, wall, p.lag)
	if expire, is := a.Request.(node.Expire); is {
		p.w.reconnect(expire.Worker)
	}
	result, err := kv.RunWith(ctx, p.w.db, kv.Options{Tag: "node"}, func(tx kv.Tx) (node.Result, error) {
		return node.Perform(tx, p.w.store, a.Request, wall)
	})
	done := node.Done{ID: a.ID, Result: result}
	delete(p.w.oracle.current, p.w.Engine.Self())
	if err != nil {
		p.w.oracle.checkLimits(a.Request, err)
		done = node.Done{ID: a.ID, Fault: node.FaultOf(err), Text: err.Error()}
	} else {
		p.w.oracle.answered(a.Request, result, asked)
		p.w.oracle.looked(p, result)
	}
	p.stall(false)
	if got, is := result.(node.Accepted); is && p.changing && len(got.Work) > 0 {
		p.configure()
	}
	p.w.Engine.After(0, p.Process, "done", func() { p.handle(done) })
}

func (p *process) await(a node.Await) {
	ctx := p.w.Engine.NewContext(p.Process, awaitLimit)
	watch, err := kv.Run(ctx, p.w.db, func(tx kv.Tx) (kv.Watch, error) {
		watch, err := node.Arm(tx, p.w.store, a)
		if err == nil && watch != nil {
			err = p.w.oracle.checkArmed(tx, p, a)
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
