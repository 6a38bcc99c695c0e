package schedule_test

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/schedule"
)

// Two accounts have used the service equally of late, but one of them has four times the shares. Its job goes
// first.
func ExampleOrder_Enter() {
	now := instant.Seconds(3600)
	order := schedule.Order{
		Policy:     schedule.FairShare,
		Forgetting: schedule.Forgetting{Interval: time.Minute, Coeff: 500_000},
		Decay:      schedule.Decay{HalfLife: time.Hour},
	}
	hour := time.Hour.Microseconds()
	small, _ := order.Enter(now, schedule.Account{Shares: 100, Jobs: 1, Usage: hour})
	large, _ := order.Enter(now, schedule.Account{Shares: 400, Jobs: 1, Usage: hour})
	fmt.Println("the larger account goes first:", large.Compare(small) < 0)

	// A priority falls by half in every half-life: a job that waits since the first hour, with a usage that
	// was as large, goes before a job that the same account adds now.
	early, _ := order.Enter(now.Add(-time.Hour), schedule.Account{Shares: 100, Jobs: 1, Usage: hour})
	fmt.Println("the older job goes first:", early.Compare(small) < 0)
	// Output:
	// the larger account goes first: true
	// the older job goes first: true
}

// Three jobs hold the slots of a node and one that sorts before two of them is ready.
func ExampleRotate() {
	now := instant.Seconds(3600)
	running := []schedule.Running{
		{Continuous: true, Since: now.Add(-time.Hour), Place: schedule.Place{Key: 10}},
		{Continuous: true, Since: now.Add(-time.Hour), Place: schedule.Place{Key: 40}},
		{Since: now.Add(-time.Hour), Place: schedule.Place{Key: 90}}, // a one-shot keeps its slot until it is over
	}
	ready := []schedule.Place{{Key: 20}}
	limits := schedule.Limits{MaxJobs: 3, MaxChurn: 2, MinRun: time.Minute}
	fmt.Println("stop:", schedule.Rotate(schedule.FairShare, running, 0, ready, limits, now))

	limits.MaxJobs = 4
	fmt.Println("with a free slot:", schedule.Rotate(schedule.FairShare, running, 0, ready, limits, now))
	// Output:
	// stop: [1]
	// with a free slot: []
}
