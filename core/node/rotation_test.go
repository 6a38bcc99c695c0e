package node

import (
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// TestWaitingRunHasNotRun: how long a run waited for an old run of its job to stop is no part of its
// min_run_time_sec.
func TestWaitingRunHasNotRun(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b","continuous":true}`)
	n := w.start("n1", func(c *Config) {
		c.Limits = schedule.Limits{MaxJobs: 2, MaxChurn: 1, MinRun: 10 * time.Second}
		c.StopTimeout = time.Hour
	})
	w.pass(time.Second)
	w.put("r", `{"source":"http://h/c","target":"http://h/b","continuous":true}`)
	w.pass(time.Second)
	waiting := n.runs[len(n.runs)-1]
	gives := func() bool {
		n.step(Configure{Settings: n.cfg.Settings}) // sets the node's clock
		before := schedule.Place{Epoch: waiting.place.Epoch, Key: waiting.place.Key - 1}
		n.rotate(Surveyed{Counts: jobs.Counts{Ready: 2}, First: []schedule.Place{before, before}}) // one slot is free
		return waiting.state != going
	}
	w.pass(time.Minute)
	if waiting.start == nil || gives() {
		t.Fatal("the run gives way before it has begun")
	}
	n.stopAll()
	w.pass(5 * time.Second)
	if waiting.start != nil || gives() {
		t.Fatal("the run gives way 5 seconds after it began")
	}
	if w.pass(6 * time.Second); !gives() {
		t.Error("the run does not give way 11 seconds after it began")
	}
}

// TestLongestRunsFirst: fifo stops the run that began first, and queues its job behind the jobs that waited.
func TestLongestRunsFirst(t *testing.T) {
	w := newWorld(t)
	w.share(func(c *jobstore.Sharing) { c.Policy = schedule.FIFO })
	w.putMany(4, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 2, MaxChurn: 1} })
	w.play(10 * time.Minute)
	if n.Running() != 2 || len(n.stopped) < 8 {
		t.Errorf("%d run, %d were stopped", n.Running(), len(n.stopped))
	}
	w.audit()
}

// TestJitter: what is due after a time is due in its last quarter, so that nodes do not act in step; a time of nothing
// has none.
func TestJitter(t *testing.T) {
	n := newWorld(t).start("n", nil)
	for _, d := range []time.Duration{0, 1, 3, 4, 5, 1000, time.Hour} {
		early := false
		for range 100 {
			got := n.jitter(d)
			if early = early || got < d; got > d || got < d-d/4 {
				t.Errorf("%d becomes %d", d, got)
			}
		}
		if d >= 1000 && !early {
			t.Errorf("%s has no jitter", d)
		}
	}
}

// TestSurveyIsBounded: the most that max_jobs and max_churn allow is more than a transaction can read.
func TestSurveyIsBounded(t *testing.T) {
	for _, l := range []schedule.Limits{{MaxJobs: 1_000_000}, {MaxJobs: 1, MaxChurn: 1_000_000}} {
		w := newWorld(t)
		asked := 0
		n := w.start("n1", func(c *Config) { c.Limits = l })
		n.hold = func(q Request) bool {
			if survey, is := q.(Survey); is {
				asked = max(asked, survey.First)
			}
			return false
		}
		w.pass(2 * time.Minute)
		if asked == 0 || asked > 10_000 {
			t.Errorf("%+v: %d ready jobs are asked for at once", l, asked)
		}
	}
}
