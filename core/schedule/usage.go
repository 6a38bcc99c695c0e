package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// Charge is how long the jobs of an account held slots of a worker within one interval.
type Charge struct {
	Account string
	At      instant.Time // when the interval began, a multiple of its length, by the worker's wall clock
	Worker  string       // a process; no other one, and no later one of its node, has the name
	Used    int64        // microseconds, of all its jobs together; it only grows
}

// Forgetting is how usage is forgotten: K1 and t1 of Kay and Lauder, step 1 of RFC 017.
type Forgetting struct {
	Interval time.Duration // between two charges; 100 ms or more by configuration
	Coeff    int64         // what is left an interval later, in millionths (usage_coeff), up to MaxUsageCoeff
}

// MaxUsageCoeff bounds Forgetting.Coeff, so that what must be remembered stays small.
const MaxUsageCoeff = 900_000

// begin is the beginning of the interval in which t lies. Intervals are multiples of their length since
// 1970, so that all workers have the same ones.
func (f Forgetting) begin(t instant.Time) instant.Time {
	length := instant.Time(max(f.Interval.Microseconds(), 1))
	return t / length * length
}

// Counted is the beginning of the last interval that counts at a time: one that has been over for a quarter
// of an interval, so that all workers have charged for it. If unfinished intervals counted, an account's
// usage would depend on how long ago its workers happened to charge.
func (f Forgetting) Counted(now instant.Time) instant.Time {
	return f.begin(now.Add(-f.Interval/4)) - instant.Time(f.Interval.Microseconds())
}

// Memory is how long it takes until nothing is left of the charge of one slot for one interval: 26
// intervals for intervals of a minute and a coefficient of one half.
func (f Forgetting) Memory() time.Duration {
	intervals := time.Duration(1)
	for left := f.Interval.Microseconds(); left > 0; intervals++ {
		left = mulDiv(left, min(f.Coeff, MaxUsageCoeff), million)
	}
	return intervals * f.Interval
}

// Usage is what an account used, in microseconds of slots; the longer ago that was, the less it counts. In
// every interval, oldest first, usage becomes trunc(usage*coeff) + charges (RFC 017, step 1, with the
// truncation of CouchDB's implementation). charges are in the order of their times; those after Counted are
// left out.
func (f Forgetting) Usage(charges []Charge, now instant.Time) int64 {
	counted, length := f.Counted(now), instant.Time(max(f.Interval.Microseconds(), 1))
	usage, at := int64(0), instant.Time(0)
	decay := func(to instant.Time) {
		for ; at < to && usage > 0; at += length {
			usage = mulDiv(usage, f.Coeff, million)
		}
		at = to
	}
	for _, c := range charges {
		if c.At > counted {
			break
		}
		decay(f.begin(c.At))
		usage += c.Used
	}
	decay(counted)
	return usage
}

// Growth is what is added to the priority value of a running job of the account in every interval: trunc(usage *
// jobs / shares^2), with the number of the account's jobs, waiting ones too (RFC 017, step 3, as CouchDB
// implements it). That is usage/shares, how much the account used for its shares, times jobs/shares, how
// many jobs have to share them. A job of another weight than the mean counts the jobs as the sum of their weights
// over its own.
func (a Account) Growth() int64 {
	shares := max(a.Shares, 1)
	return mulDiv(max(a.Usage, 0), a.weights(), a.weight()*shares*shares)
}
