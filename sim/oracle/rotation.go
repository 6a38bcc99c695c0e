package oracle

import (
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// places are the invariants of where jobs stand, and which give way.
type places struct {
	*chronicle
	yields map[node.Held]schedule.Place // the first place that waited when a job gave way
	owes   map[node.Held]*owing         // of runs whose end is not told yet
}

var placeSubject = subject{
	invariants: []Invariant{{"S6", "A rotation stops as many as there are jobs before them, no more than max_churn, and nobody while slots are free."}},
	begin: func(c *chronicle) {
		o := &places{c, map[node.Held]schedule.Place{}, map[node.Held]*owing{}}
		c.on.nodeStepped.add(o.owingStepped)
		c.on.nodeStepped.add(o.rotationStepped)
		c.on.runStarted.add(o.begins)
		c.on.runSaidEnd.add(o.says)
		c.on.runEnded.add(o.turnOver)
		c.on.jobMoved.add(o.checkTurn)
	},
}

// begins is told of a run that begins its turn.
func (o *places) begins(r *run) {
	now, place := r.p.Clock().Steady, r.Work().Place
	o.owes[r.Held()] = &owing{until: now, standing: standing{epoch: place.Epoch, key: float64(place.Key), grown: now}, account: r.Record().Account()}
}

// says is told of what a run says at its end.
func (o *places) says(e ending) {
	if known := o.owes[e.Held()]; known != nil {
		known.said = &e.end.Info.Counters
	}
}

// rotationStepped is S6: a rotation stops no more runs than max_churn, none for a job behind it or while slots are free,
// no one-shots, and none that has just begun, but for those above max_jobs, of which one-shots are the last to go.
func (o *places) rotationStepped(s nodeStep) {
	var stopped []*run
	killed := false
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.Ask:
			o.checkRequeue(e.Request)
		case node.StopRun:
			stopped = append(stopped, s.p.find(e.Run))
		case node.KillRun:
			killed = true
		}
	}
	done, _ := s.ev.(node.Done)
	switch got := done.Result.(type) {
	case node.Accepted:
		o.checkUnwanted(s.p, got, s.effects)
	case node.Surveyed:
		o.checkRotation(s.p, got, stopped)
		o.checkYields(s.p, stopped)
		if !killed { // it has its lease still
			o.checkTurns(s.p, got, len(stopped))
		}
	}
}

// slots are those of a node: how many it has, how many runs go on, how many of these are too many, how many slots are free.
type slots struct{ most, going, excess, free int }

func slotsOf(p *process) slots {
	s := slots{most: p.MaxJobs()}
	for _, r := range p.runs {
		if !r.stopped {
			s.going++
		}
	}
	s.excess = max(0, s.going-s.most)
	s.free = s.most - (s.going - s.excess)
	return s
}

func (o *places) checkRotation(p *process, seen node.Surveyed, stopped []*run) {
	s, continuous := slotsOf(p), 0
	for _, r := range p.runs {
		if !r.stopped && r.Replication().Continuous {
			continuous++
		}
	}
	unripe, oneShots := 0, 0
	for _, r := range stopped {
		isContinuous := r.Replication().Continuous
		if !isContinuous {
			oneShots++
		}
		if !isContinuous || o.w.Now().Sub(r.Began()) < p.Settings().MinRun {
			unripe++
		}
		if s.excess == 0 && len(seen.First) > 0 && seen.Order.Policy == schedule.FairShare {
			o.yields[r.Held()] = seen.First[0]
		}
	}
	stops := len(stopped)
	if stops > max(s.excess, p.Settings().MaxChurn) {
		o.Fail("S6", "%s stops %d of %d runs at once; max_churn is %d, max_jobs %d", p.Name, stops, s.going, p.Settings().MaxChurn, s.most)
	}
	if unripe > s.excess {
		o.Fail("S6", "%s stops %d one-shots or runs that have just begun; max_jobs is %d, and it had %d", p.Name, unripe, s.most, s.going)
	}
	if spared := continuous - (stops - oneShots); oneShots > 0 && spared > 0 {
		o.Fail("S6", "%s stops %d one-shots, and %d continuous jobs go on", p.Name, oneShots, spared)
	}
	if stops-s.excess > max(0, len(seen.First)-s.free) {
		o.Fail("S6", "%s stops %d of %d runs; max_jobs is %d, %d slots are free, and %d jobs wait", p.Name, stops, s.going, s.most, s.free, len(seen.First))
	}
}

// checkSurvey is a part of S6: a node looks at as many waiting jobs as could have a slot now.
func (o *places) checkSurvey(p *process, q node.Survey) {
	if could := p.Settings().MaxChurn + max(0, p.MaxJobs()-p.Running()); !p.sight.again && q.First < could {
		o.Fail("S6", "%s looks at %d waiting jobs; max_churn and its free slots are for %d", p.Name, q.First, could)
	}
}

// checkUnwanted is a part of S6: a job for which there is no slot any more when it comes keeps its place.
func (o *places) checkUnwanted(p *process, got node.Accepted, effects []node.Effect) {
	for _, e := range effects {
		ask, _ := e.(node.Ask)
		back, is := ask.Request.(node.Requeue)
		for _, w := range got.Work {
			if is && w.JobID == back.JobID && w.Lock == back.Lock && back.Turn.Place.Compare(w.Place) < 0 {
				o.Fail("S6", "%s has no slot for job %s, which stood at %v, and puts it at %v", p.Name, back.Held, w.Place, back.Turn.Place)
			}
		}
	}
}

// aHalfLife is how far the place of a run may seem to fall by rounding.
const aHalfLife = 1 << 32

// checkRequeue compares the place of a job that gave way with the first that waited then. Places of runs only
// grow.
func (o *places) checkRequeue(q node.Request) {
	requeue, is := q.(node.Requeue)
	if !is {
		return
	}
	first, gave := o.yields[requeue.Held]
	delete(o.yields, requeue.Held)
	if place := requeue.Turn.Place; gave && place.Epoch == first.Epoch && place.Key < first.Key-aHalfLife {
		o.Fail("S6", "job %s gave way, though it stands at %d and the first that waited at %d", requeue.JobID, place.Key, first.Key)
	}
}

// checkTurns is a part of S6: those that wait take the places of runs that stand behind them, up to max_churn.
func (o *places) checkTurns(p *process, seen node.Surveyed, stops int) {
	s, behind := slotsOf(p), 0
	waiting := seen.First[min(s.free, len(seen.First)):]
	due := min(len(waiting), p.Settings().MaxChurn-s.excess)
	if due <= 0 {
		return
	}
	last, clock := waiting[due-1], clockOf(seen.Order.Decay, p.Clock().Wall)
	for _, r := range p.runs {
		stands := o.owes[r.Held()]
		if r.stopped || !r.Replication().Continuous || stands == nil || o.w.Now().Sub(r.Began())-p.Lag() < p.Settings().MinRun {
			continue
		}
		if last.Epoch < stands.epoch || last.Epoch == stands.epoch && stands.after(last.Key, clock) {
			behind++
		}
	}
	if ready := min(due, behind-s.excess); stops-s.excess < ready {
		o.Fail("S6", "%s stops %d of %d runs, and %d more jobs wait that are before %d runs; max_churn is %d, max_jobs %d",
			p.Name, stops, s.going, len(waiting), behind, p.Settings().MaxChurn, s.most)
	}
}
