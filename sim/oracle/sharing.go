package oracle

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// settingsOfSharing are the invariants of the settings that all nodes share jobs by. An operator changes them
// while jobs wait and run by the former ones.
type settingsOfSharing struct {
	*chronicle
	order schedule.Order // as stored last
}

var sharingSubject = subject{
	invariants: []Invariant{
		{"S10e", "A change of settings leaves the clock by which priorities decay where it was."},
		{"S10f", "Priorities decay by the half-life of priority_coeff, and under auto by none shorter than " +
			"that of 0.98."},
		{"S10g", "The policy, coefficients and shares in force are those that an operator gave last."},
		{"S10s", "The store has the clock by which priorities decay to within a half-life, so that it goes back by " +
			"no more where a wall clock is set back."},
	},
	begin: func(c *chronicle) {
		s := &settingsOfSharing{chronicle: c}
		c.on.followed.add(s.landed)
		c.on.atRest.add(func(struct{}) { s.checkInForce() })
		c.on.unsettled = append(c.on.unsettled, s.unsettled)
	},
}

// sharing are the settings in force, as their operator was told.
type sharing struct {
	jobstore.Sharing
	epoch    int64        // changes of the policy so far, and places of wrong clocks that were outrun
	changing bool         // an operator has asked for other settings, and has no answer yet
	asked    instant.Time // when the last change was asked for
	at       instant.Time // since when it is in force; 0 when nothing was changed
	outran   instant.Time // when a place of a wrong clock was outrun last; 0 for never
}

// change notes settings that an operator has put in force.
func (s *sharing) change(to jobstore.Sharing, now instant.Time) {
	if to.Policy != s.Policy {
		s.epoch++
	}
	s.Sharing, s.changing, s.at = to, false, now
}

// commitLate is how long after a change a commit may land that goes by the former settings.
const commitLate = 2 * time.Minute

// settled reports whether all that lands goes by the settings in force.
func (s *sharing) settled(now instant.Time) bool {
	last := max(s.at, s.outran)
	return !s.changing && (last == 0 || now.Sub(last) > commitLate)
}

// sharesOf is how many shares an account has.
func (s *sharing) sharesOf(account string) int64 {
	if n := s.Shares[account]; n > 0 {
		return n
	}
	return schedule.DefaultShares
}

// landed notes a commit that changes the order of jobs.
func (s *settingsOfSharing) landed(l landing) {
	for _, m := range l.Mutations {
		if !bytes.Equal(m.Key, s.w.Store().Keys.Order) {
			continue
		}
		var order schedule.Order
		if err := json.Unmarshal(m.Value, &order); err != nil {
			s.unreadable("the order of jobs", err)
			return
		}
		before := s.order
		s.order = order
		if _, sweeps := l.Request.(node.Sweep); sweeps && order.Policy == schedule.FIFO && order.Epoch != before.Epoch {
			s.sharing.epoch, s.sharing.outran = s.sharing.epoch+1, s.w.Now()
		}
		s.checkClock(before.Decay, order.Decay, l)
		s.checkHalfLife(order)
	}
}

// checkClock is S10e: where the clock jumped, all jobs that wait would move against those that come.
func (s *settingsOfSharing) checkClock(was, is schedule.Decay, l landing) {
	at := l.Wall
	if l.Request == nil {
		at = s.sharing.asked // an operator's change goes by the moment at which it was asked for
	}
	if before, after := clockOf(was, at), clockOf(is, at); was.HalfLife > 0 && math.Abs(before-after) > 1e-4 {
		s.Fail("S10e", "the clock of decay goes from %f to %f", before, after)
	}
}

// halfLife is in how much time priorities decay to the half that are multiplied by a coefficient in every
// interval.
func halfLife(coeff float64, interval time.Duration) float64 {
	return float64(interval) * math.Ln2 / -math.Log(coeff)
}

// checkHalfLife is S10f for a coefficient that an operator has fixed.
func (s *settingsOfSharing) checkHalfLife(order schedule.Order) {
	if order.PriorityCoeff == 0 {
		return
	}
	want := halfLife(float64(order.PriorityCoeff)/1e6, s.priorityInterval())
	if got := float64(order.Decay.HalfLife); math.Abs(got-want) > want/1e4 {
		s.Fail("S10f", "priority_coeff %d is a half-life of %s, and should be of %s",
			order.PriorityCoeff, order.Decay.HalfLife, time.Duration(want))
	}
}

// priorityInterval is the period in which priority_coeff is left of a priority.
func (k *known) priorityInterval() time.Duration {
	return cmp.Or(k.w.Config().Sharing.Periods.Priority, k.w.Config().Settings.Interval)
}

// growthInterval is how long a job runs until its priority has grown by all that its account's use asks for, and
// what a new job costs under tags.
func (k *known) growthInterval() time.Duration {
	return cmp.Or(k.w.Config().Sharing.Periods.Growth, k.w.Config().Settings.Interval)
}

// autoSettles is in how many intervals nodes have agreed on a half-life under auto.
const autoSettles = 5

// checkInForce is S10g. Nothing is promised while an operator waits for an answer, nor of a world in which none has
// changed anything.
func (s *settingsOfSharing) checkInForce() {
	want := &s.sharing
	if want.at == 0 || want.changing {
		return
	}
	order, err := s.w.Store().Order(s.w.Present())
	if err != nil {
		s.unreadable("the order of jobs", err)
		return
	}
	if order.Policy != want.Policy || order.PriorityCoeff != want.PriorityCoeff ||
		order.Epoch != want.epoch || order.Forgetting != want.Forgetting || order.Periods != want.Periods {
		s.Fail("S10g", "%+v is in force, and should be %+v of epoch %d", order, want.Sharing, want.epoch)
	}
	if stored, err := s.storedShares(); err != nil {
		s.unreadable("the shares", err)
	} else if !maps.Equal(stored, want.Shares) {
		s.Fail("S10g", "the shares are %v, and should be %v", stored, want.Shares)
	}
}

// unsettled is S10s, and S10f under auto. Nodes that crash again and again set no half-life, so a world comes to rest
// only when that is long enough.
func (s *settingsOfSharing) unsettled() *Violation {
	want, interval := &s.sharing, s.priorityInterval()
	order, err := s.w.Store().Order(s.w.Present())
	if want.at == 0 || want.changing || err != nil || order.Policy != schedule.FairShare {
		return nil
	}
	d := order.Decay
	late := clockOf(d, s.w.Now().Add(-autoSettles*s.w.Config().Settings.Interval)) - float64(d.Passed)/aHalfLife
	switch {
	case late > 1 && !s.w.ClocksWereSet():
		return missed("S10s", "the clock of decay has gone on for %f half-lives since the store had it", late)
	case order.PriorityCoeff != 0:
		return nil
	}
	least := halfLife(0.98, interval) * 0.999 // leaves room for rounding
	if s.w.Now().Sub(want.at) <= autoSettles*interval || float64(order.Decay.HalfLife) >= least {
		return nil
	}
	return missed("S10f", "auto has priorities decay in half-lives of %s, and the least is %s",
		order.Decay.HalfLife, time.Duration(least))
}

// storedShares are the shares of accounts in the store.
func (s *settingsOfSharing) storedShares() (map[string]int64, error) {
	space := s.w.Store().Keys.Shares
	rows, err := s.w.Present().GetRange(space.Range(), kv.RangeOptions{})
	stored := map[string]int64{}
	for _, row := range rows {
		var account string
		if err := space.Scan(row.Key, &account); err != nil {
			return nil, err
		}
		stored[account] = int64(binary.LittleEndian.Uint64(row.Value))
	}
	return stored, err
}
