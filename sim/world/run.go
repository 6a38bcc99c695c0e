package world

import (
	"slices"
	"time"

	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/kv/mix"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/engine"
	"couchrelay/sim/peers"
)

// Run is a replication that a node carries out. Observers may read it, by its methods.
type Run struct {
	p       *Node
	id      uint64
	work    node.StartRun
	machine machine              // to be looked at; nil before its first step
	wants   []replication.Effect // of its last step
	pair    *peers.Pair
	calls   map[uint64]*flight
	ending  replication.End // as the machine said it; zero until then
	wakeAt  instant.Time
	began   instant.Time
	repID   string // as the machine identified itself; empty until then
}

// machine is what a run's machine tells of itself.
type machine interface {
	Info() replication.Info
	Tally() replication.Tally
	Deadline() instant.Time
}

// flight is a request in flight.
type flight struct {
	*engine.Context
	op peer.Op
}

// answered forgets the request that an event answers, if it does.
func (r *Run) answered(ev replication.Event) (asked peer.Op) {
	if reply, is := ev.(replication.Reply); is {
		asked = r.calls[reply.ID].op
		delete(r.calls, reply.ID)
	}
	return asked
}

// find returns the run with an id, or nil.
func (l *life) find(id uint64) *Run {
	for _, r := range l.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (p *Node) newRun(s node.StartRun) *Run {
	limiter := peers.Limiter{Limiter: &p.limiter, Now: p.Steady}
	return &Run{
		p: p, id: s.Run, work: s, calls: map[uint64]*flight{}, wakeAt: instant.Never, began: p.w.Engine.Now(),
		pair: peers.NewPair(p.w.Engine, p.w.net, p.Process, limiter, s.Work.Replication),
	}
}

// open connects to the databases of a run.
func (p *Node) open(s node.StartRun) {
	r := p.newRun(s)
	p.runs = append(p.runs, r)
	p.w.emit(RunStarted{r})
}

// close lets go of the connections of a run.
func (p *Node) close(id uint64) {
	p.runs = slices.DeleteFunc(p.runs, func(r *Run) bool { return r.id == id })
}

// giveUp gives up a request in flight.
func (r *Run) giveUp(id uint64) {
	r.calls[id].Cancel()
	delete(r.calls, id)
}

func (p *Node) stepRun(r *Run, ev replication.Event) {
	asked := r.answered(ev)
	if p.w.Engine.Trace != nil {
		p.w.Engine.Logf(p.Name, "run %d < %s", r.id, ev)
	}
	for _, e := range p.host.Step(p.Clock()) {
		switch e := e.(type) {
		case host.RunEffect:
			r.perform(asked, ev, e.Effect)
		case host.Close:
			p.close(r.id)
		}
	}
	if slices.Contains(p.runs, r) {
		p.w.emit(RunStepped{r, asked, ev, r.wants})
	}
	r.planWake()
}

// perform performs an effect of a step of the run, by an event that may be the answer to asked.
func (r *Run) perform(asked peer.Op, ev replication.Event, e replication.Effect) {
	p := r.p
	if p.w.Engine.Trace != nil {
		p.w.Engine.Logf(p.Name, "run %d > %s", r.id, e)
	}
	switch e := e.(type) {
	case replication.Call:
		p.w.Engine.Note(mix.String(e.Op.String()))
		p.w.emit(RunCalls{r, e.ID, e.Op, ev})
		r.call(e)
	case replication.Cancel:
		f := r.calls[e.ID]
		if f == nil {
			p.w.emit(RunCancels{r, e.ID, ev, nil})
			break
		}
		p.w.emit(RunCancels{r, e.ID, ev, f.op})
		r.giveUp(e.ID)
	case replication.Release:
		r.pair.Release(e.ID)
	case replication.Identify:
		r.repID = e.ID
	case replication.Progress:
		p.w.emit(RunProgressed{r, asked, e.Info})
	case replication.End:
		r.ending = e
		p.w.emit(RunSaidEnd{r, asked, ev, e, r.machine.Tally()})
		p.w.emit(RunEnded{r})
	}
}

// planWake plans the next wake of the run's machine.
func (r *Run) planWake() {
	p := r.p
	at := r.machine.Deadline()
	if at >= r.wakeAt || at == instant.Never {
		return
	}
	r.wakeAt = at
	p.w.Engine.After(at.Sub(p.Steady()), p.Process, "run wake", func() {
		if r.wakeAt == at {
			r.wakeAt = instant.Never
			p.handle(host.RunEvent{Run: r.id, Event: replication.Wake{}})
		}
	})
}

// maxAgain is how long after an answer it may come a second time.
const maxAgain = 2 * time.Minute

// call carries a request out in a coroutine.
func (r *Run) call(c replication.Call) {
	p := r.p
	ctx := p.w.Engine.NewContext(p.Process, 0)
	r.calls[c.ID] = &flight{ctx, c.Op}
	p.w.Engine.Go(p.Process, "call", func() {
		reply := replication.Reply{ID: c.ID, Reply: r.pair.Do(ctx, c.ID, c.Op)}
		p.w.emit(RunReplied{r, c.Op, reply.Reply})
		tell := func() { p.handle(host.RunEvent{Run: r.id, Event: reply}) }
		if ctx.Err() == nil {
			p.w.Engine.After(0, p.Process, "reply", tell)
		}
		if n := p.w.net; n.twiceUntil[p] > p.w.Engine.Now() {
			p.w.Engine.After(n.again.Duration(0, maxAgain), p.Process, "reply again", tell)
		}
	})
}
