package lab

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// follower observes a lab, and notes an event that contradicts those before it.
type follower struct {
	does  map[int]string // by job: what it does
	wrong string
	again int // jobs that were over, and are ready
}

func (f *follower) Observe(e Event) {
	was, is := f.does[e.Job], ""
	switch e.What {
	case Submitted:
		is = "waits"
	case Ready:
		if is = "waits"; was == "runs" {
			is = was
		}
		if was == "is over" {
			f.again++
		}
	case Started:
		if is = "runs"; was != "waits" && was != "backs off" {
			f.note(e, was)
		}
	case Ended:
		is = [...]string{"waits", "waits", "is over", "backs off", "waits", "is gone"}[e.Why]
		if was != "runs" {
			f.note(e, was)
		}
	case Removed:
		if is = "is gone"; was == "runs" {
			f.note(e, was)
		}
	default:
		return
	}
	if was == "is gone" && is != was {
		f.note(e, was)
	}
	f.does[e.Job] = is
}

func (f *follower) note(e Event, was string) {
	if f.wrong == "" {
		f.wrong = fmt.Sprintf("at %s job %d %s, and it %s", e.At, e.Job, whats[e.What], was)
	}
}

// TestEventsAgree: no job starts that is over, ends that does not run, or comes back when it is gone, whichever
// nodes die while requests of them are in flight, or lose their leases.
func TestEventsAgree(t *testing.T) {
	again := 0
	for seed := range uint64(30) {
		c := hand()
		for n := range 300 {
			j := job{Submit: time.Duration(n) * sec, Backlog: float64(10 * (n % 17)), Continuous: n%5 == 0, Speed: 10}
			if j.ID = fmt.Sprint(n); n%3 == 0 {
				j.MTBF = 20 * sec
			}
			c.Workload.Jobs = append(c.Workload.Jobs, j)
		}
		c.Nodes, c.Seed, c.Duration, c.Latency = 3, seed, 20*m, time.Duration(seed%10)*500*time.Millisecond
		c.Settings.Node.MaxJobs, c.Settings.Node.ActivityTimeout = 120, 2*sec+time.Duration(seed%3)*9*sec
		for n := range 30 {
			c.Failures = append(c.Failures, Failure{Node: n % 3, At: time.Duration(n*37) * sec, For: 15 * sec})
		}
		f := follower{does: map[int]string{}}
		if err := Run(context.Background(), c, &f); err != nil || f.wrong != "" {
			t.Errorf("seed %d: %v %s", seed, err, f.wrong)
		}
		again += f.again
	}
	if again == 0 {
		t.Error("no end of a run is lost")
	}
}
