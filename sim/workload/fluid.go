package workload

import "math"

// Fluid is a job's changes, as Job describes them, for computations. Times are seconds since the submission;
// changes of the backlog are as old as that. Positions are numbers of changes from the first of the backlog on.
// Changes are copied in the order in which they came.
type Fluid struct {
	Backlog, Speed, Rate float64
	// Every is 0 for changes that come evenly, and Phase is how much of an Every had passed at time 0.
	Every, Burst, Phase float64
	Peak                float64 // the rate while changes come
	before              float64 // changes that came in the Phase
}

// Slight is what rounding may be off by, of times and of parts of an Every.
const Slight = 1e-9

// Fluid has the job's changes.
func (j *Job) Fluid() Fluid {
	f := Fluid{Backlog: j.Backlog, Speed: j.Speed, Rate: j.Rate, Peak: j.Rate}
	if j.Every > 0 && j.Burst < j.Every {
		f.Every, f.Burst, f.Phase = j.Every.Seconds(), j.Burst.Seconds(), j.Phase.Seconds()
		f.Peak = j.Rate * f.Every / f.Burst
		f.before = f.Peak * min(f.Phase, f.Burst)
	}
	return f
}

// Arrived is the position behind the last change that has come by a time.
func (f *Fluid) Arrived(t float64) float64 {
	if f.Every == 0 {
		return f.Backlog + f.Rate*t
	}
	t += f.Phase
	n := math.Floor(t/f.Every + Slight)
	return f.Behind(n) + f.Peak*min(max(t-n*f.Every, 0), f.Burst)
}

// Born is when the change behind a position comes; +Inf for never.
func (f *Fluid) Born(x float64) float64 {
	switch {
	case f.InBacklog(x):
		return 0
	case f.Rate == 0:
		return math.Inf(1)
	case f.Every == 0:
		return max(x-f.Backlog, 0) / f.Rate
	}
	n := f.Bursts(x)
	return max(n*f.Every+max(x-f.Behind(n), 0)/f.Peak-f.Phase, 0)
}

// InBacklog reports whether the change behind a position is one of the backlog.
func (f *Fluid) InBacklog(x float64) bool { return x < f.Backlog*(1-Slight) }

// Bursts is how many bursts lie wholly before a position. The one of time 0 counts from the beginning of its
// Every.
func (f *Fluid) Bursts(x float64) float64 {
	return math.Floor((x-f.Behind(0))/(f.Rate*f.Every) + Slight)
}

// Behind is the position behind the last change of n bursts.
func (f *Fluid) Behind(n float64) float64 { return f.Backlog - f.before + n*f.Rate*f.Every }

// Copied is the position at time to of a job that was at done at time from and copied all the time between.
// Changes are copied at the job's speed, and none before it came. A job that has caught up falls behind again
// only when a burst begins; of all beginnings between, the first or the last matters most, since what has come
// by them and what can be copied after them both grow evenly.
func (f *Fluid) Copied(done, from, to float64) float64 {
	if to <= from {
		return done
	}
	most := min(done+f.Speed*(to-from), f.Arrived(to))
	if f.Every > 0 {
		first, last := math.Floor((from+f.Phase)/f.Every)+1, math.Ceil((to+f.Phase)/f.Every)-1
		for _, n := range []float64{first, last} {
			if first <= last {
				most = min(most, f.Behind(n)+f.Speed*(to-(n*f.Every-f.Phase)))
			}
		}
	}
	return max(done, most)
}
