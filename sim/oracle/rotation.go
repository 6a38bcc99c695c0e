package oracle

import (
	"slices"

	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// rotations are the invariants of which runs a node stops so that waiting jobs get their turns. A node above
// its max_jobs has to stop runs whatever waits, and so may stop more of them, and younger ones.
type rotations struct {
	*chronicle
	gaveWay map[node.Held]schedule.Place // the first place that waited when a job gave way
}

var rotationSubject = subject{
	invariants: []Invariant{
		{"S6a", "A rotation stops no more runs than max_churn, or than there are above max_jobs."},
		{"S6b", "One-shots and runs that have just begun are stopped only above max_jobs, and one-shots " +
			"last."},
		{"S6c", "A rotation stops no more runs than jobs wait for which no slot is free."},
		{"S6e", "A job that a node has no slot for any more keeps its place."},
		{"S6f", "A job gives way only to jobs that stand before it."},
		{"S6g", "Waiting jobs get the slots of runs that stand behind them, up to max_churn at once."},
		{"S6i", "Runs for which a node has no slot any more are stopped at once, those first that give way already; " +
			"no others are."},
		{"S6h", "Of the runs that could give way those do which stand last, and of an account those that " +
			"ran longest."},
	},
	begin: func(c *chronicle) {
		o := &rotations{c, map[node.Held]schedule.Place{}}
		c.on.nodeStepped.add(o.nodeStepped)
	},
}

// nodeStepped judges which jobs a node starts and stops after it accepted jobs or saw the queue.
func (o *rotations) nodeStepped(s nodeStep) {
	var stopped, cut []*run
	killed := false // with its lease, a node loses all runs at once
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.Ask:
			o.checkGaveWay(e.Request)
		case node.TellRun:
			if asksToGiveWay(e) {
				stopped = append(stopped, s.p.find(e.Run))
			}
		case node.StopRun:
			cut = append(cut, s.p.find(e.Run))
		case node.KillRun:
			killed = true
		}
	}
	done, _ := s.ev.(node.Done)
	switch got := done.Result.(type) {
	case node.Accepted:
		o.checkReturned(s.p, got, s.effects)
	case node.Surveyed:
		if s.partial || got.Ready == 0 && slotsOf(s.p).over == 0 {
			break // the queue was not seen whole; or nothing waits, and these runs move to other nodes
		}
		o.checkCut(s.p, cut)
		stopped = append(stopped, slices.DeleteFunc(cut, func(r *run) bool { return r.yields })...)
		o.noteGivesWay(s.p, got, stopped)
		o.checkBounds(s.p, got, stopped)
		o.checkLast(s.p, stopped)
		if !killed {
			o.checkTurns(s.p, got, len(stopped))
		}
	}
}

// asksToGiveWay reports whether a node has a run give way.
func asksToGiveWay(e node.Effect) bool {
	tell, _ := e.(node.TellRun)
	_, is := tell.Event.(replication.GiveWay)
	return is
}

// slots are the slots of a node: how many it has, how many runs go on, how many of these are too many, how
// many slots are free. Runs that are to give way and have not said yet that they do hold theirs; with them more may be
// too many (over).
type slots struct{ most, going, yields, excess, over, free int }

func slotsOf(p *process) slots {
	s := slots{most: p.MaxJobs()}
	for _, r := range p.runs {
		if r.goesOn() {
			s.going++
		} else if !r.stopped {
			s.yields++
		}
	}
	s.excess, s.over = max(0, s.going-s.most), max(0, s.going+s.yields-s.most)
	s.free = max(0, s.most-(s.going-s.excess)-s.yields)
	return s
}

// isYoung reports whether a run has just begun, by the engine's clock.
func (o *rotations) isYoung(r *run) bool { return o.w.Now().Sub(r.Began()) < r.p.applied.MinRun }

// mayGiveWay reports whether a run could be stopped for waiting jobs as its node sees it: one that goes on,
// is continuous, and has run for long enough by the node's steady clock, which was behind while the machine
// was suspended.
func (o *rotations) mayGiveWay(r *run) bool {
	ran := o.w.Now().Sub(r.Began()) - r.p.Lag()
	return r.goesOn() && r.Replication().Continuous && ran >= r.p.applied.MinRun
}

// noteGivesWay remembers for which place runs are stopped. Only under fair share do places of runs never
// fall.
func (o *rotations) noteGivesWay(p *process, seen node.Surveyed, stopped []*run) {
	if slotsOf(p).excess > 0 || len(seen.First) == 0 || seen.Order.Policy != schedule.FairShare {
		return
	}
	for _, r := range stopped {
		o.gaveWay[r.Held()] = seen.First[0]
	}
}

// checkCut is S6i. A run that has not begun, since its job's run before still stops, is not told to stop.
func (o *rotations) checkCut(p *process, cut []*run) {
	s, yields := slotsOf(p), 0
	for _, r := range cut {
		if r.yields {
			yields++
		}
	}
	if n := len(cut); n < s.over || n > s.over+o.successors(p) || yields < min(s.over, s.yields) {
		o.Fail("S6i", "%s stops %d runs at once, %d that gave way; max_jobs is %d, it had %d, and %d gave way",
			p.Name, n, yields, s.most, s.going+s.yields, s.yields)
	}
}

// checkBounds is S6a, S6b and S6c.
func (o *rotations) checkBounds(p *process, seen node.Surveyed, stopped []*run) {
	s, continuous := slotsOf(p), 0
	for _, r := range p.runs {
		if r.goesOn() && r.Replication().Continuous {
			continuous++
		}
	}
	spared, oneShots := 0, 0 // of those stopped: that should rather go on
	for _, r := range stopped {
		isOneShot := !r.Replication().Continuous
		if isOneShot {
			oneShots++
		}
		if isOneShot || o.isYoung(r) {
			spared++
		}
	}
	stops, churn := len(stopped), p.applied.MaxChurn
	if stops > max(s.excess, churn) {
		o.Fail("S6a", "%s stops %d of %d runs at once; max_churn is %d, max_jobs %d",
			p.Name, stops, s.going, churn, s.most)
	}
	if spared > s.excess {
		o.Fail("S6b", "%s stops %d one-shots or runs that have just begun; max_jobs is %d, and it had %d",
			p.Name, spared, s.most, s.going)
	}
	if left := continuous - (stops - oneShots); oneShots > 0 && left > 0 {
		o.Fail("S6b", "%s stops %d one-shots, and %d continuous jobs go on", p.Name, oneShots, left)
	}
	if stops-s.excess > max(0, len(seen.First)-max(0, s.free-o.successors(p))) {
		o.Fail("S6c", "%s stops %d of %d runs; max_jobs is %d, %d slots are free, and %d jobs wait",
			p.Name, stops, s.going, s.most, s.free, len(seen.First))
	}
}

// successors is the number of jobs that a node has taken once more while their runs before stop: it keeps slots for
// them, and starts them afterwards.
func (o *rotations) successors(p *process) (n int) {
	for _, r := range p.runs {
		s, own := o.shadows[r.JobID()], r.Held().Lock
		if r.stopped && s != nil && s.header != nil && s.header.State == jobs.Running &&
			s.header.Lock.Worker == own.Worker && s.header.Lock != own {
			n++
		}
	}
	return n
}

// checkReturned is S6e. Such jobs come when max_jobs is lowered while a node asks for jobs.
func (o *rotations) checkReturned(p *process, got node.Accepted, effects []node.Effect) {
	for _, e := range effects {
		ask, _ := e.(node.Ask)
		back, is := ask.Request.(node.Requeue)
		for _, w := range got.Work {
			if is && w.JobID == back.JobID && w.Lock == back.Lock && back.Turn.Place.Compare(w.Place) < 0 {
				o.Fail("S6e", "%s has no slot for job %s, which stood at %v, and puts it at %v",
					p.Name, back.Held, w.Place, back.Turn.Place)
			}
		}
	}
}

// checkGaveWay is S6f: places of runs only grow under fair share, so that a job which stands before the first
// that waited when it is queued again stood there before. A half-life is left for rounding.
func (o *rotations) checkGaveWay(q node.Request) {
	requeue, is := q.(node.Requeue)
	if !is {
		return
	}
	first, gave := o.gaveWay[requeue.Held]
	delete(o.gaveWay, requeue.Held)
	if place := requeue.Turn.Place; gave && place.Epoch == first.Epoch && place.Key < first.Key-aHalfLife {
		o.Fail("S6f", "job %s gave way, though it stands at %d and the first that waited at %d",
			requeue.JobID, place.Key, first.Key)
	}
}

// checkTurns is S6g. The waiting jobs for which slots are free need no rotation.
func (o *rotations) checkTurns(p *process, seen node.Surveyed, stops int) {
	s, behind, churn := slotsOf(p), 0, p.applied.MaxChurn
	waiting := seen.First[min(s.free, len(seen.First)):]
	due := min(len(waiting), churn-s.excess)
	if due <= 0 {
		return
	}
	last, clock := waiting[due-1], clockOf(seen.Order.Decay, p.Clock().Wall)
	for _, r := range p.runs {
		if known := o.tabs[r.Held()]; known != nil && o.mayGiveWay(r) && known.behind(last, clock) {
			behind++
		}
	}
	if ready := min(due, behind-s.excess); stops-s.excess < ready {
		o.Fail("S6g",
			"%s stops %d of %d runs, and %d more jobs wait that are before %d runs; "+
				"max_churn is %d, max_jobs %d",
			p.Name, stops, s.going, len(waiting), behind, churn, s.most)
	}
}

// checkLast is S6h.
func (o *rotations) checkLast(p *process, stopped []*run) {
	for _, stays := range p.runs {
		if !o.mayGiveWay(stays) || slices.Contains(stopped, stays) {
			continue
		}
		for _, goes := range stopped {
			if goes.Replication().Continuous {
				o.checkPair(p, stays, goes)
			}
		}
	}
}

// checkPair is S6h for a run that stays and one that gives way. Under fair share they are compared by where
// they stand, and else, within an account, by when they began; but for jobs whose weights have them stand before.
func (o *rotations) checkPair(p *process, stays, goes *run) {
	a, b := o.tabs[stays.Held()], o.tabs[goes.Held()]
	if a == nil || b == nil {
		return
	}
	order := p.sight.order
	if order.Policy == schedule.FairShare {
		if a.surelyBehind(&b.standing, clockOf(order.Decay, p.Clock().Wall)) {
			o.Fail("S6h", "%s stops job %s at %.0f, and keeps %s at %.0f",
				p.Name, goes.Held(), b.key, stays.Held(), a.key)
		}
		return
	}
	if _, seen := p.sight.accounts[a.account]; seen && a.account == b.account && defined(order.Policy) &&
		stays.Began() < goes.Began() && a.key+a.slack >= b.key {
		o.Fail("S6h", "%s stops job %s, which began at %s, and keeps %s of %s",
			p.Name, goes.Held(), goes.Began(), stays.Held(), stays.Began())
	}
}
