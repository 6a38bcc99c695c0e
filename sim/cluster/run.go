package cluster

import (
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/kv/mix"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
)

// run is a replication that the process carries out.
type run struct {
	p         *process
	id        uint64
	work      node.StartRun
	machine   *replication.Run
	pair      *peers.Pair
	calls     map[uint64]*flight
	ending    replication.End // what the machine said last
	wakeAt    instant.Time
	began     instant.Time
	repID     string
	confirmed bool
	strayed   instant.Time // since when its job is not its own; Never while it is
	begin     beginning
	outlook   outlook
	repeats   repeats
	failed    map[string]setback // calls that may succeed when they are repeated
	numbers   numbers
	// looks and reads: has begun to look for its checkpoint, and to read changes.
	looks, reads bool
	fresh        bool // it is another replication than its job was before, and has no checkpoint
	stopped      bool // by its node
	stopAt       instant.Time
	attempts     attempts
	fruitless    map[string]fruitless // attempts in a row of copies that brought nothing
	saved        saved
	reports      reports
}

// runEvent is an event of a run.
type runEvent struct {
	run *run
	ev  replication.Event
}

func (p *process) find(id uint64) *run {
	for _, r := range p.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (p *process) startRun(s node.StartRun) {
	rec := s.Work.Record
	plan := replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: p.w.store.Config.Server, Created: rec.Created, Resumed: rec.Stats.Counters(), ResumedID: rec.RepID, Throttled: rec.Throttled,
		Delay: s.Delay, Seed: s.Seed, ProgressInterval: p.settings.ProgressInterval, Memory: p.w.Config.Memory,
	})
	r := &run{
		p: p, id: s.Run, work: s, machine: replication.New(plan), calls: map[uint64]*flight{}, wakeAt: instant.Never,
		reports: reports{interval: plan.ProgressInterval}, began: p.w.Engine.Now(), strayed: instant.Never, pair: peers.NewPair(p.w.Engine, p.w.net, p.Process, peers.Limiter{Limiter: &p.limiter, Now: p.steady}, s.Work.Replication),
	}
	p.runs = append(p.runs, r)
	p.w.oracle.runStarted(r)
	p.queue = append(p.queue, runEvent{r, replication.Begin{}})
}

// dropRun gives a run up with everything under way.
func (p *process) dropRun(r *run) {
	if r == nil {
		return
	}
	p.w.oracle.runEnded(r)
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

func (p *process) stepRun(r *run, ev replication.Event) {
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
			p.w.oracle.called(r, e.Op)
			p.call(r, e)
		case replication.Cancel:
			f := r.calls[e.ID]
			if f == nil {
				p.w.fail("P1", "run %d of %s cancels request %d, which is not under way", r.id, p.Name, e.ID)
				break
			}
			p.w.oracle.checkCancels(r, ev, f.op)
			f.Cancel()
			delete(r.calls, e.ID)
		case replication.Release:
			r.pair.Release(e.ID)
		case replication.Identify:
			r.repID = e.ID
			p.queue = append(p.queue, node.RunIdentifies{Run: r.id, ID: e.ID, Base: e.Base})
		case replication.Progress:
			p.w.oracle.progressed(r, asked, e.Info)
			p.queue = append(p.queue, node.RunProgress{Run: r.id, Info: e.Info})
		case replication.End:
			p.w.oracle.checkGivenUp(r, asked, ev, e)
			p.w.oracle.runSaid(r, e)
			p.dropRun(r)
			p.queue = append(p.queue, node.RunEnded{Run: r.id, End: e})
		}
	}
	if p.alive && slices.Contains(p.runs, r) {
		p.w.oracle.runStepped(r, asked, ev, effects)
	}
	p.planRunWake(r)
}

func (p *process) planRunWake(r *run) {
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

func (p *process) call(r *run, c replication.Call) {
	ctx := p.w.Engine.NewContext(p.Process, 0)
	r.calls[c.ID] = &flight{ctx, c.Op}
	p.w.Engine.Go(p.Process, "call", func() {
		reply := replication.Reply{ID: c.ID, Reply: r.pair.Do(ctx, c.ID, c.Op)}
		p.w.oracle.replied(r, c.Op, reply.Reply)
		if ctx.Err() == nil {
			p.w.Engine.After(0, p.Process, "reply", func() { p.handle(runEvent{r, reply}) })
		}
	})
}
