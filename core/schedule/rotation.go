// Package schedule decides which jobs run: the order in which they get slots, what their accounts' use of
// the service means for that, and which of the running ones give way to those that wait. It is pure
// computation on plain values, in integers; it knows no store and no replication.
//
// Kay and Lauder's fair share ("A Fair Share Scheduler", 1988), which CouchDB has, lets the priority values
// of all jobs decay in every interval. Here a job that waits is never touched: it stands under a key that
// says when its value will have decayed to 1 (see Decay), which orders jobs as the decayed values would.
// Only running jobs' values are kept up to date, by their worker, once in an interval.
package schedule

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
)

// Running is a job that has a slot.
type Running struct {
	Continuous bool
	Since      instant.Time
	Place      Place // that it would have if it stopped now
}

// Limits bound a node.
type Limits struct {
	MaxJobs  int           // jobs that run at once (max_jobs)
	MaxChurn int           // continuous jobs that give way in one cycle (max_churn)
	MinRun   time.Duration // before this a job does not give way to another (min_run_time_sec)
}

// Rotate chooses the running jobs to stop in this cycle, as indices of running. Those above MaxJobs go in
// any case, continuous ones before one-shots. Then as many continuous ones as there are ready jobs to take
// their places, up to MaxChurn in all, but none for a job that would sort behind it. ready are the
// places of the first ready jobs, in order. Under FairShare the last in the order go first, otherwise and among
// equals those that ran longest. One-shots keep running once started, so that they keep their snapshot of the source.
func Rotate(p Policy, running []Running, ready []Place, l Limits, now instant.Time) []int {
	order := make([]int, len(running))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := running[i], running[j]
		if a.Continuous != b.Continuous {
			if a.Continuous {
				return -1
			}
			return 1
		}
		if p == FairShare && a.Place != b.Place {
			return b.Place.Compare(a.Place)
		}
		return cmp.Compare(a.Since, b.Since)
	})
	excess := max(0, len(running)-l.MaxJobs)
	stop := order[:excess:excess]
	free := l.MaxJobs - (len(running) - excess)
	ready = ready[min(free, len(ready)):] // the first ones need nobody's slot
	swaps := min(len(ready), l.MaxChurn-excess)
	for _, i := range order[excess:] {
		if swaps <= 0 {
			break
		}
		r := running[i]
		if r.Continuous && now.Sub(r.Since) >= l.MinRun && ready[0].Compare(r.Place) <= 0 {
			stop, ready, swaps = append(stop, i), ready[1:], swaps-1
		}
	}
	goOn := len(running) - len(stop)
	invariant.Check(goOn <= l.MaxJobs && len(stop) <= max(excess, l.MaxChurn), withinChurn, goOn, len(stop), excess)
	return stop
}
