package metrics

import (
	"math"
	"slices"
	"time"

	"couchrelay/sim/metrics/stats"
	"couchrelay/sim/workload"
)

// recent is over how many looks at lags the spread goes, and for how many it must stay in its band.
const recent = 10

// rounding is more than what lags are off by, in slot-seconds.
const rounding = 1e-3

// upsets measures how long failures of nodes and outages of servers upset the sharing. Its measure is the spread:
// the most that any account's lag changed by within the last ten looks. Lags themselves need not come back, since
// few policies make up for what was missed.
type upsets struct {
	began  time.Duration
	every  time.Duration // between looks; the first one is at began+every
	times  []time.Duration
	lags   [recent][]float64 // of each account at the last looks, the oldest at len(spread)%recent
	spread []float64         // at each look
}

func newUpsets(now, every time.Duration, outages []workload.Outage) upsets {
	u := upsets{began: now, every: every}
	for _, o := range outages {
		u.add(o.From)
	}
	return u
}

func (u *upsets) add(at time.Duration) { u.times = append(u.times, at) }

// lookAtLags notes the lag of every account. One that may be due to rounding is none: with a single account all are,
// and settings would differ in nothing else.
func (m *Meter) lookAtLags() {
	u := &m.upsets
	before := &u.lags[len(u.spread)%recent]
	if *before == nil {
		*before = make([]float64, len(m.accts)) // lags were 0 in the beginning
	}
	spread := 0.0
	for a := range m.accts {
		acct := m.settled(a)
		lag := m.lag(a)
		if math.Abs(lag) < rounding {
			lag = 0
		}
		acct.lagLeast, acct.lagMost = min(acct.lagLeast, lag), max(acct.lagMost, lag)
		acct.note(lagSize, math.Abs(lag))
		spread = max(spread, math.Abs(lag-(*before)[a]))
		(*before)[a] = lag
	}
	u.spread = append(u.spread, spread)
}

// recovery is the longest time in seconds that any upset took, up to now if it is not over; NaN when there was
// none after the first look.
func (u *upsets) recovery(now time.Duration) float64 {
	times := slices.DeleteFunc(u.times, func(at time.Duration) bool { return at < u.began+u.every || at > now })
	if len(times) == 0 {
		return math.NaN()
	}
	band := stats.Quantile(u.spread[:u.next(slices.Min(times))], 0.99) + rounding
	longest := time.Duration(0)
	for _, at := range times {
		longest = max(longest, u.lasts(at, now, band))
	}
	return longest.Seconds()
}

// next is the number of the first look after a time.
func (u *upsets) next(at time.Duration) int {
	return min(int((at-u.began)/u.every), len(u.spread))
}

// lasts is how long the spread needs after an upset to come back into its band and stay; 0 if it never leaves.
func (u *upsets) lasts(at, now time.Duration, band float64) time.Duration {
	first := u.next(at)
	calm := first
	for i := first; i < min(len(u.spread), calm+recent); i++ {
		if u.spread[i] > band {
			calm = i + 1
		}
	}
	switch {
	case calm == first:
		return 0
	case calm == len(u.spread):
		return now - at
	}
	return u.began + time.Duration(calm+1)*u.every - at
}
