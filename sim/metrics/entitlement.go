package metrics

import "slices"

// entitlement integrates over time to how many of the slots in use each account is entitled: weighted max-min
// fairness with demands as caps, by water filling. An account whose demand is below level*weight has a full
// cup, which is its demand; the others stand at the level, and have level*weight.
//
// Accounts are sorted by demand/weight, so the full cups come first. All that decides is in integers: a change
// moves the border between full and open cups by as many accounts as change sides, and costs nothing for others.
type entitlement struct {
	cups  []cup
	order []int32 // accounts by demand/weight, then by number
	full  int     // how many of them are full, the first ones

	used       int64 // slots in use, which are divided
	fullDemand int64 // sum of demands of full cups
	openWeight int64 // sum of weights of open cups

	now    float64 // seconds
	poured float64 // integral of the level
}

// cup is an account.
type cup struct {
	demand, weight int64
	full           bool
	total          float64 // slot-seconds up to since
	since          float64 // seconds
	mark           float64 // poured at that time
}

func newEntitlement(weights []int64) *entitlement {
	e := &entitlement{cups: make([]cup, len(weights)), order: make([]int32, len(weights)), full: len(weights)}
	for a, w := range weights {
		e.cups[a] = cup{weight: w, full: true}
		e.order[a] = int32(a)
	}
	return e
}

// advance goes on to a time.
func (e *entitlement) advance(now float64) {
	if e.openWeight > 0 {
		level := float64(e.used-e.fullDemand) / float64(e.openWeight)
		e.poured += level * (now - e.now)
	}
	e.now = now
}

// settled returns an account whose total is up to date.
func (e *entitlement) settled(a int) *cup {
	c := &e.cups[a]
	if c.full {
		c.total += float64(c.demand) * (e.now - c.since)
	} else {
		c.total += float64(c.weight) * (e.poured - c.mark)
	}
	c.since, c.mark = e.now, e.poured
	return c
}

// set changes the demand and the weight of an account, and the slots in use, from now on.
func (e *entitlement) set(a int, demand, weight, used int64) {
	c := e.settled(a)
	e.used = used
	if c.demand != demand || c.weight != weight {
		e.take(a)
		c.demand, c.weight = demand, weight
		e.put(a)
	}
	e.balance()
}

// compare orders accounts by demand/weight, then by number.
func (e *entitlement) compare(a, b int32) int {
	x, y := &e.cups[a], &e.cups[b]
	if d := x.demand*y.weight - y.demand*x.weight; d != 0 {
		return int(d)
	}
	return int(a - b)
}

func (e *entitlement) place(a int) int {
	i, _ := slices.BinarySearchFunc(e.order, int32(a), e.compare)
	return i
}

func (e *entitlement) take(a int) {
	c, i := &e.cups[a], e.place(a)
	e.order = slices.Delete(e.order, i, i+1)
	if c.full {
		e.full--
		e.fullDemand -= c.demand
	} else {
		e.openWeight -= c.weight
	}
}

func (e *entitlement) put(a int) {
	c, i := &e.cups[a], e.place(a)
	e.order = slices.Insert(e.order, i, int32(a))
	if c.full = i < e.full; c.full {
		e.full++
		e.fullDemand += c.demand
	} else {
		e.openWeight += c.weight
	}
}

// balance moves the border to where full cups are those with demand <= level*weight.
func (e *entitlement) balance() {
	for ; e.full > 0 && !e.fills(e.order[e.full-1]); e.full-- {
		c := e.settled(int(e.order[e.full-1]))
		c.full = false
		e.fullDemand -= c.demand
		e.openWeight += c.weight
	}
	for ; e.full < len(e.order) && e.fills(e.order[e.full]); e.full++ {
		c := e.settled(int(e.order[e.full]))
		c.full = true
		e.fullDemand += c.demand
		e.openWeight -= c.weight
	}
}

// fills reports whether the demand of an account is at most level*weight; the answer is the same whether its
// own cup counts as full or as open.
func (e *entitlement) fills(a int32) bool {
	c := &e.cups[a]
	return c.demand*e.openWeight <= (e.used-e.fullDemand)*c.weight
}
