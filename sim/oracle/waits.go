package oracle

import (
	"math"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// waits are the invariants of how long jobs wait for a slot. Nothing is promised while there is trouble.
type waits struct {
	*chronicle
	queued map[string]*queued // jobs that wait while there is no trouble, by id
}

// queued is a job that waits for a slot.
type queued struct {
	place  schedule.Place
	turn   time.Duration // the longest full turn while it waited
	waited time.Duration // without excuse
	decays float64       // what the clock of decay shows, at most, when its priority has decayed to 1
}

var waitSubject = subject{
	invariants: []Invariant{
		{"L11", "While there is no trouble and max_churn is not 0, a job waits for no more than a full turn of " +
			"all that wait in its part under fifo, 17 under tags, and under fair share one after its priority has " +
			"decayed to 1, whatever its weight."},
	},
	begin: func(c *chronicle) {
		w := &waits{c, map[string]*queued{}}
		c.on.jobChanged.add(w.follow)
		c.on.ticked.add(func(world.Ticked) { w.tick() })
	},
}

// firstTurns are the first slots of jobs since all trouble is over.
type firstTurns struct {
	had  map[string]bool
	last instant.Time // when one of them began
}

// follow notes turns. A job that ceases to wait in another way waits anew.
func (w *waits) follow(j jobChange) {
	h := j.after.header
	if h != nil && h.Ready() {
		return
	}
	delete(w.queued, j.id)
	if runs := h != nil && h.State == jobs.Running; runs && w.w.Now() >= w.w.End() && !w.firstTurns.had[j.id] {
		w.firstTurns.had[j.id], w.firstTurns.last = true, w.w.Now()
	}
}

// tickOfWorld is the time between two facts Ticked.
const tickOfWorld = 30 * time.Second

// tick counts for how long each job waits, which is L11.
func (w *waits) tick() {
	order, err := w.w.Store().Order(w.w.Present())
	if err != nil || !defined(order.Policy) || !w.promised(order.Policy) {
		return
	}
	ready := []string(nil)
	for id, s := range w.shadows {
		if _, dropped := w.dropped[s.instance()]; !dropped && s.header != nil && s.header.Ready() {
			ready = append(ready, id)
		}
	}
	slices.Sort(ready)
	turn, clock := w.fullTurn(len(ready)), clockOf(order.Decay, w.w.Now())
	excused := w.excused(turn)
	for _, id := range ready {
		q := w.queued[id]
		place, err := placeOf(w.shadows[id].header.Priority)
		if err != nil {
			return // S3a judges what cannot be read
		}
		if q == nil || q.place != place {
			q = &queued{place: place, decays: min(float64(place.Key)/aHalfLife, clock+mostDecay)}
			w.queued[id] = q
		}
		q.turn = max(q.turn, turn)
		if excused || w.comesLater(q, order, clock) {
			continue
		}
		q.waited += tickOfWorld
		if most := q.bound(order) + w.handover(); q.waited > most {
			w.Fail("L11", "job %s of weight %.0f waits at %+v under %s for %s, with a full turn of %s; the bound is %s",
				id, weightOf(w.shadows[id].record), q.place, order.Policy, q.waited, q.turn, most)
		}
	}
}

// promised reports whether all trouble is over, or there never is any. Until then users make jobs, which go first under
// fifo.
func (w *waits) promised(policy schedule.Policy) bool {
	c := w.w.Config()
	return w.w.Now() >= w.w.End() || len(c.Rates) == 0 && len(c.Events) == 0 && policy != schedule.FIFO
}

// mostDecay is more than the half-lives in which any priority decays to 1: priorities are numbers of 64 bits.
const mostDecay = 64

// comesLater reports whether jobs that are queued now may go before a waiting one, so no bound counts: its priority
// has not decayed to 1, or under fifo its last turn ended by a clock that was ahead, but by too little for nodes to
// find that.
func (w *waits) comesLater(q *queued, order schedule.Order, clock float64) bool {
	switch {
	case q.place.Epoch != order.Epoch:
		return false
	case order.Policy == schedule.FairShare:
		return clock < q.decays
	case order.Policy == schedule.FIFO:
		ahead := instant.Time(q.place.Key).Sub(w.w.Now())
		return 0 < ahead && ahead <= wrongClock && !w.late()
	}
	return false
}

// wrongClock is by how much a clock must have been ahead for nodes to find that it was.
const wrongClock = 10 * time.Minute

// bound is how long a job waits at most when comesLater is over: for a full turn, and under tags for two rounds before.
func (q *queued) bound(order schedule.Order) time.Duration {
	if order.Policy == schedule.Tags && q.place.Epoch == order.Epoch {
		return (2*turnsOfRound + 1) * q.turn
	}
	return q.turn
}

// fullTurn is the time in which each of so many jobs that wait gets a slot: in every interval as many runs give way
// in each node as may and have run for long enough. Nodes take jobs of their part first, so the largest part takes the
// longest. It is 0 when no run may give way.
func (w *waits) fullTurn(ready int) time.Duration {
	interval, minRun := time.Duration(0), time.Duration(0)
	slots, churn, parts := 0, 0, 0
	for _, p := range w.nodes {
		s := p.Settings()
		if p.Alive() && p.Roles().Has(node.Replication) && s.MaxChurn > 0 {
			slots, churn, parts = slots+p.MaxJobs(), churn+min(p.MaxJobs(), s.MaxChurn), parts+1
			interval, minRun = max(interval, s.Interval), max(minRun, s.MinRun)
		}
	}
	if churn == 0 {
		return 0
	}
	n := time.Duration(float64(ready) * largest(ready, parts))
	return max(n*interval/time.Duration(churn), n*(minRun+interval)/time.Duration(slots))
}

// largest is by how much the largest of so many parts may exceed its fair share of jobs whose ids are random: by four
// standard deviations, but no part has more than all.
func largest(jobs, parts int) float64 {
	return min(float64(parts), 1+4*math.Sqrt(float64(parts)/float64(max(jobs, 1))))
}

// handover is by how much waits are longer since nodes look at the queue once in an interval, for the ends of two
// rounds and for the turn, and since runs need time to stop.
func (w *waits) handover() time.Duration {
	s := w.w.Config().Settings
	return 4*s.Interval + s.PollInterval + 2*s.StopTimeout + time.Minute
}

// late reports whether the world should have come to rest long ago.
func (w *waits) late() bool { return w.w.Now() >= w.w.End().Add(w.w.Config().Settle) }

// excused reports whether jobs may have to wait for more than turns: no run gives way, nodes come back or leave,
// a dead one still has its part of all jobs, settings change, or one-shots run, which keep their slots until they end.
func (w *waits) excused(turn time.Duration) bool {
	if w.late() {
		return false
	}
	if turn == 0 {
		return true
	}
	for _, p := range w.nodes {
		if !p.Alive() || p.Draining() || p.Paused() {
			return true
		}
	}
	return w.mourns() || !w.sharing.settled(w.w.Now()) ||
		slices.ContainsFunc(w.runs, func(r *run) bool { return !r.Replication().Continuous })
}

// mourns reports whether the fleet still waits for the lease of a dead worker to end. Until then the others leave its
// part of the jobs to it while they have jobs of their own.
func (w *waits) mourns() bool {
	for worker, l := range w.leases {
		dead := !slices.ContainsFunc(w.nodes, func(p *process) bool { return p.Alive() && isOf(worker, p.Worker()) })
		if dead && !l.gone && w.w.Now() < l.end().Add(time.Minute) {
			return true
		}
	}
	return false
}

// Limit is when a world must have come to rest: settle after the end of all trouble, and after the first turn that each
// job has had since. A job that has had none goes on to wait for as long as L11 says.
func (o *Oracle) Limit(settle time.Duration) instant.Time {
	limit := max(o.w.End(), o.firstTurns.last).Add(settle)
	if !defined(o.sharing.Policy) {
		return limit
	}
	for id, s := range o.shadows { // in any order
		if s.header != nil && s.header.Ready() && !o.firstTurns.had[id] {
			return max(limit, o.w.Now().Add(tickOfWorld))
		}
	}
	return limit
}
