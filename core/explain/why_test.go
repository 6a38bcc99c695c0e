package explain

import (
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/ratelimit"
	"couchrelay/core/schedule"
)

// TestCausesInTheirOrder: all that keeps a job from running is told, and each thing in its place.
func TestCausesInTheirOrder(t *testing.T) {
	refused := jobstore.View{Refused: 1}
	paused := jobstore.Control{Pause: &jobstore.Pause{By: "op"}, PausedByDocument: true,
		Parking: jobstore.Parking{HeldBy: "server:gone", WaitsFor: "other"}}
	for name, c := range map[string]struct {
		e    Explanation
		job  jobs.State
		rec  jobstore.Record
		want []Cause
	}{
		"a run that is to stop": {
			Explanation{Holds: []jobstore.Hold{{Server: "a"}}, View: refused, Problem: &Problem{},
				Endpoint: [2]Endpoint{1: {Limiter: make([]ratelimit.Kept, 1)}}},
			jobs.Running, jobstore.Record{State: jobstore.Running, Control: paused},
			[]Cause{Running, Lost, Slowed, Stopping, Paused, ByDoc, Held, Lifted, Waits, Crashed, Refused},
		},
		"a run that was paused": {
			Explanation{Node: &Node{}}, jobs.Running,
			jobstore.Record{State: jobstore.Running, Control: jobstore.Control{Pause: &jobstore.Pause{}}},
			[]Cause{Running, Stopping, Paused},
		},
		"a run that its document pauses": {
			Explanation{Node: &Node{}}, jobs.Running,
			jobstore.Record{State: jobstore.Running, Control: jobstore.Control{PausedByDocument: true}},
			[]Cause{Running, Stopping, ByDoc},
		},
		"a run that is held": {
			Explanation{Node: &Node{}, Holds: []jobstore.Hold{{Server: "a"}}}, jobs.Running,
			jobstore.Record{State: jobstore.Running}, []Cause{Running, Stopping, Held},
		},
		"after a crash": {
			Explanation{Due: 5, Position: &Position{Ahead: 1}, Problem: &Problem{}},
			jobs.Pending, jobstore.Record{State: jobstore.Crashing, Lessons: jobstore.Lessons{Throttled: true}},
			[]Cause{Backoff, Queued, NoNode, Throttled},
		},
		"behind others": {
			Explanation{Due: 5, Position: &Position{Ahead: 1}, Slots: Slots{MaxJobs: 2}},
			jobs.Pending, jobstore.Record{State: jobstore.Pending}, []Cause{Returning, Queued, AllInUse},
		},
		"before all others": {
			Explanation{Position: &Position{}, Slots: Slots{MaxJobs: 2, Free: 1}},
			jobs.Pending, jobstore.Record{State: jobstore.Pending}, []Cause{Next},
		},
		"paused before it left the queue": {
			Explanation{Position: &Position{}, Slots: Slots{MaxJobs: 2, Free: 1}}, jobs.Pending,
			jobstore.Record{State: jobstore.Pending, Control: jobstore.Control{PausedByDocument: true}},
			[]Cause{ByDoc},
		},
		"completed": {
			Explanation{View: refused, Problem: &Problem{}},
			jobs.Finished, jobstore.Record{State: jobstore.Completed, Control: paused}, []Cause{Completed, Refused},
		},
		"failed": {Explanation{}, jobs.Finished, jobstore.Record{State: jobstore.Failed}, []Cause{Failed}},
	} {
		x := explaining{Explanation: &c.e, job: &jobs.Job{State: c.job}, rec: &c.rec}
		if x.why(); !slices.Equal(x.Why, c.want) {
			t.Errorf("%s: %q, want %q", name, x.Why, c.want)
		}
	}
}

// TestEstimates: how long a job waits is told only where it can be known.
func TestEstimates(t *testing.T) {
	order := schedule.Order{Forgetting: schedule.Forgetting{Interval: time.Minute}}
	slots := Slots{Nodes: 2, MaxJobs: 100, Free: 3}
	for name, c := range map[string]struct {
		at    Position
		slots Slots
		state jobstore.State
		churn int
		want  time.Duration // -1 for unknown, and -2 for nothing to be told
	}{
		"a free slot":          {Position{Ahead: 2}, slots, jobstore.Pending, 5, 0},
		"the last one is gone": {Position{Ahead: 3}, slots, jobstore.Pending, 5, time.Minute},
		"both nodes give way":  {Position{Ahead: 3 + 9}, slots, jobstore.Pending, 5, time.Minute},
		"a round later":        {Position{Ahead: 3 + 10}, slots, jobstore.Pending, 5, 2 * time.Minute},
		"too many to count":    {Position{Ahead: MaxAhead, More: true}, slots, jobstore.Pending, 5, -1},
		"no slots":             {Position{}, Slots{Nodes: 2}, jobstore.Pending, 5, -1},
		"who gives way?":       {Position{Ahead: 3}, slots, jobstore.Pending, 0, -1},
		"over":                 {Position{}, slots, jobstore.Completed, 5, -2},
	} {
		x := explaining{
			Explanation: &Explanation{Position: &c.at, Slots: c.slots}, order: order, asking: Asking{MaxChurn: c.churn},
			job: &jobs.Job{State: jobs.Pending}, rec: &jobstore.Record{State: c.state},
		}
		x.estimate()
		got := time.Duration(-2)
		if x.saysUnknown("estimated_wait_seconds") {
			got = -1
		} else if x.Wait != nil {
			got = *x.Wait
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	const year = 365 * 24 * time.Hour
	for _, settings := range [][2]time.Duration{{year, 0}, {time.Minute, math.MaxInt64}} { // meant as for ever
		order.Forgetting.Interval = settings[0]
		x := explaining{
			Explanation: &Explanation{Position: &Position{Ahead: 5000}, Slots: slots}, order: order,
			asking: Asking{MaxChurn: 1, MinRun: settings[1]},
			job:    &jobs.Job{State: jobs.Pending}, rec: &jobstore.Record{State: jobstore.Pending},
		}
		if x.estimate(); *x.Wait < 200*year {
			t.Errorf("with settings of %s a job waits for %s", settings, *x.Wait)
		}
	}
}
