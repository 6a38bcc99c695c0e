package oracle

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
)

// balancing are the invariants of jobs that move from nodes that run many to nodes that run few. A node moves a
// job by stopping its run while no job waits and no slot is too many.
type balancing struct {
	*chronicle
	began map[*run]instant.Time // by the steady clock of the run's node
	moved map[string]move       // by the job, until it runs again
}

// move is a job that a node gave away.
type move struct {
	by    *process
	as    string       // its lease
	ready instant.Time // when it began to wait for a slot again; 0 before
}

var balanceSubject = subject{
	invariants: []Invariant{
		{"S33a", "A node moves jobs only while rebalance is on, and stops runs of its own jobs only when it " +
			"sees the queue, is configured or drains."},
		{"S33b", "Only continuous jobs move, after ten minutes and min_run_time in a slot."},
		{"S33c", "A node moves no more jobs at once than a quarter of max_churn."},
		{"S33d", "A node moves jobs only when a node is off its part of all by more than a fifth and two, and no " +
			"more than it has too many and others have too few."},
		{"S33e", "A node moves those jobs that are in the parts of nodes with too few, and to each no more than it " +
			"has too few."},
		{"S33f", "A job that moved is not taken back at once by the node that gave it away, while another has free " +
			"slots and the job is beside that node's part."},
		{"L9c", "Once all trouble is over and jobs have rested, each node runs about its part of all jobs."},
		{"L9d", "At rest no more jobs move than nodes have too many."},
		{"S33g", "A node with too many jobs moves some, up to its bounds, in each interval in which no job waits."},
	},
	begin: func(c *chronicle) {
		o := &balancing{chronicle: c, began: map[*run]instant.Time{}, moved: map[string]move{}}
		c.on.nodeStepped.add(o.stepped)
		c.on.runStarted.add(func(r *run) { o.began[r] = r.p.Steady() })
		c.on.runEnded.add(func(r *run) { delete(o.began, r) })
		c.on.jobChanged.add(o.follow)
	},
}

// Bounds of the moves.
const (
	rest         = 10 * time.Minute // in a slot, between two moves of a job
	movesInChurn = 4                // this part of max_churn may move at once
)

// stepped judges the runs that a node stops.
func (o *balancing) stepped(s nodeStep) {
	var stopped []*run
	goesOn := s.partial // the queue was not seen whole, or runs are lost
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.TellRun:
			if asksToGiveWay(e) {
				stopped = append(stopped, s.p.find(e.Run))
			}
		case node.StopRun:
			r := s.p.find(e.Run)
			if _, asked := s.ev.(node.RunGivesWay); asked && r.yields {
				continue // it was told to, for what was seen then
			}
			if o.shadows[r.JobID()] == nil || o.holds(r) { // else its job was taken away
				stopped = append(stopped, r)
			}
		case node.KillRun:
			goesOn = true
		}
	}
	done, _ := s.ev.(node.Done)
	switch got := done.Result.(type) {
	case node.Surveyed:
		if got.Ready == 0 && slotsOf(s.p).over == 0 && !goesOn {
			o.checkMoves(s.p, stopped)
		}
	default:
		o.checkCause(s, stopped)
	}
}

// checkCause is S33a for runs that a node stops for no reason that it has just heard of.
func (o *balancing) checkCause(s nodeStep, stopped []*run) {
	switch s.ev.(type) {
	case node.Configure, node.Drain:
		return
	}
	if done, is := s.ev.(node.Done); is {
		if owned, is := done.Result.(node.Owned); is { // users have them stopped
			stopped = slices.DeleteFunc(stopped, func(r *run) bool { return isOrdered(r, owned) })
		}
	}
	if len(stopped) > 0 {
		o.Fail("S33a", "%s stops %d runs after %v", s.p.Name, len(stopped), s.ev)
	}
}

// checkMoves judges which jobs a node moves.
func (o *balancing) checkMoves(p *process, stopped []*run) {
	if n := len(stopped); n > 0 && !p.applied.Rebalance {
		o.Fail("S33a", "%s moves %d jobs, and rebalance is off", p.Name, n)
	}
	for _, r := range stopped {
		if !r.Replication().Continuous || !o.rested(r) {
			o.Fail("S33b", "%s moves job %s, which is continuous: %t, and runs since %s",
				p.Name, r.JobID(), r.Replication().Continuous, r.Began())
		}
		o.moved[r.JobID()] = move{by: p, as: p.outlook.worker}
		o.moves++
	}
	atOnce := (p.applied.MaxChurn + movesInChurn - 1) / movesInChurn
	if len(stopped) > atOnce {
		o.Fail("S33c", "%s moves %d jobs at once; max_churn is %d", p.Name, len(stopped), p.applied.MaxChurn)
	}
	if p.outlook.sure && p.takesPart() {
		f := p.outlook.fleet()
		f.nodes[f.me].running = p.Running()
		then := f.balanced().parts()
		for _, r := range p.runs {
			to := slices.IndexFunc(then, func(part jobs.Part) bool { return part.Has(r.JobID()) })
			if r.yields && !r.stopped && to >= 0 { // it counts as moved
				f.nodes[f.me].running--
				f.nodes[to].running++
			}
		}
		o.checkBalance(p, f, stopped, atOnce)
	}
}

// takesPart reports whether a node is one of those that take jobs.
func (p *process) takesPart() bool {
	return p.Roles().Has(node.Replication) && !p.Draining() && !p.applied.Maintenance && p.duties[join].id == 0
}

// rested reports whether a run has lasted long enough to be moved.
func (o *balancing) rested(r *run) bool {
	return r.p.Steady().Sub(o.began[r]) >= max(rest, r.p.applied.MinRun)
}

// targets are how many jobs each node would run if all were spread by slots.
func (f fleet) targets() (list []int) {
	slots, running := 0, 0
	for _, l := range f.nodes {
		slots, running = slots+l.most, running+l.running
	}
	for _, l := range f.nodes {
		list = append(list, running*l.most/max(1, slots))
	}
	return list
}

// uneven reports whether a node is off its target by more than a fifth of it and by more than two.
func (f fleet) uneven() bool {
	for i, target := range f.targets() {
		off := max(f.nodes[i].running-target, target-f.nodes[i].running)
		if off > max(2, target/5) {
			return true
		}
	}
	return false
}

// lacks is how many jobs each other node has too few and could take, and all of them together.
func (f fleet) lacks() (each []int, all int) {
	for i, target := range f.targets() {
		n := 0
		if i != f.me {
			n = max(0, min(target-f.nodes[i].running, f.nodes[i].free()))
		}
		each, all = append(each, n), all+n
	}
	return each, all
}

// balanced is the fleet when all nodes run their targets.
func (f fleet) balanced() fleet {
	b := fleet{me: f.me}
	for i, target := range f.targets() {
		b.nodes = append(b.nodes, room{f.nodes[i].name, f.nodes[i].most, target})
	}
	return b
}

// checkBalance is S33d, S33e and S33g. Those jobs move that will be in the parts of nodes with too few when all
// nodes run their targets, and are beside the part of the node that gives them away now.
func (o *balancing) checkBalance(p *process, f fleet, stopped []*run, atOnce int) {
	lacks, all := f.lacks()
	surplus := max(0, min(f.nodes[f.me].running-f.targets()[f.me], all))
	if !f.uneven() {
		surplus = 0
	}
	if len(stopped) > surplus {
		o.Fail("S33d", "%s moves %d jobs, and of %+v that is for %d", p.Name, len(stopped), f, surplus)
	}
	then, own, gives := f.balanced().parts(), p.outlook.fleet().own(), make([]int, len(lacks))
	for _, r := range stopped {
		fits := false
		for i, lack := range lacks {
			fits = fits || lack > 0 && then[i].Has(r.JobID()) && !own.Has(r.JobID())
			if then[i].Has(r.JobID()) {
				gives[i]++
			}
		}
		if !fits {
			o.Fail("S33e", "%s moves job %s, and of %+v it is no node's that has too few",
				p.Name, r.JobID(), f)
		}
	}
	could, able := make([]int, len(lacks)), 0
	for i, lack := range lacks {
		if gives[i] > lack {
			o.Fail("S33e", "%s moves %d jobs to one node of %+v, which lacks %d", p.Name, gives[i], f, lack)
		}
		for _, r := range p.runs {
			if o.mayMove(r) && then[i].Has(r.JobID()) && !own.Has(r.JobID()) {
				could[i]++
			}
		}
		able += min(could[i], lack)
	}
	full := p.Running() > p.applied.MaxJobs // with a run that is over, or whose slot has gone meanwhile
	if due := min(surplus, atOnce, able); p.applied.Rebalance && !full && len(stopped) < due {
		o.Fail("S33g", "%s moves %d jobs of %+v, and could %d", p.Name, len(stopped), f, due)
	}
}

// mayMove reports whether a job could move.
func (o *balancing) mayMove(r *run) bool {
	return r.goesOn() && r.Replication().Continuous && o.rested(r)
}

// follow is S33f for a job that is taken again after it moved. A job that has waited for longer than the
// patience is anybody's.
func (o *balancing) follow(j jobChange) {
	m, was := o.moved[j.id]
	if !was {
		return
	}
	now := o.w.Now()
	switch h := j.after.header; {
	case h == nil || h.State == jobs.Finished || h.Due != 0:
		delete(o.moved, j.id)
	case h.State == jobs.Pending && m.ready == 0:
		m.ready = now
		o.moved[j.id] = m
	case h.State == jobs.Running && m.ready > 0:
		delete(o.moved, j.id)
		back := h.Lock.Worker == m.as
		if back && now.Sub(m.ready) < patience {
			o.checkBack(j.id, m.by)
		}
	}
}

// checkBack is S33f. All nodes but the one that gave the job away have to be well, for a moment too, since that
// one goes by what it was told when it asked. A heartbeat before that may have brought the job into its part. A node
// that asks for a job which it had left to others takes along those behind it.
func (o *balancing) checkBack(id string, by *process) {
	others := false
	for _, p := range o.nodes {
		if p != by && p.Alive() && p.takes() && !p.Disturbed() {
			others = true
		}
	}
	knew := by.outlook.asked
	if others && by.outlook.sure && knew.sure && knew.left == "" && !knew.fleet.own().Has(id) {
		o.Fail("S33f", "job %s moved away from %s, which takes it back; %+v", id, by.Name, knew.fleet)
	}
}

// present is the fleet as it is. Each node's place is the one that its name as a worker has.
func (o *Oracle) present() (f fleet, all []*process) {
	for _, p := range o.nodes {
		if p.Alive() && p.takesPart() {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *process) int { return cmp.Compare(a.outlook.worker, b.outlook.worker) })
	for _, p := range all {
		f.nodes = append(f.nodes, room{p.outlook.worker, p.MaxJobs(), p.Running()})
	}
	return f, all
}

// Evening is what has to move until each node runs about its part of all jobs, at rest.
type Evening struct {
	Lasts time.Duration // at most; 0 for nothing
	moves int           // so far
	most  int           // that may come
}

// Uneven is what has to move now.
func (o *Oracle) Uneven() (e Evening) {
	f, all := o.present()
	if len(all) < 2 || !f.uneven() || o.JobsReady() > 0 {
		return e
	}
	for i, target := range f.targets() {
		p := all[i].applied
		surplus, atOnce := max(0, f.nodes[i].running-target), (p.MaxChurn+movesInChurn-1)/movesInChurn
		if !p.Rebalance || surplus > 0 && atOnce == 0 {
			return Evening{}
		}
		rounds := time.Duration(3 + surplus/max(1, atOnce))
		e.most += surplus
		e.Lasts = max(e.Lasts, max(rest, p.MinRun)+rounds*(p.Interval+p.StopTimeout))
	}
	e.moves = o.moves
	return e
}

// CheckEven is L9c and L9d, when the time has passed. Nodes may be off while none of their jobs that have rested
// is another's that has too few, for ids fall into parts by chance.
func (o *Oracle) CheckEven(e Evening) {
	if n := o.moves - e.moves; n > e.most {
		o.Fail("L9d", "%d jobs moved, and nodes had %d too many", n, e.most)
	}
	f, all := o.present()
	if len(all) < 2 || !f.uneven() || o.JobsReady() > 0 {
		return
	}
	then, now, targets := f.balanced().parts(), f.parts(), f.targets()
	for i, p := range all {
		f.me = i
		lacks, _ := f.lacks()
		for _, r := range p.runs {
			for to, lack := range lacks {
				movable := lack > 0 && then[to].Has(r.JobID()) && !now[i].Has(r.JobID())
				rested := o.w.Now().Sub(r.Began()) > max(rest, p.applied.MinRun)+p.applied.Interval
				if movable && rested && f.nodes[i].running > targets[i] && r.goesOn() && r.Replication().Continuous {
					o.Fail("L9c", "%s keeps job %s, and the nodes run %+v", p.Name, r.JobID(), f)
				}
			}
		}
	}
}
