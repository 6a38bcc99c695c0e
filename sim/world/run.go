package world

import (
	"slices"

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
	machine *replication.Run
	pair    *peers.Pair
	calls   map[uint64]*flight
	ending  replication.End // as the machine said it; zero until then
	wakeAt  instant.Time
	began   instant.Time
	repID   string // as the machine identified itself; empty until then
}

// flight is a request in flight.
type flight struct {
	*engine.Context
	op peer.Op
}

// answered forgets the request that an event answers, if it does, and reports whether the run still waits for that.
func (r *Run) answered(ev replication.Event) (asked peer.Op, awaited bool) {
	reply, is := ev.(replication.Reply)
	if !is {
		return nil, true
	}
	f := r.calls[reply.ID]
	if f == nil {
		return nil, false
	}
	delete(r.calls, reply.ID)
	return f.op, true
}

// runEvent is an event of a run.
type runEvent struct {
	run *Run
	ev  replication.Event
}

func (p *Node) find(id uint64) *Run {
	for _, r := range p.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (p *Node) startRun(s node.StartRun) {
	rec := s.Work.Record
	plan := replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: p.w.store.Config.Server, Created: rec.Created, Resumed: rec.Stats.Counters(), ResumedID: rec.RepID, Throttled: rec.Throttled,
		Delay: s.Delay, Seed: s.Seed, ProgressInterval: p.settings.ProgressInterval, Memory: p.w.Config.Memory,
	})
	r := &Run{
		p: p, id: s.Run, work: s, machine: replication.New(plan), calls: map[uint64]*flight{}, wakeAt: instant.Never,
		began: p.w.Engine.Now(),
		pair:  peers.NewPair(p.w.Engine, p.w.net, p.Process, peers.Limiter{Limiter: &p.limiter, Now: p.steady}, s.Work.Replication),
	}
	p.runs = append(p.runs, r)
	p.w.emit(RunStarted{r})
	p.queue = append(p.queue, runEvent{r, replication.Begin{}})
}

// dropRun gives a run up with everything under way.
func (p *Node) dropRun(r *Run) {
	if r == nil {
		return
	}
	p.w.emit(RunEnded{r})
	i := slices.Index(p.runs, r)
	p.runs = slices.Delete(p.runs, i, i+1)
	ids := make([]uint64, 0, len(r.calls))
	for id := range r.calls {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		r.calls[id].Cancel()
	}
}

func (p *Node) stepRun(r *Run, ev replication.Event) {
	if !slices.Contains(p.runs, r) {
		return
	}
	asked, awaited := r.answered(ev)
	if !awaited {
		return
	}
	if p.w.Engine.Trace != nil {
		p.w.Engine.Logf(p.Name, "run %d < %s", r.id, ev)
	}
	effects := r.machine.Step(p.steady(), ev)
	p.w.Engine.Note(mix.Pair(r.id, uint64(len(effects))))
	for _, e := range effects {
		if p.w.Engine.Trace != nil {
			p.w.Engine.Logf(p.Name, "run %d > %s", r.id, e)
		}
		switch e := e.(type) {
		case replication.Call:
			p.w.emit(RunCalls{r, e.Op})
			p.call(r, e)
		case replication.Cancel:
			f := r.calls[e.ID]
			if f == nil {
				p.w.emit(RunCancels{r, e.ID, ev, nil})
				break
			}
			p.w.emit(RunCancels{r, e.ID, ev, f.op})
			f.Cancel()
			delete(r.calls, e.ID)
		case replication.Release:
			r.pair.Release(e.ID)
		case replication.Identify:
			r.repID = e.ID
			p.queue = append(p.queue, node.RunIdentifies{Run: r.id, ID: e.ID, Base: e.Base})
		case replication.Progress:
			p.w.emit(RunProgressed{r, asked, e.Info})
			p.queue = append(p.queue, node.RunProgress{Run: r.id, Info: e.Info})
		case replication.End:
			r.ending = e
			p.w.emit(RunSaidEnd{r, asked, ev, e})
			p.dropRun(r)
			p.queue = append(p.queue, node.RunEnded{Run: r.id, End: e})
		}
	}
	if p.alive && slices.Contains(p.runs, r) {
		p.w.emit(RunStepped{r, asked, ev, effects})
	}
	p.planRunWake(r)
}

func (p *Node) planRunWake(r *Run) {
	at := r.machine.Deadline()
	if at >= r.wakeAt || at == instant.Never {
		return
	}
	r.wakeAt = at
	p.w.Engine.After(at.Sub(p.steady()), p.Process, "run wake", func() {
		if r.wakeAt == at {
			r.wakeAt = instant.Never
			p.handle(runEvent{r, replication.Wake{}})
		}
	})
}

func (p *Node) call(r *Run, c replication.Call) {
	ctx := p.w.Engine.NewContext(p.Process, 0)
	r.calls[c.ID] = &flight{ctx, c.Op}
	p.w.Engine.Go(p.Process, "call", func() {
		reply := replication.Reply{ID: c.ID, Reply: r.pair.Do(ctx, c.ID, c.Op)}
		p.w.emit(RunReplied{r, c.Op, reply.Reply})
		if ctx.Err() == nil {
			p.w.Engine.After(0, p.Process, "reply", func() { p.handle(runEvent{r, reply}) })
		}
	})
}
