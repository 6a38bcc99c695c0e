package workload

import (
	"cmp"
	"slices"
	"time"
)

// longest bounds the time that a one-shot copies, so that moments can be computed with.
const longest = 1e9 // seconds

// leaves is when a job is over that gets a slot at once; false if it stays.
func (j *Job) leaves() (at time.Duration, does bool) {
	at, does = j.Remove, j.Remove > 0
	done := j.Submit + j.Startup + time.Duration(min(j.Backlog/j.Speed, longest)*float64(time.Second))
	if !j.Continuous && (!does || done < at) {
		return done, true
	}
	return at, does
}

// Busiest returns the jobs that are there at the first moment at which most are, as if one-shots never waited.
func (w *Workload) Busiest() (list []Job) {
	when := w.busiest()
	for _, j := range w.Jobs {
		if at, does := j.leaves(); j.Submit <= when && (!does || at > when) {
			list = append(list, j)
		}
	}
	return list
}

func (w *Workload) busiest() (when time.Duration) {
	type step struct {
		at time.Duration
		by int
	}
	var steps []step
	for _, j := range w.Jobs {
		steps = append(steps, step{j.Submit, 1})
		if at, does := j.leaves(); does {
			steps = append(steps, step{at, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by))
	})
	n, highest := 0, 0
	for _, s := range steps {
		if n += s.by; n > highest {
			highest, when = n, s.at
		}
	}
	return when
}
