package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// Coefficients are given in millionths.
const million = 1_000_000

// Bounds of a half-life. With a shorter one the clock of Decay, which counts half-lives in 64 bits, would
// overflow within decades.
const (
	minHalfLife = time.Second
	maxHalfLife = 10 * 365 * 24 * time.Hour
)

// HalfLife is the time in which a priority falls by half when it is multiplied by coeff millionths once
// in every interval: interval * ln 2 / ln(1/coeff). With a coefficient of one it is as long as may be.
func HalfLife(coeff int64, interval time.Duration) time.Duration {
	perInterval := Log2(million) - Log2(coeff)
	return boundHalfLife(time.Duration(mulDiv(int64(interval), 1<<fraction, max(perInterval, 1))))
}

func boundHalfLife(d time.Duration) time.Duration { return min(max(d, minHalfLife), maxHalfLife) }

// Churn is how many jobs give way in an interval at most, if most of them may: no more than there are slots, and none
// before it ran for minRun. Where that is less than one it is one.
func Churn(most, slots int, interval, minRun time.Duration) int {
	if most < 1 || slots < 1 {
		return 0
	}
	rested := mulDiv(int64(slots), int64(interval), int64(max(minRun, interval, 1)))
	return int(max(1, min(int64(most), rested)))
}

// LeastHalfLife is the half-life below which accounts do not get their shares: priorities must be
// remembered for 0.4 of the round in which all jobs have a turn. If churn jobs give way in an interval, the
// ready ones wait for ready/churn intervals. A coefficient K remembers 1/(1-K) intervals, which is a
// half-life of ln 2 times that. The error of the shares depends on the ratio of the two times alone, and is
// about one percentage point at 0.4 (measured).
func LeastHalfLife(ready int64, churn int, interval time.Duration) time.Duration {
	if churn < 1 {
		return 0 // nothing rotates
	}
	const ln2 = 693_147 // millionths
	round := mulDiv(max(ready, 0), int64(interval), int64(churn))
	return min(time.Duration(mulDiv(round, 4*ln2/10, million)), maxHalfLife)
}

// Decay is the clock by which priority values decay (step 2 of RFC 017, by the deadlines that its note
// wishes for). It counts half-lives, in units of 2^-32. A value P that a job has when the clock shows t has
// decayed to P / 2^(u-t) when it shows u. So t + log2(P), the job's key, is what the clock will show when P
// has decayed to 1. Of two jobs the one with the lower key has the lower value at any time, so a waiting
// job needs no update. In time the key is the deadline now + half-life * log2(P); counted in half-lives it
// stays right when the half-life changes.
type Decay struct {
	Since    instant.Time  `json:"since"`     // when HalfLife was put in force, by that node's wall clock
	Passed   int64         `json:"passed"`    // what the clock showed then, not negative
	HalfLife time.Duration `json:"half_life"` // from minHalfLife to maxHalfLife
}

// lastShown is the last that the clock of Decay shows, with room for the logarithm of a priority value.
const lastShown = 1 << 62

// At is what the clock shows at a time. It stands still before Since and from lastShown on, and never goes back while
// time does not.
func (d Decay) At(now instant.Time) int64 {
	passed := mulDiv(int64(max(0, now.Sub(d.Since))), 1<<fraction, int64(max(d.HalfLife, minHalfLife)))
	return d.Passed + min(passed, lastShown-d.Passed)
}

// Changed returns the clock with another half-life from now on. It shows the same at this moment.
func (d Decay) Changed(now instant.Time, halfLife time.Duration) Decay {
	return Decay{Since: now, Passed: d.At(now), HalfLife: boundHalfLife(halfLife)}
}

// Retimed returns the order with another half-life from now on. A clock of decay that has come half of its way begins
// anew, in another epoch. It comes so far where two nodes have clocks that are years apart: each finds it stale
// whenever the other has set it, and it goes on by those years each time.
func (o Order) Retimed(now instant.Time, halfLife time.Duration) Order {
	if o.Decay = o.Decay.Changed(now, halfLife); o.Decay.Passed >= lastShown/2 {
		// Reached: the clock of decay begins anew
		o.Decay.Passed, o.Epoch = 0, o.Epoch+1
	}
	return o
}

// Stale reports whether the clock is to be set anew (Changed). One that was set by a clock that is ahead by more than
// slack stands still until then. One that has shown a half-life more than it was set to has not told that to the
// store: where the wall clock is set back it would go back as far, and all that has a key of then would wait until it
// was there again, behind all that comes.
func (d Decay) Stale(now instant.Time, slack time.Duration) bool {
	return now < d.Since.Add(-slack) || d.At(now)-d.Passed >= 1<<fraction
}

// maxPriority bounds priority values, so that Exp2 undoes Log2 and a sum of two does not overflow.
const maxPriority = 1 << 62

// Key is the key of a job with a priority value of p when the clock shows now.
func Key(now, p int64) int64 { return now + Log2(min(p, maxPriority)) }

// Grow is the key of a job whose priority value has decayed until now and grows by growth.
func Grow(key, now, growth int64) int64 {
	p := int64(0)
	if key > now {
		p = Exp2(key - now)
	}
	return Key(now, p+min(growth, maxPriority-1)) // p is no more than Exp2 returns
}
