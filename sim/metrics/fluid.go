package metrics

import (
	"math"

	"couchrelay/sim/workload"
)

// fluid notes how old the oldest changes of a job are that are not copied; see workload.Fluid.
type fluid struct{ workload.Fluid }

// wait notes the age of the oldest change behind a position while nothing is copied. The age is 0 while there is
// none.
func (f *fluid) wait(ages *Distribution, x, from, to float64) {
	b := f.Born(x)
	if b > from {
		ages.add(0, min(b, to)-from)
		from = b
	}
	if from < to {
		ages.ramp(from-b, to-b, to-from)
	}
}

// copy notes the same while changes are copied, and returns the new position.
func (f *fluid) copy(ages *Distribution, x, from, to float64) float64 {
	for from < to {
		b := f.Born(x)
		if f.InBacklog(x) || b < from-workload.Slight*(1+from) {
			x, from = f.catchUp(ages, x, b, from, to)
			continue
		}
		if f.Speed >= f.Peak {
			ages.add(0, to-from)
			return max(x, f.Arrived(to))
		}
		if b >= to {
			ages.add(0, to-from)
			return x
		}
		ages.add(0, b-from)
		if x, from = f.periods(ages, x, max(b, from), to); from < to {
			x, from = f.catchUp(ages, x, from, from, to)
		}
	}
	return x
}

// periods notes the whole periods that begin at a time at which everything is copied, and are all alike: in the
// burst the copying falls behind, and catches up in the rest. It returns the position and time at their end.
func (f *fluid) periods(ages *Distribution, x, from, to float64) (float64, float64) {
	if f.Every == 0 || f.Speed <= f.Rate || f.fromBurst(from) > workload.Slight*(1+from) {
		return x, from
	}
	n := math.Floor((to - from) / f.Every)
	if n < 1 {
		return x, from
	}
	each := f.Rate * f.Every
	behind := each / f.Speed // from the burst's begin until everything is copied
	ages.ramp(0, behind-f.Burst, n*behind)
	ages.add(0, n*(f.Every-behind))
	return x + n*each, from + n*f.Every
}

// fromBurst is how far away the nearest beginning of a burst is.
func (f *fluid) fromBurst(t float64) float64 {
	t += f.Phase
	return math.Abs(t - math.Round(t/f.Every)*f.Every)
}

// catchUp notes the age until there is no oldest change, or its age changes otherwise, and returns the position
// and time at which that is.
func (f *fluid) catchUp(ages *Distribution, x, born, from, to float64) (float64, float64) {
	age, slope, lasts := from-born, 1.0, math.Inf(1)
	next := x
	if f.InBacklog(x) {
		next, lasts = f.Backlog, (f.Backlog-x)/f.Speed
	} else {
		slope = 1 - f.Speed/f.Peak
		if slope < 0 {
			lasts = -age / slope
			next = f.Arrived(from + lasts)
		}
		if f.Every > 0 {
			end := f.Behind(f.Bursts(x) + 1)
			if l := (end - x) / f.Speed; l < lasts {
				next, lasts = end, l
			}
		}
	}
	if from+lasts > to {
		lasts = to - from
		next = x + f.Speed*lasts
	}
	ages.ramp(age, age+slope*lasts, lasts)
	return next, from + lasts
}
