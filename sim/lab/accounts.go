package lab

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// accounts is what a model keeps of accounts and of the order in force.
type accounts struct {
	list    []account
	byName  map[string]int
	order   schedule.Order
	virtual int64 // the greatest tag that got a slot
}

type account struct {
	shares, jobs, tail int64
	charges            []schedule.Charge // by time, then by worker
}

func newAccounts(s jobstore.Sharing) accounts {
	a := accounts{byName: map[string]int{}}
	a.order = schedule.Order{Policy: s.Policy, Forgetting: s.Forgetting, PriorityCoeff: s.PriorityCoeff}
	a.order.Decay.HalfLife = a.order.HalfLife(0, 0)
	return a
}

// least is the least tag that is given out: the tag of the first ready job or else the greatest that got a
// slot.
func (a *accounts) least(first *schedule.Place) int64 {
	if first != nil && first.Epoch == a.order.Epoch {
		return first.Key
	}
	return a.virtual
}

// advance gives out the next tag of an account.
func (a *accounts) advance(n int, first *schedule.Place, d time.Duration) int64 {
	c := &a.list[n]
	tag := max(a.least(first), c.tail)
	c.tail = tag + schedule.Cost(d, c.shares)
	return tag
}

// enter counts a new job and returns its place.
func (a *accounts) enter(n int, first *schedule.Place, now instant.Time) schedule.Place {
	c := &a.list[n]
	c.jobs++
	place := a.order.Enter(now, schedule.Account{
		Shares: c.shares, Jobs: c.jobs, Usage: a.order.Forgetting.Usage(c.charges, now),
	})
	if a.order.Policy == schedule.Tags {
		place.Key = a.advance(n, first, a.order.Forgetting.Interval)
	}
	return place
}

// settle charges a turn and returns the place that the job gets after it.
func (a *accounts) settle(n int, t jobstore.Turn, first *schedule.Place, now instant.Time) schedule.Place {
	o := &a.order
	here := schedule.Place{Epoch: o.Epoch}
	switch {
	case o.Policy == schedule.FIFO:
		here.Key = int64(now)
	case t.Place.Epoch == o.Epoch && (o.Policy == schedule.FairShare || t.Owed == 0):
		here = t.Place
	case o.Policy == schedule.FairShare:
		here.Key = o.Decay.At(now)
	default:
		here.Key = a.advance(n, first, t.Owed)
	}
	return here
}

func (a *accounts) dispatched(p schedule.Place) {
	if a.order.Policy == schedule.Tags && p.Epoch == a.order.Epoch {
		a.virtual = max(a.virtual, p.Key)
	}
}

// charge keeps the greatest number of each account, interval and worker.
func (a *accounts) charge(charges []schedule.Charge, now instant.Time) {
	memory := a.order.Forgetting.Memory()
	for _, c := range charges {
		n, known := a.byName[c.Account]
		if !known {
			continue
		}
		list := slices.DeleteFunc(a.list[n].charges, func(o schedule.Charge) bool {
			return o.At < now.Add(-memory) || o.At >= now.Add(memory)
		})
		i, found := slices.BinarySearchFunc(list, c, func(x, y schedule.Charge) int {
			return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Worker, y.Worker))
		})
		if !found {
			list = slices.Insert(list, i, c)
		}
		list[i].Used = max(list[i].Used, c.Used)
		a.list[n].charges = list
	}
}

func (a *accounts) tune(seen schedule.Decay, halfLife time.Duration, now instant.Time) {
	if a.order.Decay != seen {
		return
	}
	if a.order.PriorityCoeff != 0 {
		halfLife = a.order.HalfLife(0, 0)
	}
	a.order.Decay = a.order.Decay.Changed(now, halfLife)
}

// view is what a survey tells of an account.
func (a *accounts) view(name string, first *schedule.Place, now instant.Time) schedule.Account {
	c := &a.list[a.byName[name]]
	v := schedule.Account{Shares: c.shares, Jobs: c.jobs}
	switch a.order.Policy {
	case schedule.FairShare:
		v.Usage = a.order.Forgetting.Usage(c.charges, now)
	case schedule.Tags:
		v.Tail = max(c.tail, a.least(first))
	}
	return v
}
