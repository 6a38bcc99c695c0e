package oracle

import (
	"math"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// sight is what a process saw when it last looked at the queue.
type sight struct {
	asked    []string // accounts
	survey   uint64   // id of the request
	again    bool     // it failed, and will be asked again as it was
	order    schedule.Order
	accounts map[string]schedule.Account
}

func (s *sight) saw(seen node.Surveyed) {
	s.order, s.accounts = seen.Order, map[string]schedule.Account{}
	for i, a := range seen.Accounts {
		s.accounts[s.asked[i]] = a
	}
}

// checkAccounts is a part of S10: what a node sees of an account are its own shares.
func (o *places) checkAccounts(p *process) {
	for name, a := range p.sight.accounts { // in any order: one is enough
		if want := o.ruling.sharesOf(name); a.Shares != want && o.ruling.settled(p.looks[looksAtQueue].asked) {
			o.Fail("S10", "%s sees %d shares of %s, which has %d", p.Name, a.Shares, name, want)
		}
	}
}

// standing is where the job of a run stands, by the definition.
type standing struct {
	epoch int64
	key   float64
	fair  bool         // it grew under fair share
	grown instant.Time // until when, by the steady clock of the process
	off   float64      // by how much its value may differ by rounding, when the clock of decay shows at
	at    float64
}

// clockOf is what the clock of decay shows, in half-lives.
func clockOf(d schedule.Decay, now instant.Time) float64 {
	return float64(d.Passed)/aHalfLife + max(0, float64(now.Sub(d.Since)))/float64(max(d.HalfLife, time.Second))
}

// value is what a priority value has decayed to.
func (s *standing) value(clock float64) float64 { return math.Exp2(s.key/aHalfLife - clock) }

// grow has a standing be that of a run until now: under fair share its value grows in every interval by usage * jobs /
// shares^2, and by a part of that in a part of it.
func (s *standing) grow(p *process, account string) {
	now := p.Clock()
	a, known := p.sight.accounts[account]
	if !known || now.Steady <= s.grown {
		return
	}
	o := p.sight.order
	switch o.Policy {
	case schedule.FIFO:
		s.key = float64(now.Wall)
	case schedule.Tags:
		s.key = float64(a.Tail)
	default:
		clock, value := clockOf(o.Decay, now.Wall), 0.0
		if s.epoch == o.Epoch && s.key/aHalfLife > clock {
			value = s.value(clock)
		}
		part := min(1, float64(now.Steady.Sub(s.grown))/float64(o.Forgetting.Interval))
		value += float64(a.Usage) * float64(a.Jobs) / float64(a.Shares) / float64(a.Shares) * part
		s.key = (clock + math.Log2(max(value, 1))) * aHalfLife
		s.off, s.at = s.rounding(clock)+3, clock // three numbers are made whole
	}
	s.epoch, s.grown, s.fair = o.Epoch, now.Steady, o.Policy == schedule.FairShare
}

// rounding bounds the difference that rounding makes to a value. It decays as values do, and grows when clocks are set back.
func (s *standing) rounding(clock float64) float64 {
	return s.off*math.Exp2(s.at-clock) + s.value(clock)/1e7
}

// after says whether a standing is surely behind a key of its epoch.
func (s *standing) after(key int64, clock float64) bool {
	if !s.fair {
		return s.key > float64(key)
	}
	other := standing{key: float64(key)}
	return s.value(clock) > other.value(clock)+s.rounding(clock)+2
}

// checkStanding is a part of S10: a run that ends tells where its job stands.
func (o *places) checkStanding(p *process, held node.Held, s *standing, place schedule.Place) {
	told, differs := standing{key: float64(place.Key)}, float64(place.Key) != s.key
	if s.fair {
		differs = math.Abs(told.value(s.at)-s.value(s.at)) > s.off
	}
	if place.Epoch != s.epoch || differs {
		o.Fail("S10", "%s says that job %s stands at %+v with a value of %.2f, and that is %d, %.0f with %.2f", p.Name, held, place, told.value(s.at), s.epoch, s.key, s.value(s.at))
	}
}

// checkYields is a part of S6: of the runs that could have given way, those did which stand last, or among equals of an
// account those that ran longest.
func (o *places) checkYields(p *process, stopped []*run) {
	fair := p.sight.order.Policy == schedule.FairShare
	clock := clockOf(p.sight.order.Decay, p.Clock().Wall)
	for _, r := range p.runs {
		if r.stopped || !r.Replication().Continuous || slices.Contains(stopped, r) || o.w.Now().Sub(r.Began())-p.Lag() < p.Settings().MinRun {
			continue
		}
		for _, gave := range stopped {
			if !gave.Replication().Continuous {
				continue
			}
			account, another := r.Record().Account(), gave.Record().Account()
			stays, yields := o.owes[r.Held()], o.owes[gave.Held()]
			switch _, known := p.sight.accounts[account]; {
			case stays == nil || yields == nil:
			case fair && stays.epoch == yields.epoch && stays.value(clock) > yields.value(clock)+stays.rounding(clock)+yields.rounding(clock)+2:
				o.Fail("S6", "%s stops job %s at %.0f, and keeps %s at %.0f", p.Name, gave.Held(), yields.key, r.Held(), stays.key)
			case !fair && known && account == another && r.Began() < gave.Began():
				o.Fail("S6", "%s stops job %s, which began at %s, and keeps %s of %s", p.Name, gave.Held(), gave.Began(), r.Held(), r.Began())
			}
		}
	}
}

// checkTurn is a part of S10: a job that is queued again stands where its run said, under fifo behind those whose turns
// ended before.
func (o *places) checkTurn(j jobChange) {
	id, after, l := j.id, j.after, j.landing
	var turn jobstore.Turn
	switch q := l.Request.(type) {
	case node.Requeue:
		turn = q.Turn
	case node.Crash:
		turn = q.Turn
	default:
		return
	}
	held, _ := heldBy(l.Request)
	if held.JobID != id || after.header.State != jobs.Pending {
		return
	}
	order, err := o.w.Store().Order(o.w.Present())
	var is schedule.Place
	var created int64
	if !o.ruling.settled(o.w.Now()) {
		return
	}
	if err == nil {
		err = tuple.Subspace(nil).Scan(after.header.Priority, &is.Epoch, &is.Key, &created)
	}
	switch want := turn.Place; {
	case err != nil:
		o.Fail("S10", "place of job %s: %v", id, err)
	case order.Policy == schedule.FIFO && is != schedule.Place{Epoch: order.Epoch, Key: int64(l.Wall)},
		order.Policy == schedule.FairShare && want.Epoch == order.Epoch && is != want,
		order.Policy == schedule.Tags && want.Epoch == order.Epoch && turn.Owed == 0 && is != want:
		o.Fail("S10", "job %s is queued at %+v under %s by %s, and its run stood at %+v", id, is, order.Policy, l.Request, want)
	}
}
