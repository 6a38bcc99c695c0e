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
	Continuous bool         // may have to give way to a waiting job
	Since      instant.Time // when it got its slot, by the clock that Rotate is given
	Place      Place        // its place in the queue if it stopped now
}

// Limits bound a node.
type Limits struct {
	MaxJobs  int           // jobs that run at once (max_jobs), 0 or more
	MaxChurn int           // continuous jobs that give way in one cycle (max_churn), 0 or more
	MinRun   time.Duration // how long a job runs before it gives way to another (min_run_time_sec)
}

// Rotate chooses the running jobs to stop in this cycle, as indices of running (RFC 017, "How Jobs Start
// and Stop").
//
//   - Jobs above MaxJobs stop in any case, and come first, continuous ones before one-shots: the limit was lowered.
//   - Then continuous jobs stop that ran for MinRun, as many as there are ready jobs that find no free
//     slot, up to MaxChurn with those above. None stops for a job that would sort behind it.
//   - One-shots are never stopped for others, so that they keep their snapshot of the source.
//
// yields is the number of jobs beside these that give way already and keep their slots for a while. ready has the
// places of the first ready jobs, in order. The policy says which of the running jobs stop
// first; among equals it is those that ran longest.
func Rotate(p Policy, running []Running, yields int, ready []Place, l Limits, now instant.Time) []int {
	rules, order := p.rules(), make([]int, len(running))
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
		return cmp.Or(rules.GivesWay(a, b), cmp.Compare(a.Since, b.Since))
	})
	excess := max(0, len(running)-l.MaxJobs)
	stop := order[:excess:excess]
	free := max(0, l.MaxJobs-(len(running)-excess)-yields)
	ready = ready[min(free, len(ready)):] // the first ones get the free slots
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
