package lab

import (
	"context"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/sim/workload"
)

// begin is when every run begins, by the nodes' clocks.
const begin instant.Time = 1_800_000_000_000_000

// watchLimit bounds a wait for a watch, as production's does.
const watchLimit = time.Minute

// lab is a world under way.
type lab struct {
	c         *Config
	queue     Queue
	agenda    agenda
	now       instant.Time
	nodes     []*labNode
	jobs      []progress
	asks      []asked
	free      []int32 // places in asks that are not in use
	outages   map[int][]workload.Outage
	vanished  map[string][]int // jobs whose worker died, until they are given back
	observers []Observer
	changed   bool // something that a node may wait for may have happened
}

// asked is a request in flight.
type asked struct {
	node.Ask
	at instant.Time
}

// Run plays a world from its beginning to the end, and tells observers what happens. It ends early with the
// cause of ctx's end.
func Run(ctx context.Context, c Config, observers ...Observer) error {
	l, err := newLab(&c, observers...)
	if err != nil {
		return err
	}
	return l.play(ctx)
}

func newLab(c *Config, observers ...Observer) (*lab, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c.Settings.Replicator.Sharing.Follow(c.Settings.Node.Interval, c.Settings.Node.UsageInterval)
	c.Settings.Replicator.Sharing.Seed = c.Seed
	l := &lab{
		c: c, now: begin, jobs: make([]progress, len(c.Workload.Jobs)), observers: observers,
		outages: map[int][]workload.Outage{}, vanished: map[string][]int{},
	}
	if l.queue = NewModel(*c); c.Exact {
		exact, err := NewExact(*c, func() instant.Time { return l.now })
		if err != nil {
			return nil, err
		}
		l.queue = exact
	}
	l.prepare()
	return l, nil
}

// prepare plans all that the workload and the configuration have.
func (l *lab) prepare() {
	w := l.c.Workload
	for _, o := range w.Outages {
		l.outages[o.Server] = append(l.outages[o.Server], o)
	}
	for _, list := range l.outages {
		slices.SortFunc(list, func(a, b workload.Outage) int { return int(a.From - b.From) })
	}
	for a := range w.Accounts {
		if s := l.c.sharesOf(a); s != w.Accounts[a].Shares {
			l.tell(Event{What: SharesSet, Job: -1, Node: -1, Account: a, Shares: s})
		}
	}
	l.planSubmit(0)
	for i, c := range w.Changes {
		l.agenda.plan(due{at: begin.Add(c.At), what: setShares, node: -1, which: uint64(i)})
	}
	for i := range l.c.Nodes {
		l.nodes = append(l.nodes, &labNode{lab: l, number: i})
		l.agenda.plan(due{at: begin, what: boot, node: -1, which: uint64(i)})
	}
	for i, f := range l.c.Failures {
		l.agenda.plan(due{at: begin.Add(f.At), what: fail, node: -1, which: uint64(i)})
		if f.For > 0 {
			l.agenda.plan(due{at: begin.Add(f.At + f.For), what: boot, node: -1, which: uint64(f.Node)})
		}
	}
}

// planSubmit plans the submission of a job. One is planned at a time, since there may be a million.
func (l *lab) planSubmit(job int) {
	if job < len(l.jobs) {
		l.agenda.plan(due{at: begin.Add(l.c.Workload.Jobs[job].Submit), what: submit, node: -1, which: uint64(job)})
	}
}

func (l *lab) play(ctx context.Context) error {
	end := begin.Add(l.c.Duration)
	for n := 0; len(l.agenda.heap) > 0; n++ { // it is empty once all nodes are dead for good
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d := l.agenda.next()
		if d.at >= end {
			return nil
		}
		l.now = d.at
		if err := l.do(d); err != nil {
			return err
		}
		if l.changed {
			l.changed = false
			for _, p := range l.nodes {
				if err := p.look(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// do has something happen.
func (l *lab) do(d due) error {
	if d.node < 0 {
		return l.happen(d.what, int(d.which))
	}
	p := l.nodes[d.node]
	switch {
	case d.what == commit:
		return l.commit(p, d)
	case d.life != p.life:
		return nil
	case d.what == wake:
		if p.wakeAt == d.at {
			p.wakeAt = instant.Never
		}
		p.handle(node.Wake{})
	case d.what == notify:
		p.handle(node.Notified{Topic: node.Topic(d.which)})
	case d.what == lostWatch:
		p.watchLost(d.which)
	case d.what == runEnds:
		p.runEnds(d.which)
	case d.what == runHeals:
		p.heals(d.which)
	}
	return nil
}

// happen has something happen that concerns no living node.
func (l *lab) happen(what deed, which int) (err error) {
	w := l.c.Workload
	switch what {
	case submit:
		err = l.submit(which)
	case remove:
		err = l.remove(which)
	case setShares:
		c := w.Changes[which]
		if err = l.queue.Share(c.Account, c.Shares, l.now); err == nil {
			l.tell(Event{What: SharesSet, Job: -1, Node: -1, Account: c.Account, Shares: c.Shares})
		}
	case fail:
		l.nodes[l.c.Failures[which].Node].fail()
	case boot:
		if p := l.nodes[which]; !p.alive {
			p.boot()
		}
	case becomesReady:
		if !l.jobs[which].removed {
			l.tell(Event{What: Ready, Job: which, Node: -1})
		}
	}
	return err
}

// submit submits a job, and plans when it is removed.
func (l *lab) submit(job int) error {
	l.changed = true
	l.jobs[job].submitted = l.now
	if at := l.c.Workload.Jobs[job].Remove; at > 0 {
		l.agenda.plan(due{at: begin.Add(at), what: remove, node: -1, which: uint64(job)})
	}
	l.planSubmit(job + 1)
	l.tell(Event{What: Submitted, Job: job, Node: -1})
	return l.queue.Submit(job, l.now)
}

// remove removes a job. Observers are told at once, unless the job runs: then when its node has dropped it.
func (l *lab) remove(job int) error {
	l.changed = true
	l.jobs[job].removed = true
	runs := slices.ContainsFunc(l.nodes, func(p *labNode) bool { return p.running(job) })
	if !runs {
		l.tell(Event{What: Removed, Job: job, Node: -1})
	}
	return l.queue.Remove(job, l.now)
}

func (p *labNode) running(job int) bool {
	for _, r := range p.runs {
		if r.job == job {
			return true
		}
	}
	return false
}

// ask has a request performed, and answered in the same moment, after the latency of a transaction.
func (l *lab) ask(p *labNode, a node.Ask) {
	at := len(l.asks)
	if last := len(l.free) - 1; last >= 0 {
		at = int(l.free[last])
		l.free = l.free[:last]
	} else {
		l.asks = append(l.asks, asked{})
	}
	l.asks[at] = asked{a, l.now}
	p.plan(commit, l.now.Add(l.c.Latency), uint64(at))
}

// commit performs a request. That of a node which died meanwhile does not come to anything.
func (l *lab) commit(p *labNode, d due) error {
	a := l.asks[d.which]
	l.asks[d.which] = asked{}
	l.free = append(l.free, int32(d.which))
	if d.life != p.life {
		return nil
	}
	result, err := l.queue.Perform(a.Request, a.at)
	l.changed = true
	done := node.Done{ID: a.ID, Result: result}
	if err == nil {
		l.follow(a.Request, result)
	} else if done = node.Failed(a.ID, err); done.Fault == node.StoreDown {
		return err // nothing fails here
	}
	p.handle(done)
	return nil
}

// follow notes which ends are stored, and tells observers of jobs that a request has made ready, or will.
func (l *lab) follow(q node.Request, r node.Result) {
	switch q := q.(type) {
	case node.Complete:
		l.jobs[l.queue.Number(q.JobID)].unstored = 0
	case node.Crash:
		job := l.queue.Number(q.JobID)
		l.jobs[job].unstored = 0
		if at := l.queue.Due(job); at > 0 {
			l.agenda.plan(due{at: at, what: becomesReady, node: -1, which: uint64(job)})
		}
	case node.Expire:
		if p, is := r.(node.Progressed); is && p.Done {
			for _, job := range l.vanished[q.Worker] {
				if state := &l.jobs[job]; state.lost && !state.removed {
					l.tell(Event{What: Ready, Job: job, Node: -1})
				}
			}
			delete(l.vanished, q.Worker)
		}
	}
}

// counter is what an await compares.
func (l *lab) counter(a node.Await) (int64, error) {
	if a.Topic == node.ReadyJobs {
		return l.queue.Signal(a.Part)
	}
	return l.queue.Calls(a.Worker)
}

func (l *lab) tell(e Event) {
	e.At = l.now.Sub(begin)
	for _, o := range l.observers {
		o.Observe(e)
	}
}
