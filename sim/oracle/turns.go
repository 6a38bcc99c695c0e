package oracle

import (
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
)

// turns are the invariants of the turns that nodes tell of their runs: how long jobs ran while others
// waited, and where they stand now. A node goes by the queue as it last saw it, and so does
// this account of it, by the node's own clocks: pauses and clocks that are set excuse nothing.
type turns struct{ *chronicle }

var turnSubject = subject{
	invariants: []Invariant{
		{"S6d", "A node that looks at the queue asks for as many waiting jobs as could have a slot."},
		{"S9e", "A job owes for its turn the time in which it ran while others waited, as its node saw."},
		{"S10h", "A node sees the shares that an account has."},
		{"S10i", "A run that ends tells where its job stands by the policy's definition."},
		{"S16f", "The request that ends a job tells the numbers that its run ended with."},
	},
	begin: func(c *chronicle) {
		t := &turns{c}
		c.on.nodeStepped.add(t.nodeStepped)
		c.on.runStarted.add(t.begins)
		c.on.runSaidEnd.add(t.saidEnd)
		c.on.runEnded.add(t.ended)
	},
}

// tab is the debt of a run's job for its turn, and where the job stands.
type tab struct {
	standing
	owed  time.Duration        // for which the run had its slot while others waited
	until instant.Time         // of owed, by the node's steady clock; Never when the run is over
	said  *checkpoint.Counters // by the run at its end; nil before
}

// begins opens the tab of a run.
func (t *turns) begins(r *run) {
	now, place := r.p.Clock().Steady, r.Work().Place
	stands := standing{
		account: r.Record().Account(), period: t.growthInterval(), weight: weightOf(r.Record()), began: place,
		epoch: place.Epoch, key: float64(place.Key), grown: now,
	}
	t.tabs[r.Held()] = &tab{standing: stands, until: now}
}

// saidEnd notes the last word of a run.
func (t *turns) saidEnd(e ending) {
	if known := t.tabs[e.Held()]; known != nil {
		known.said = &e.end.Info.Counters
	}
}

// ended closes the tab of a run. Its node tells of it in a request, now or when the store answers again.
func (t *turns) ended(r *run) {
	if known := t.tabs[r.Held()]; known != nil {
		known.add(r.p)
		known.until, known.grown = instant.Never, instant.Never
	}
}

// add brings a tab up to date with the node's clocks.
func (b *tab) add(p *process) {
	now := p.Clock().Steady
	if p.sight.crowded && now > b.until {
		b.owed += now.Sub(b.until)
	}
	b.until = max(b.until, now)
	b.grow(p, b.owed)
}

// nodeStepped keeps the queue as a node sees it, and judges the node's requests to the store.
func (t *turns) nodeStepped(s nodeStep) {
	p := s.p
	done, _ := s.ev.(node.Done)
	if done.Fault == node.StoreDown && done.ID == p.sight.survey {
		p.sight.again = true
	}
	if seen, is := done.Result.(node.Surveyed); is {
		t.surveyed(p, seen, !s.partial)
	}
	for _, e := range s.effects {
		ask, is := e.(node.Ask)
		if !is {
			continue
		}
		t.checkTurn(p, ask.Request)
		if q, is := ask.Request.(node.Survey); is {
			t.checkSurvey(p, q)
			p.sight.asks(q, ask.ID, !s.partial && !p.sight.again, t.w.Now())
		}
	}
}

// surveyed notes the queue as a node sees it. Until it has seen it whole its runs are charged by its earlier view.
func (t *turns) surveyed(p *process, seen node.Surveyed, last bool) {
	if p.sight.saw(seen.Order, seen.Accounts, last); !last {
		return
	}
	t.checkShares(p)
	for _, r := range p.runs {
		if known := t.tabs[r.Held()]; known != nil {
			known.add(p)
		}
	}
	p.sight.crowded = seen.Ready > int64(max(0, p.MaxJobs()-p.Running()))
}

// checkShares is S10h. A request from before the end of an operator's change is excused.
func (t *turns) checkShares(p *process) {
	for name, a := range p.sight.accounts { // in any order: one is enough
		if want := t.sharing.sharesOf(name); a.Shares != want &&
			t.sharing.settled(p.sight.since) {
			t.Fail("S10h", "%s sees %d shares of %s, which has %d", p.Name, a.Shares, name, want)
		}
	}
}

// checkSurvey is S6d. A request that is repeated does not change, and only the settings count that the node was told.
func (t *turns) checkSurvey(p *process, q node.Survey) {
	if could := p.applied.MaxChurn + max(0, p.MaxJobs()-p.Running()); !p.sight.again && q.First < could {
		t.Fail("S6d", "%s looks at %d waiting jobs; max_churn and its free slots are for %d",
			p.Name, q.First, could)
	}
}

// checkTurn is S9e, S10i and S16f, when a node ends the turn of a job. A request that is repeated is judged
// once, and a job that never ran has no turn.
func (t *turns) checkTurn(p *process, q node.Request) {
	turn, ends := turnOf(q)
	held, _ := heldBy(q)
	known := t.tabs[held]
	if !ends || known == nil {
		return
	}
	delete(t.tabs, held)
	if tells := countersIn(q); known.said != nil && (tells == nil || *tells != *known.said) {
		t.Fail("S16f", "job %s ended with %+v, and %s tells %+v of it", held, *known.said, p.Name, tells)
	}
	known.add(p)
	if stands := &known.standing; stands.differs(turn.Place) {
		t.Fail("S10i", "%s says that job %s stands at %+v, and that is %.0f of epoch %d with a value of %.2f",
			p.Name, held, turn.Place, stands.key, stands.epoch, stands.value(stands.at))
	}
	if turn.Owed != known.owed {
		t.Fail("S9e", "%s says that job %s ran for %s while others waited, and that was %s",
			p.Name, held, turn.Owed, known.owed)
	}
}

// countersIn are the numbers that a request tells of a run which ended; nil without any.
func countersIn(q node.Request) *checkpoint.Counters {
	var stats *jobstore.Stats
	switch q := q.(type) {
	case node.Complete:
		return &q.End.Info.Counters
	case node.Crash:
		stats = q.Stats
	case node.Requeue:
		stats = q.Stats
	case node.Fail:
		stats = q.Stats
	}
	if stats == nil {
		return nil
	}
	counters := stats.Counters()
	return &counters
}
