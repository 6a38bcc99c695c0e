package forecast

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/schedule"
)

// Numbers of rounds, and logarithms, are in units of 2^-32, as those of schedule.Log2.
const (
	fraction = 32
	one      = 1 << fraction
)

// model computes how jobs take turns; see the package comment.
type model struct {
	slots    int64 // millionths of a slot
	churn    int64 // millionths of a job that give way within the shortest run, above 0
	round    time.Duration
	least    int64 // the shortest run, of one round or more
	halfLife time.Duration
}

// turn is what an account gets.
type turn struct {
	slots     int64 // millionths of a slot, of all its jobs
	run, wait int64 // of one job
	longest   int64 // wait, where that is known
}

// length is the time of a number of rounds.
func (m model) length(n int64) time.Duration { return time.Duration(scale(n, int64(m.round), one)) }

// even is how jobs take turns that all run for the same time, when the slots of each account are known.
func (m model) even(accounts []Outlook, slots []int64) []turn {
	run, list := max(m.least, scale(m.slots, m.least, m.churn)), make([]turn, len(accounts))
	for i := range accounts {
		list[i] = turn{run: run}.with(slots[i], accounts[i].Jobs)
		list[i].longest = list[i].wait + min(one, list[i].wait) // a round may be just over
	}
	return list
}

// with is the turn of so many jobs when they have so many slots. The runs stay, and the waits follow.
func (t turn) with(slots, jobs int64) turn {
	t.slots, t.wait = slots, scale(t.run, jobs*million-slots, max(1, slots))
	return t
}

// byShares is how jobs take turns under policies that keep shares turn by turn. Where full is given, rounds of so long
// turns bound the waits: if jobs of an account would wait for more than a round, all that wait get a turn once in
// two rounds, and accounts have their shares of the rest.
func (m model) byShares(f *Forecast, full time.Duration) []turn {
	weights, waiting := make([]int64, len(f.Accounts)), make([]int64, len(f.Accounts))
	for i, o := range f.Accounts {
		weights[i] = max(1, o.Shares)
	}
	slots := divided(m.slots, f.Accounts, weights)
	turns, most := m.even(f.Accounts, slots), int64(0)
	for i, t := range turns {
		waiting[i] = f.Accounts[i].Jobs*million - t.slots
		most = max(most, t.wait)
	}
	round := scale(int64(full)*schedule.TurnsPerRound, one, int64(m.round))
	if full == 0 || most <= round {
		return turns
	}
	all := scale(int64(f.Turn), one, int64(m.round)) // the time in which all that wait get a turn
	forward := min(m.slots, scale(m.slots, all, 2*round))
	for i := range weights {
		weights[i] = max(1, scale(slots[i], m.slots-forward, m.slots)+scale(waiting[i], forward, f.Waiting*million))
	}
	bounded := m.even(f.Accounts, divided(m.slots, f.Accounts, weights))
	for i := range bounded {
		bounded[i].longest = min(turns[i].longest+all, 2*round+round/schedule.TurnsPerRound)
	}
	return bounded
}

// class are accounts with the same shares and number of jobs.
type class struct {
	shares, jobs, accounts int64
	turn
	// The logarithm of the time that the way up takes is at, and between low and high.
	low, at, high int64
}

// most bounds the number of classes, and so the time of a forecast.
const most = 32

// classes puts accounts into classes. at has the class of each account. When there are too many, those with
// the fewest jobs share one, with the means of their numbers.
func classes(accounts []Outlook) (list []class, at []int) {
	order := make([]int, len(accounts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := accounts[i], accounts[j]
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(b.Shares, a.Shares))
	})
	at = make([]int, len(accounts))
	var shares, jobs int64 // of the last class
	for n, i := range order {
		a, last := accounts[i], len(list)-1
		if n == 0 || len(list) < most && (a.Jobs != list[last].jobs || a.Shares != list[last].shares) {
			list, last, shares, jobs = append(list, class{}), last+1, 0, 0
		}
		shares, jobs = shares+a.Shares, jobs+a.Jobs
		c := &list[last]
		c.accounts++
		c.shares, c.jobs = max(1, shares/c.accounts), max(1, jobs/c.accounts)
		at[i] = last
	}
	return list, at
}

// fair is how jobs take turns under fair share. It looks for the fall T for which churn jobs start in a
// round: it is too long by about as much as the mean wait is longer than the turn.
func (m model) fair(accounts []Outlook) []turn {
	list, at := classes(accounts)
	waiting := -m.slots
	for _, c := range list {
		waiting += c.accounts * c.jobs * million
	}
	want := scale(waiting, m.least, m.churn)
	fall, low, high := want, int64(least), want
	for range 60 {
		m.settle(list, fall)
		off := scale(waiting, m.least, max(1, m.starts(list))) - want
		switch {
		case max(off, -off) < want/4096:
			low = high
		case off > 0:
			high = fall
		default:
			low = fall
		}
		if low >= high {
			break
		}
		if fall -= off; fall <= low || fall >= high {
			fall = low + (high-low)/2
		}
	}
	return m.fitted(accounts, func(i int) turn { return list[at[i]].turn })
}

// fitted are the turns of accounts, of which each has the slots that its jobs can hold and all have all of them. The
// search for both heights ends near that, and an account may have fewer jobs than its class.
func (m model) fitted(accounts []Outlook, of func(int) turn) []turn {
	weights, turns := make([]int64, len(accounts)), make([]turn, len(accounts))
	for i := range accounts {
		turns[i] = of(i)
		weights[i] = max(1, turns[i].slots)
	}
	for i, slots := range divided(m.slots, accounts, weights) {
		turns[i] = turns[i].with(slots, accounts[i].Jobs)
	}
	return turns
}

// least is the shortest fall. Without any, the height of all jobs would be the same, whatever they run and wait.
const least = one / 16

// starts is how many jobs start within the shortest run, in millionths. In a round they may be a few millionths.
func (m model) starts(list []class) (n int64) {
	for _, c := range list {
		n += c.accounts * scale(c.slots, m.least, c.run)
	}
	return n
}

// settle finds the height at which all slots are in use. It is a logarithm; C is 1.
func (m model) settle(list []class, fall int64) {
	for i := range list {
		list[i].low, list[i].high = 0, 62*one
	}
	low, high := int64(-100*one), int64(100*one)
	for range 30 {
		height, used := (low+high)/2, int64(0)
		for i := range list {
			list[i].turn, list[i].at = m.climb(list[i], fall, height)
			used += list[i].accounts * list[i].slots
		}
		enough := used >= m.slots
		for i := range list {
			if enough {
				list[i].high = list[i].at
			} else {
				list[i].low = list[i].at
			}
		}
		if enough {
			high = height
		} else {
			low = height
		}
	}
}

// climb is the turn of jobs that stop at a height, and the logarithm of the time r that they need for the way up.
func (m model) climb(c class, fall, height int64) (t turn, at int64) {
	const near = one >> 20
	at = c.low
	t, _ = m.way(c.jobs, fall, schedule.Exp2(at))
	for c.high-c.low > near {
		at = (c.low + c.high) / 2
		var above int64
		t, above = m.way(c.jobs, fall, schedule.Exp2(at))
		reached := schedule.Log2(max(1, t.slots)) + schedule.Log2(c.jobs) - 2*schedule.Log2(c.shares) - above
		if reached < height {
			c.low = at
		} else {
			c.high = at
		}
	}
	return t, at
}

// way is the turn of jobs that need r for the way up. above is the logarithm of by how much a job that never
// stopped would pass the height.
func (m model) way(jobs, fall, r int64) (t turn, above int64) {
	above = m.left(r+fall) - m.left(r)
	t.run = max(m.least, r+one/2)
	// The job stops at 2^above (1 - 2^-run) + 2^-(run + fall), of the height.
	stop := addLogs(above+m.left(t.run), -m.halfLives(t.run+fall))
	t.wait = fall + scale(max(0, stop), int64(m.halfLife), int64(m.round))
	t.slots = scale(jobs*million, t.run, t.run+t.wait)
	return t, above
}

// halfLives is a number of rounds in half-lives.
func (m model) halfLives(n int64) int64 { return scale(n, int64(m.round), int64(m.halfLife)) }

// precise is a one with so many bits behind the point.
const precise = 60

// left is the logarithm of 1 - 2^-x, where x is a number of rounds in half-lives. That is x ln 2 when x is small.
func (m model) left(n int64) int64 {
	x := m.halfLives(n)
	if x < one>>16 {
		perRound := schedule.Log2(int64(m.round)) - schedule.Log2(int64(m.halfLife))
		return schedule.Log2(max(1, n)) - fraction<<fraction + perRound + schedule.Log2(ln2) - schedule.Log2(million)
	}
	return schedule.Log2(1<<precise-schedule.Exp2(precise<<fraction-x)) - precise<<fraction
}

// addLogs is the logarithm of 2^a + 2^b.
func addLogs(a, b int64) int64 {
	less := max(a, b) - min(a, b)
	return max(a, b) + schedule.Log2(1<<precise+schedule.Exp2(precise<<fraction-less)) - precise<<fraction
}
