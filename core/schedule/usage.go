package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// Charge is how long the jobs of an account held slots of a worker within one interval.
type Charge struct {
	Account string
	At      instant.Time // when the interval began, a multiple of its length
	Worker  string       // a process that never comes again
	Used    int64        // microseconds, of all its jobs together
}

// Forgetting says how usage is forgotten.
type Forgetting struct {
	Interval time.Duration // between two charges
	Coeff    int64         // what is left of usage an interval later, in millionths (usage_coeff)
}

// MaxUsageCoeff bounds Forgetting.Coeff, so that what must be remembered stays small.
const MaxUsageCoeff = 900_000

// begin is when the interval began in which t lies.
func (f Forgetting) begin(t instant.Time) instant.Time {
	length := instant.Time(max(f.Interval.Microseconds(), 1))
	return t / length * length
}

// Counted is the last interval that counts at a time: it has been over for a quarter of an interval, so
// that all workers have charged for it. Were charges of an interval under way to count, an account would
// have the less usage the longer ago its workers happened to charge.
func (f Forgetting) Counted(now instant.Time) instant.Time {
	return f.begin(now.Add(-f.Interval/4)) - instant.Time(f.Interval.Microseconds())
}

// Memory is how long a charge of one slot counts before nothing is left of it: 26 intervals of a minute
// by half.
func (f Forgetting) Memory() time.Duration {
	intervals := time.Duration(1)
	for left := f.Interval.Microseconds(); left > 0 && intervals < 1000; intervals++ {
		left = mulDiv(left, min(f.Coeff, MaxUsageCoeff), million)
	}
	return intervals * f.Interval
}

// Usage is what an account used, which counts the less the older it is: in every interval, oldest first,
// usage becomes trunc(usage*coeff) + charges (RFC 017, step 1, with the truncation of CouchDB's
// implementation). charges are in the order of their times; those behind Counted are left out.
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

// Growth is what is added to the priority value of a running job in every interval:
// trunc(usage * jobs / shares^2), with the number of the account's jobs (RFC 017, step 3, as CouchDB
// implements it).
func Growth(usage, jobs, shares int64) int64 {
	shares = max(shares, 1)
	return mulDiv(max(usage, 0), max(jobs, 0), shares*shares)
}
