package lab

import (
	"math"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/prng"
	"couchrelay/core/replication"
)

// run is a job in a slot.
type run struct {
	number  uint64
	job     int
	worker  string // that has the job's lock
	begins  instant.Time
	copies  instant.Time // when its first change is copied
	ends    instant.Time // when it ends by itself, or has stopped; instant.Never for a run that goes on
	cause   replication.Cause
	stopped bool // it was asked to stop
}

// progress is what lasts of a job from one run to the next.
type progress struct {
	submitted instant.Time
	copied    float64 // changes, up to the last checkpoint
	unwell    bool    // it crashed, or its worker vanished, and it has not been healthy since
	removed   bool
	lost      bool  // its worker vanished, and it has not been started since
	unstored  int32 // the node, from 1, that has not stored yet that the job is over or crashed; 0 for none
}

// start begins a run and foresees its end.
func (p *labNode) start(e node.StartRun) {
	l := p.lab
	n := l.queue.Number(e.Work.JobID)
	j, state := &l.c.Workload.Jobs[n], &l.jobs[n]
	r := &run{number: e.Run, job: n, worker: e.Work.Lock.Worker, begins: l.now.Add(e.Delay), ends: instant.Never}
	r.copies = r.begins.Add(j.Startup)
	if !j.Continuous {
		r.end(replication.Completed, r.copies.Add(seconds((j.Backlog-state.copied)/j.Speed)))
	}
	rng := prng.New(e.Seed)
	if j.MTBF > 0 {
		r.end(replication.Crashed, r.begins.Add(exponential(&rng, j.MTBF)))
	}
	if at := l.outage(j.Server, r.begins); at != instant.Never {
		soon := time.Duration(rng.Uint64n(uint64(max(j.Startup, time.Second))))
		r.end(replication.Crashed, max(at, r.begins).Add(soon))
	}
	p.runs[e.Run] = r
	l.forgotten(n, state.unstored)
	state.lost = false
	l.tell(Event{What: Started, Job: n, Node: p.number, Delay: e.Delay})
	l.planEnd(p, r)
	if state.unwell {
		wait := l.c.Settings.Replicator.Backoff.Health + l.c.Settings.Node.ProgressInterval
		l.agenda.plan(due{at: l.now.Add(wait), what: runHeals, node: int32(p.number), life: p.life, which: e.Run})
	}
}

// forgotten tells observers of a job that is ready again, since its end was not stored before a node, from 1, died or
// lost its lease.
func (l *lab) forgotten(job int, node int32) {
	if state := &l.jobs[job]; node > 0 && state.unstored == node {
		state.unstored = 0
		if !state.removed {
			l.tell(Event{What: Ready, Job: job, Node: -1})
		}
	}
}

// end has the run end at a time, unless it ends before.
func (r *run) end(c replication.Cause, at instant.Time) {
	if at < r.ends {
		r.ends, r.cause = at, c
	}
}

func (l *lab) planEnd(p *labNode, r *run) {
	if r.ends != instant.Never {
		l.agenda.plan(due{at: r.ends, what: runEnds, node: int32(p.number), life: p.life, which: r.number})
	}
}

// outage is when the server is first away from a time on, instant.Never if it is not away any more.
func (l *lab) outage(server int, from instant.Time) instant.Time {
	for _, o := range l.outages[server] {
		if begin.Add(o.To) > from {
			return begin.Add(o.From)
		}
	}
	return instant.Never
}

// exponential draws a time with a mean, at least a microsecond.
func exponential(rng *prng.Source, mean time.Duration) time.Duration {
	u := (float64(rng.Uint64()>>11) + 1) / (1 << 53) // above 0, up to 1
	return max(time.Microsecond, seconds(-math.Log(u)*mean.Seconds()))
}

// seconds converts, and saturates at a hundred years.
func seconds(s float64) time.Duration {
	const most = 100 * 365 * 24 * 3600
	return time.Duration(min(max(s, 0), most) * float64(time.Second))
}

// stop has a run stop in order.
func (p *labNode) stop(number uint64) {
	if r := p.runs[number]; r != nil {
		r.stopped = true
		if at := p.lab.now.Add(p.lab.c.StopTime); at < r.ends {
			r.end(replication.Stopped, at)
			p.lab.planEnd(p, r)
		}
	}
}

// kill drops a run at once.
func (p *labNode) kill(number uint64) {
	if r := p.runs[number]; r != nil {
		why := Killed
		switch {
		case p.lab.jobs[r.job].removed:
			why = Taken
		case p.machine.Running() == 0: // the node has lost its lease
			why = Vanished
		}
		p.lab.over(p, r, why)
	}
}

// runEnds is the moment for which the end of a run was foreseen.
func (p *labNode) runEnds(number uint64) {
	r := p.runs[number]
	if r == nil {
		return // it ended before
	}
	end := replication.End{Cause: r.cause, Info: replication.Info{ChangesPending: -1}}
	why := GaveWay
	switch r.cause {
	case replication.Completed:
		why, end.Result = Completed, []byte("{}")
	case replication.Crashed:
		why, end.Trouble = Crashed, replication.Trouble{Error: "crash", Reason: "by the workload"}
	}
	p.lab.over(p, r, why)
	p.handle(node.RunEnded{Run: number, End: end})
}

// heals has a run tell of its progress, with which earlier crashes are made up for.
func (p *labNode) heals(number uint64) {
	if r := p.runs[number]; r != nil && !r.stopped {
		p.lab.jobs[r.job].unwell = false
		p.handle(node.RunProgress{Run: number, Info: replication.Info{ChangesPending: -1}})
	}
}

// over takes a run out of its slot, and counts what it has copied for good.
func (l *lab) over(p *labNode, r *run, why Why) {
	delete(p.runs, r.number)
	j, state := &l.c.Workload.Jobs[r.job], &l.jobs[r.job]
	until := l.now
	if why != GaveWay && why != Completed {
		until = r.begins.Add(l.now.Sub(r.begins) / l.c.Checkpoint * l.c.Checkpoint)
	}
	before := state.copied
	if why == Completed {
		state.copied = j.Backlog
	} else {
		f := j.Fluid()
		state.copied = f.Copied(before, r.copies.Sub(state.submitted).Seconds(), until.Sub(state.submitted).Seconds())
	}
	state.unwell = state.unwell || why == Crashed || why == Vanished
	if why == Completed || why == Crashed {
		state.unstored = int32(p.number + 1)
	}
	l.tell(Event{What: Ended, Job: r.job, Node: p.number, Why: why, Copied: state.copied - before})
	switch {
	case state.removed:
		l.tell(Event{What: Removed, Job: r.job, Node: -1})
	case why == Vanished:
		state.lost = true
		l.vanished[r.worker] = append(l.vanished[r.worker], r.job)
	}
}

// sortedRuns are the runs of a node in the order in which they began.
func (p *labNode) sortedRuns() []*run {
	list := make([]*run, 0, len(p.runs))
	for _, r := range p.runs {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *run) int { return int(a.number) - int(b.number) })
	return list
}
