package oracle

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// rounds are the invariants of the rounds of the queue, which bound waits under tags. What a transaction of a node
// reads may be as old as readAge, and so the queue has two sets of jobs here: those that surely waited when the
// transaction read it, and those that may have.
type rounds struct {
	*chronicle
	order   schedule.Order // as stored last
	stored  bool           // it was stored
	base    int64          // before the last change of order.Round.Base
	changed instant.Time   // when that was
	waiting map[string]*wait
	left    []wait // jobs that ceased to wait within readAge
}

// wait is a job that waits for a slot.
type wait struct {
	place       schedule.Place
	since, till instant.Time
	ends        int // rounds that ended meanwhile
}

var roundSubject = subject{
	invariants: []Invariant{
		{"S10k", "Under tags a node ends a round of the queue, and only then, when it has lasted for eight full " +
			"turns of the jobs that wait, as the node saw them and the other nodes. If the clock that began it is " +
			"behind the node's, it has lasted since the node looked last without seeing it."},
		{"S10l", "A round ends once, and nothing else changes with it; only another policy begins anew."},
		{"S10m", "A round begins with the last tag that waits, and new tags begin there if a job waited for the " +
			"whole round before. One that a clock began which was ahead begins again as it is."},
		{"S10n", "Under tags no new tag is before the first job that waits, nor before where the round has tags " +
			"begin."},
		{"S10o", "A job that waited when two rounds ended goes before all jobs that come since."},
	},
	begin: func(c *chronicle) {
		r := &rounds{chronicle: c, waiting: map[string]*wait{}}
		c.on.nodeUp.add(func(p *process) { p.round = roundSight{} })
		c.on.nodeStepped.add(r.nodeStepped)
		c.on.jobChanged.add(r.follow)
		c.on.followed.add(r.landed)
	},
}

// turnsOfRound is how many full turns a round has.
const turnsOfRound = 8

// lasts is how long a round should last with so many jobs ready, as a node knows the fleet; 0 when no job waits, or
// none gives way.
func (r *rounds) lasts(p *process, ready int64) float64 {
	slots, nodes := 0, 1
	if f := p.outlook.fleet(); r.w.Config().Exclusive() {
		slots = p.outlook.own.MaxJobs
	} else {
		nodes = len(f.nodes)
		for _, l := range f.nodes {
			slots += l.most
		}
	}
	churn := nodes * p.applied.MaxChurn
	if churn == 0 || slots == 0 {
		return 0
	}
	byChurn := float64(ready) / float64(churn) * float64(r.w.Config().Settings.Interval)
	byRuns := float64(ready) / float64(slots) * float64(p.applied.MinRun)
	return turnsOfRound * max(byChurn, byRuns)
}

// roundSight is the round that a node has seen last, and when it looked.
type roundSight struct {
	ending uint64 // the request to end a round, until it is answered
	of     schedule.Round
	looked node.Clock
	behind time.Duration // by how much its clock is behind the node's, if that is more than an interval
}

// sees takes note of the round that a node sees. One that it did not see before began since then.
func (s *roundSight) sees(round schedule.Round, now node.Clock, interval time.Duration) {
	if round != s.of {
		passed := now.Steady.Sub(s.looked.Steady)
		s.behind = now.Wall.Sub(round.Since) - passed
		if s.looked == (node.Clock{}) || round.Since == 0 || s.behind <= interval {
			s.behind = 0
		}
	}
	s.of, s.looked = round, now
}

// nodeStepped is S10k. A node that still tries to end a round does not try twice, and one that is not sure of the
// others may count them in another way.
func (r *rounds) nodeStepped(s nodeStep) {
	p := s.p
	done, _ := s.ev.(node.Done)
	if done.ID == p.round.ending && done.Fault == node.Committed {
		p.round.ending = 0
	}
	seen, sees := done.Result.(node.Surveyed)
	interval := r.w.Config().Settings.Interval // a clock may be behind that which began the round
	if sees = sees && !s.partial; sees {       // else the node has seen a part of the accounts so far
		p.round.sees(seen.Order.Round, p.Clock(), p.applied.Interval)
	}
	var asks *node.EndRound
	for _, e := range s.effects {
		ask, _ := e.(node.Ask)
		if q, is := ask.Request.(node.EndRound); is {
			if p.round.ending == 0 {
				asks = &q
			}
			p.round.ending = ask.ID
		}
	}
	if asks == nil && (!sees || p.round.ending != 0) || !p.outlook.sure && !r.w.Config().Exclusive() {
		return
	}
	const rounding = float64(time.Millisecond)
	lasts, lasted := r.lasts(p, seen.Ready), float64(p.Clock().Wall.Sub(seen.Order.Round.Since)-p.round.behind)
	over := seen.Order.Policy == schedule.Tags && lasts > 0 && (lasted < -float64(interval) || lasted >= lasts-rounding)
	switch {
	case asks != nil && (!over || asks.Seen != seen.Order.Round):
		r.Fail("S10k", "%s ends %+v of %s after %s, seeing %+v; with %d jobs that wait it lasts for %s", p.Name,
			asks.Seen, seen.Order.Policy, time.Duration(lasted), seen.Order.Round, seen.Ready, time.Duration(lasts))
	case asks == nil && over && lasted > lasts+rounding:
		r.Fail("S10k", "%s does not end %+v after %s; with %d jobs that wait it lasts for %s",
			p.Name, seen.Order.Round, time.Duration(lasted), seen.Ready, time.Duration(lasts))
	}
}

// follow takes note of jobs that begin and cease to wait, and judges their tags. A job that is made anew is taken out
// of the queue first, so that it finds the others.
func (r *rounds) follow(j jobChange) {
	var after wait
	h := j.after.header
	queued := h != nil && h.State == jobs.Pending && h.Lot == ""
	if queued {
		place, err := placeOf(h.Priority)
		if err != nil {
			r.unreadable("place of job "+j.id, err)
			return
		}
		after.place = place
	}
	now, was := r.w.Now(), r.waiting[j.id]
	waits := h != nil && h.Ready()
	stays := waits && was != nil && was.place == after.place
	if !stays {
		delete(r.waiting, j.id)
	}
	fresh := queued && (j.before.header == nil || j.anew && !bytes.Equal(j.before.header.Priority, h.Priority))
	if fresh || queued && hadTurn(j) {
		r.checkTag(j, after.place)
	}
	if stays {
		return
	}
	if was != nil {
		was.till = now
		r.left = append(r.left, *was)
	}
	if waits {
		after.since = now
		r.waiting[j.id] = &after
	}
}

// hadTurn reports whether a job is queued again after a turn that it pays for. The request that ends a turn may change
// jobs that wait for its replication, too. One that stands by has its turn still before it, which is S10j.
func hadTurn(j jobChange) bool {
	_, standsBy := j.Request.(node.StandBy)
	turn, _ := turnOf(j.Request)
	held, _ := heldBy(j.Request)
	return turn.Owed > 0 && held.JobID == j.id && !standsBy
}

// queueEnds are bounds of the first and the last tag of the queue, as a transaction may have read them. A job of an
// epoch before goes first, as if its tag was 0.
type queueEnds struct {
	first, last [2]int64
	surely      bool // a job waited
	empty       bool // surely no job waited
	old         bool // a job of an epoch before may have waited
}

// ends looks at the queue.
func (r *rounds) ends() queueEnds {
	read := r.w.Now().Add(-readAge)
	e := queueEnds{first: [2]int64{math.MaxInt64, math.MaxInt64}, empty: true}
	add := func(w wait, sure bool) {
		key := w.place.Key
		if w.place.Epoch != r.order.Epoch {
			key, e.old = 0, true
		}
		e.empty, e.first[0], e.last[1] = false, min(e.first[0], key), max(e.last[1], key)
		if sure {
			e.surely = true
			e.first[1], e.last[0] = min(e.first[1], key), max(e.last[0], key)
		}
	}
	for _, w := range r.waiting { // in any order
		add(*w, w.since < read)
	}
	recent := r.left[:0]
	for _, w := range r.left {
		if w.till >= read {
			recent = append(recent, w)
			add(w, false)
		}
	}
	r.left = recent
	return e
}

// writesSeveral reports whether a commit writes several documents: a job of one may enter where another one of them was
// the first, and give that place on when its own document comes.
func writesSeveral(l landing) bool { return l.Request == nil && len(l.jobs) > 1 }

// checkTag is S10n. The floor of tags is another one while no job waits, or one that was queued under another policy.
func (r *rounds) checkTag(j jobChange, got schedule.Place) {
	if r.sharing.Policy != schedule.Tags || !r.sharing.settled(r.w.Now()) || got.Epoch != r.order.Epoch {
		return
	}
	base := r.order.Round.Base
	if r.w.Now().Sub(r.changed) <= readAge {
		base = min(base, r.base)
	}
	_, sweeps := j.Request.(node.Sweep) // it may have removed all that waited when an heir comes back
	if e := r.ends(); e.surely && !e.old && !sweeps && !writesSeveral(j.landing) {
		base = max(base, min(e.first[0], r.firstDue(j.landing)))
	}
	if got.Key < base {
		r.Fail("S10n", "job %s is queued at %d by %v, and tags begin at %d", j.id, got.Key, j.Request, base)
	}
}

// firstDue is the first tag of the due jobs that a commit has made ready: they wait before those of lifted holds that
// it brings back.
func (r *rounds) firstDue(l landing) int64 {
	first := int64(math.MaxInt64)
	if _, promotes := l.Request.(node.Promote); !promotes {
		return first
	}
	for _, id := range l.jobs {
		h, err := r.w.Store().Jobs.Get(r.w.Present(), id)
		if err != nil || h == nil || !h.Ready() {
			continue
		}
		if place, err := placeOf(h.Priority); err == nil && place.Epoch == r.order.Epoch {
			first = min(first, place.Key)
		}
	}
	return first
}

// landed judges a commit that changes the order of jobs.
func (r *rounds) landed(l landing) {
	for _, m := range l.Mutations {
		if !bytes.Equal(m.Key, r.w.Store().Keys.Order) {
			continue
		}
		var order schedule.Order
		if err := json.Unmarshal(m.Value, &order); err != nil {
			r.unreadable("the order of jobs", err)
			return
		}
		before, stored := r.order, r.stored
		if r.order, r.stored = order, true; order.Round.Base != before.Round.Base {
			r.base, r.changed = before.Round.Base, r.w.Now()
		}
		q, ends := l.Request.(node.EndRound)
		if !ends {
			r.checkKept(before, order)
			continue
		}
		same := order
		same.Round = before.Round
		if q.Seen != before.Round || order.Round.Since != l.Wall || stored && same != before || len(l.jobs) > 0 {
			r.Fail("S10l", "the end of %+v at %s makes %+v of %+v, and changes jobs %v",
				q.Seen, l.Wall, order, before, l.jobs)
		}
		if order.Round.Since < before.Round.Since {
			r.checkAgain(before.Round, order.Round)
			continue
		}
		r.checkBegins(before.Round, order.Round)
		r.checkWaited()
	}
}

// checkKept is S10l for other changes. Jobs of another policy have other keys, with which tags have nothing to do.
func (r *rounds) checkKept(before, after schedule.Order) {
	want := before.Round
	if before.Epoch != after.Epoch {
		want = schedule.Round{}
		for _, w := range r.waiting {
			w.ends = 0
		}
	}
	if after.Round != want {
		r.Fail("S10l", "%s has %+v after a change of settings, and should have %+v",
			after.Policy, after.Round, want)
	}
}

// checkBegins is S10m.
func (r *rounds) checkBegins(before, after schedule.Round) {
	e := r.ends()
	moved := max(before.Base, after.Last)
	surely, maybe := e.first[1] < before.Last, e.first[0] < before.Last
	switch {
	case e.empty:
		r.Fail("S10m", "%+v begins, and no job waits", after)
	case after.Last < e.last[0] || after.Last > e.last[1]:
		r.Fail("S10m", "%+v begins, and the last tag that waits is from %d to %d",
			after, e.last[0], e.last[1])
	case after.Base != before.Base && (!maybe || after.Base != moved), surely && after.Base != moved:
		r.Fail("S10m", "%+v follows %+v, and the first job that waits is from %d to %d",
			after, before, e.first[0], e.first[1])
	}
}

// checkAgain is S10m for a round that was to begin later.
func (r *rounds) checkAgain(before, after schedule.Round) {
	if before.Since = after.Since; after != before {
		r.Fail("S10m", "%+v begins again as %+v", before, after)
	}
}

// checkWaited is S10o when a round has ended. A job that came just before may not have been seen, and the job that
// goes next needs nothing.
func (r *rounds) checkWaited() {
	first := r.ends().first[1]
	for id, w := range r.waiting { // in any order: one is enough
		if r.w.Now().Sub(w.since) > readAge {
			w.ends++
		}
		behind := w.place.Epoch == r.order.Epoch && w.place.Key > max(first, r.order.Round.Base)
		if w.ends >= 2 && behind {
			r.Fail("S10o", "job %s waits at %d since %s, and new tags begin at %d",
				id, w.place.Key, w.since, r.order.Round.Base)
		}
	}
}
