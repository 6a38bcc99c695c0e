package oracle

import (
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
)

// owing is how long a run had its slot while others waited, and where its job stands.
type owing struct {
	time  time.Duration
	until instant.Time // by the steady clock of the process; Never when the run is over
	standing
	account string
	said    *checkpoint.Counters // by the run when it ended
}

// owingStepped is a part of S9: what a run owes is how long it ran while others waited, as its node saw at its last look
// at the queue.
func (o *places) owingStepped(s nodeStep) {
	p, ev, effects := s.p, s.ev, s.effects
	done, _ := ev.(node.Done)
	if done.Fault == node.StoreDown && done.ID == p.sight.survey {
		p.sight.again = true
	}
	if seen, ok := done.Result.(node.Surveyed); ok {
		p.sight.saw(seen)
		o.checkAccounts(p)
		for _, r := range p.runs {
			if known := o.owes[r.Held()]; known != nil {
				known.add(p)
				known.grow(p, known.account)
			}
		}
		p.crowded = seen.Ready > int64(max(0, p.MaxJobs()-p.Running()))
	}
	for _, e := range effects {
		if ask, ok := e.(node.Ask); ok {
			o.checkOwed(p, ask.Request)
			if q, is := ask.Request.(node.Survey); is {
				o.checkSurvey(p, q)
				p.sight.asked, p.sight.survey, p.sight.again = q.Accounts, ask.ID, false
			}
		}
	}
}

func (w *owing) add(p *process) {
	now := p.Clock().Steady
	if p.crowded && now > w.until {
		w.time += now.Sub(w.until)
	}
	w.until = max(w.until, now)
}

func (o *places) checkOwed(p *process, q node.Request) {
	turn, ends := turnOf(q)
	if !ends {
		return
	}
	held, _ := heldBy(q)
	known := o.owes[held]
	if known == nil {
		return // it never ran, or the request is repeated
	}
	if told := toldBy(q); known.said != nil && (told == nil || *told != *known.said) {
		o.Fail("S16", "job %s ended with %+v, and %s tells %+v of it", held, *known.said, p.Name, told)
	}
	known.add(p)
	known.grow(p, known.account)
	delete(o.owes, held)
	o.checkStanding(p, held, &known.standing, turn.Place)
	if turn.Owed != known.time {
		o.Fail("S9", "%s says that job %s ran for %s while others waited, and that was %s", p.Name, held, turn.Owed, known.time)
	}
}

// toldBy are the numbers that a request tells of a run which ended, nil without any.
func toldBy(q node.Request) *checkpoint.Counters {
	var stats *jobstore.Stats
	switch q := q.(type) {
	case node.Complete:
		return &q.End.Info.Counters
	case node.Crash:
		stats = q.Stats
	case node.Requeue:
		stats = q.Stats
	}
	if stats == nil {
		return nil
	}
	counters := stats.Counters()
	return &counters
}

// turnOver ends the time of a run.
func (o *places) turnOver(r *run) {
	if known := o.owes[r.Held()]; known != nil {
		known.add(r.p)
		known.grow(r.p, known.account)
		known.until, known.grown = instant.Never, instant.Never
	}
}
