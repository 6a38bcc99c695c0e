// Package schedule decides which jobs run: which of the running ones give way to those that wait. It is
// pure computation on plain values; it knows no store and no replication.
package schedule

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
)

// Running is a job that has a slot.
type Running struct {
	Continuous bool
	Since      instant.Time
}

// Limits bound a node.
type Limits struct {
	MaxJobs  int           // jobs that run at once (max_jobs)
	MaxChurn int           // continuous jobs that give way in one cycle (max_churn)
	MinRun   time.Duration // before this a job does not give way to another (min_run_time_sec)
}

// Rotate chooses the running jobs to stop in this cycle, as indices of running. Those above MaxJobs go in
// any case, continuous ones before one-shots. Then as many continuous ones as are ready to take their
// places, up to MaxChurn in all. Whoever ran longest goes first. One-shots keep running once started,
// so that they keep their snapshot of the source.
func Rotate(running []Running, ready int, l Limits, now instant.Time) []int {
	order := make([]int, len(running))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if running[a].Continuous != running[b].Continuous {
			if running[a].Continuous {
				return -1
			}
			return 1
		}
		return cmp.Compare(running[a].Since, running[b].Since)
	})
	excess := max(0, len(running)-l.MaxJobs)
	stop := order[:excess:excess]
	free := l.MaxJobs - (len(running) - excess)
	swaps := min(ready-free, l.MaxChurn-excess)
	for _, i := range order[excess:] {
		if swaps <= 0 {
			break
		}
		if running[i].Continuous && now.Sub(running[i].Since) >= l.MinRun {
			stop = append(stop, i)
			swaps--
		}
	}
	return stop
}
