package metrics

import (
	"math"

	"couchrelay/sim/workload"
)

// fluid is a job's changes as workload.Job describes them. Times are seconds since the submission; changes of the
// backlog are as old as that. Positions are numbers of changes from the first
// of the backlog on. Changes are copied in the order in which they came.
type fluid struct {
	backlog, speed, rate float64
	every, burst         float64 // 0 for changes that come evenly
	peak                 float64 // rate while changes come
	phase                float64 // how much of an Every had passed
	before               float64 // changes of that Every that had come, and are no part of the backlog
}

// slight is what rounding may be off by, of times and of parts of an Every.
const slight = 1e-9

func fluidOf(j *workload.Job) fluid {
	f := fluid{backlog: j.Backlog, speed: j.Speed, rate: j.Rate, peak: j.Rate}
	if j.Every > 0 && j.Burst < j.Every {
		f.every, f.burst = j.Every.Seconds(), j.Burst.Seconds()
		f.peak = j.Rate * f.every / f.burst
		f.phase = j.Phase.Seconds()
		f.before = f.came(f.phase)
	}
	return f
}

// arrived is the position behind the last change that has come by a time.
func (f *fluid) arrived(t float64) float64 {
	if f.every == 0 {
		return f.backlog + f.rate*t
	}
	return f.backlog + f.came(t+f.phase) - f.before
}

// came is how many changes come in a time that begins with an Every.
func (f *fluid) came(t float64) float64 {
	n := math.Floor(t/f.every + slight)
	return f.rate * f.every * (n + min(max(t-n*f.every, 0)/f.burst, 1))
}

// born is when the change behind a position comes; +Inf for never.
func (f *fluid) born(x float64) float64 {
	y := x - f.backlog
	switch {
	case f.inBacklog(x):
		return 0
	case f.rate == 0:
		return math.Inf(1)
	case f.every == 0:
		return max(y, 0) / f.rate
	}
	n := f.bursts(x)
	return n*f.every + max((y+f.before)/(f.rate*f.every)-n, 0)*f.burst - f.phase
}

// inBacklog reports whether the change behind a position is one of the backlog.
func (f *fluid) inBacklog(x float64) bool { return x < f.backlog*(1-slight) }

// bursts is how many bursts lie wholly before a position, that of the phase too.
func (f *fluid) bursts(x float64) float64 {
	return math.Floor((x-f.backlog+f.before)/(f.rate*f.every) + slight)
}

// wait notes the age of the oldest change behind a position while nothing is copied. The age is 0 while there is
// none.
func (f *fluid) wait(ages *Distribution, x, from, to float64) {
	b := f.born(x)
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
		b := f.born(x)
		if f.inBacklog(x) || b < from-slight*(1+from) {
			x, from = f.catchUp(ages, x, b, from, to)
			continue
		}
		if f.speed >= f.peak {
			ages.add(0, to-from)
			return max(x, f.arrived(to))
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
	since := from + f.phase
	if f.every == 0 || f.speed <= f.rate || math.Abs(since-math.Round(since/f.every)*f.every) > slight*(1+since) {
		return x, from
	}
	n := math.Floor((to - from) / f.every)
	if n < 1 {
		return x, from
	}
	each := f.rate * f.every
	behind := each / f.speed // from the burst's begin until everything is copied
	ages.ramp(0, behind-f.burst, n*behind)
	ages.add(0, n*(f.every-behind))
	return x + n*each, from + n*f.every
}

// catchUp notes the age until there is no oldest change, or its age changes otherwise, and returns the position
// and time at which that is.
func (f *fluid) catchUp(ages *Distribution, x, born, from, to float64) (float64, float64) {
	age, slope, lasts := from-born, 1.0, math.Inf(1)
	next := x
	if f.inBacklog(x) {
		next, lasts = f.backlog, (f.backlog-x)/f.speed
	} else {
		slope = 1 - f.speed/f.peak
		if slope < 0 {
			lasts = -age / slope
			next = f.arrived(from + lasts)
		}
		if f.every > 0 {
			end := f.backlog - f.before + (f.bursts(x)+1)*f.rate*f.every
			if l := (end - x) / f.speed; l < lasts {
				next, lasts = end, l
			}
		}
	}
	if from+lasts > to {
		lasts = to - from
		next = x + f.speed*lasts
	}
	ages.ramp(age, age+slope*lasts, lasts)
	return next, from + lasts
}
