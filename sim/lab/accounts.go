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
	floor   int64 // the greatest at which the tags of an account that paid began
}

type account struct {
	name               string
	shares, jobs, tail int64
	excess             int64             // of the weights of its jobs over the default
	charges            []schedule.Charge // by time, then by worker
}

func newAccounts(s jobstore.Sharing) accounts {
	a := accounts{byName: map[string]int{}}
	a.order = schedule.Order{
		Policy: s.Policy, Forgetting: s.Forgetting, PriorityCoeff: s.PriorityCoeff, Seed: s.Seed, Periods: s.Periods,
	}
	a.order.Decay.HalfLife = a.order.HalfLife(0, 0)
	return a
}

// least is the floor of tags: the tag of the first ready job or else the greatest that got a slot, and never less than
// for an account that has paid.
func (a *accounts) least(first *schedule.Place) int64 {
	if first != nil && first.Epoch == a.order.Epoch {
		return max(first.Key, a.floor)
	}
	return max(a.virtual, a.floor)
}

// pays stores what a turn leaves of an account.
func (a *accounts) pays(n int, after schedule.Account) {
	a.list[n].tail, a.floor = after.Tail, max(a.floor, after.Floor)
}

// payer is an account whose tail may move on.
func (a *accounts) payer(n int, first *schedule.Place) schedule.Account {
	c := &a.list[n]
	floor := a.least(first)
	return schedule.Account{
		Name: c.name, Shares: c.shares, Jobs: c.jobs, Excess: c.excess,
		Tail: a.order.Tail(c.tail, floor), Floor: a.order.Floor(floor),
	}
}

// count adds n jobs of a weight to an account, or takes them out.
func (a *accounts) count(account int, n, weight int64) {
	c := &a.list[account]
	c.jobs, c.excess = c.jobs+n, c.excess+n*(weight-schedule.DefaultWeight)
}

// enter counts a new job and returns its place.
func (a *accounts) enter(n int, weight int64, first *schedule.Place, now instant.Time) schedule.Place {
	c := &a.list[n]
	a.count(n, 1, weight)
	payer := schedule.Account{Shares: c.shares, Jobs: c.jobs, Excess: c.excess}
	switch a.order.Needs() {
	case schedule.NeedsUsage:
		payer.Usage = a.order.Forgetting.Usage(c.charges, now)
	case schedule.NeedsTail:
		payer = a.payer(n, first)
	}
	payer.Weight = weight
	place, after := a.order.Enter(now, payer)
	if a.order.Needs() == schedule.NeedsTail {
		a.pays(n, after)
	}
	return place
}

// settle charges a turn and returns the place that the job gets after it.
func (a *accounts) settle(
	n int, weight int64, t schedule.Turn, first *schedule.Place, now instant.Time,
) schedule.Place {
	if !a.order.Pays(t) {
		place, _ := a.order.Settle(t, now, schedule.Account{})
		return place
	}
	payer := a.payer(n, first)
	payer.Weight = weight
	place, after := a.order.Settle(t, now, payer)
	a.pays(n, after)
	return place
}

func (a *accounts) dispatched(p schedule.Place) {
	if a.order.Needs() == schedule.NeedsTail && p.Epoch == a.order.Epoch {
		a.virtual = max(a.virtual, p.Key)
	}
}

// charge keeps the greatest number of each account, interval and worker.
func (a *accounts) charge(charges []schedule.Charge, now instant.Time) {
	memory := a.order.Forgetting.Memory()
	for _, c := range charges {
		n := a.byName[c.Account]
		list := slices.DeleteFunc(a.list[n].charges, func(o schedule.Charge) bool {
			return o.At < now.Add(-memory)
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
	a.order.Decay = a.order.Decay.Changed(now, halfLife)
}

// view is what a survey tells of an account.
func (a *accounts) view(name string, first *schedule.Place, now instant.Time) schedule.Account {
	c := &a.list[a.byName[name]]
	v := schedule.Account{Shares: c.shares, Jobs: c.jobs, Excess: c.excess}
	switch a.order.Needs() {
	case schedule.NeedsUsage:
		v.Usage = a.order.Forgetting.Usage(c.charges, now)
	case schedule.NeedsTail:
		floor := a.least(first)
		v.Tail, v.Floor = a.order.Tail(c.tail, floor), a.order.Floor(floor)
	}
	return v
}
