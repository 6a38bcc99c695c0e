package workload

import (
	"math"
	"time"
)

// Arrived is how many changes have come at the source a time after the job was submitted, its Backlog among
// them.
func (j *Job) Arrived(t time.Duration) float64 {
	if j.Every <= 0 || j.Burst >= j.Every {
		return j.Backlog + j.Rate*t.Seconds()
	}
	whole, part := t/j.Every, t%j.Every
	came := float64(whole) * j.Every.Seconds()
	return j.Backlog + j.Rate*(came+min(part, j.Burst).Seconds()*j.Every.Seconds()/j.Burst.Seconds())
}

// Copied is how many changes are copied in all at time to, when done were copied at time from and the job
// copied all the time between; times count from the submission. Changes are copied at the job's speed, and
// none before it came: whenever the job has caught up, it goes on from what had arrived then. That can only
// be at the beginning of a burst or at the end.
func (j *Job) Copied(done float64, from, to time.Duration) float64 {
	if to <= from {
		return done
	}
	most := min(done+j.Speed*(to-from).Seconds(), j.Arrived(to))
	if j.Every > 0 && j.Burst < j.Every {
		for k := from/j.Every + 1; k*j.Every < to; k++ {
			begin := k * j.Every
			most = min(most, j.Arrived(begin)+j.Speed*(to-begin).Seconds())
		}
	}
	return math.Max(done, most)
}
