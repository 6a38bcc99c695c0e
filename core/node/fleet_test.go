package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/schedule"

	"pgregory.net/rapid"
)

// TestFleetSharesTheWork: three nodes take about equal parts of the jobs; when one vanishes the others take its
// jobs in about equal parts; and when it comes back they give jobs to it, slowly, until all have about equal
// parts again.
func TestFleetSharesTheWork(t *testing.T) {
	const jobs = 300
	w := newWorld(t)
	a, b, c := w.start("a", nil), w.start("b", nil), w.start("c", nil)
	w.pass(10 * time.Second)
	w.putMany(jobs, true)
	w.pass(10 * time.Second)
	shares := func(what string, slack int, nodes ...*driven) {
		t.Helper()
		all := 0
		for _, n := range nodes {
			all += n.Running()
			if off := n.Running() - jobs/len(nodes); off < -slack || off > slack {
				t.Errorf("%s: %s runs %d of %d jobs", what, n.name, n.Running(), jobs)
			}
		}
		if all != jobs {
			t.Errorf("%s: %d jobs run", what, all)
		}
	}
	shares("at the start", 25, a, b, c)
	c.paused = true
	w.pass(w.handoverBound())
	shares("after a failure", 35, a, b)
	d := w.start("d", nil)
	w.pass(9 * time.Minute)
	if d.Running() > 0 {
		t.Errorf("%d jobs moved before they had rested", d.Running())
	}
	before := d.Running()
	for range 12 {
		w.pass(time.Minute)
		if moved := d.Running() - before; moved > 20 {
			t.Errorf("%d jobs moved in a minute", moved)
		}
		before = d.Running()
		for _, n := range []*driven{a, b} {
			n.stopAll()
		}
	}
	shares("after its return", 30, a, b, d)
	runs := a.nextRun + b.nextRun + d.nextRun
	w.pass(time.Hour)
	if moved := a.nextRun + b.nextRun + d.nextRun - runs; moved > 0 {
		t.Errorf("%d jobs moved without need", moved)
	}
	w.audit()
}

// TestNodesThatStartTogether: a node that starts while another one settles gets its part of the jobs that wait.
func TestNodesThatStartTogether(t *testing.T) {
	const jobs = 300
	w := newWorld(t)
	w.putMany(jobs, true)
	settles := func(c *Config) { c.Settling = DefaultSettling }
	first := w.start("first", settles)
	w.pass(DefaultSettling / 2)
	second := w.start("second", settles)
	w.pass(10 * time.Second)
	if a, b := first.Running(), second.Running(); a+b != jobs || min(a, b) < jobs/3 {
		t.Errorf("the first runs %d jobs, the second %d", a, b)
	}
}

// TestMovers: which runs a node gives away. It runs 100 jobs and the other node none, so that 50 are too many.
func TestMovers(t *testing.T) {
	now := instant.Time(0).Add(time.Hour)
	settings := DefaultSettings() // max_churn 20: five moves at once
	two := []schedule.Load{{Name: "me", MaxJobs: 500, Running: 100}, {Name: "other", MaxJobs: 500}}
	for name, c := range map[string]struct {
		change func(s *Settings, loads []schedule.Load, r *run)
		moves  int
	}{
		"all may move":  {func(*Settings, []schedule.Load, *run) {}, 5},
		"switched off":  {func(s *Settings, _ []schedule.Load, _ *run) { s.Rebalance = false }, 0},
		"without churn": {func(s *Settings, _ []schedule.Load, _ *run) { s.MaxChurn = 0 }, 0},
		"one in four":   {func(s *Settings, _ []schedule.Load, _ *run) { s.MaxChurn = 1 }, 1},
		"one-shots":     {func(_ *Settings, _ []schedule.Load, r *run) { r.continuous = false }, 0},
		"stopping":      {func(_ *Settings, _ []schedule.Load, r *run) { r.state = stopping }, 0},
		"not rested": {func(_ *Settings, _ []schedule.Load, r *run) {
			r.since = now.Add(time.Second - 10*time.Minute)
		}, 0},
		"min_run_time":      {func(s *Settings, _ []schedule.Load, _ *run) { s.MinRun = 2 * time.Hour }, 0},
		"the other is full": {func(_ *Settings, l []schedule.Load, _ *run) { l[1].MaxJobs = 0 }, 0},
		"within the slack":  {func(_ *Settings, l []schedule.Load, _ *run) { l[1].Running = 90 }, 0},
	} {
		s, loads, runs := settings, slices.Clone(two), make([]*run, 100)
		for i := range runs {
			runs[i] = &run{held: Held{JobID: fmt.Sprint("job", i)}, continuous: true}
			c.change(&s, loads, runs[i])
		}
		f := fleet{loads: loads, parts: schedule.Parts(loads)}
		movers := f.movers(runs, s, now)
		if len(movers) != c.moves {
			t.Errorf("%s: %d runs move, not %d", name, len(movers), c.moves)
		}
	}
	alone := fleet{loads: two[:1], parts: schedule.Parts(two[:1])}
	if movers := alone.movers([]*run{{continuous: true}}, settings, now); len(movers) > 0 {
		t.Error("a run of a node that is alone moves")
	}
}

// TestMoversThatStay: jobs that give way and stay for a while count as moved, so that no others go in their place.
func TestMoversThatStay(t *testing.T) {
	now := instant.Time(0).Add(time.Hour)
	for stay, want := range map[int]int{0: 5, 38: 5, 45: 0, 60: 0} {
		f := fleet{loads: []schedule.Load{{Name: "me", MaxJobs: 500, Running: 100}, {Name: "other", MaxJobs: 500}}}
		f.parts = schedule.Parts(f.loads)
		var runs []*run
		for i := 0; len(runs) < 100; i++ {
			r := &run{held: Held{JobID: fmt.Sprint("job", i)}, continuous: true}
			if f.even().owner(r.held.JobID) == f.me || f.own().Has(r.held.JobID) {
				continue // it stays here
			}
			if len(runs) < stay {
				r.state = yielding
			}
			runs = append(runs, r)
		}
		if movers := f.movers(runs, DefaultSettings(), now); len(movers) != want {
			t.Errorf("while %d of 50 jobs that are too many give way, %d more move, not %d", stay, len(movers), want)
		}
	}
}

// TestMoversLeave: in no fleet a job moves that is in the part of the node which gives it away: that node would
// take the job back. And no node gets more jobs than it lacks. One fleet in a hundred has a job of the former kind:
// buckets go to other nodes than one would think where nodes are small, and share them.
func TestMoversLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			testMoversLeave(t)
		}
	})
}

func testMoversLeave(t *rapid.T) {
	f := fleet{}
	for i := range rapid.IntRange(2, 12).Draw(t, "nodes") {
		slots := rapid.IntRange(1, rapid.SampledFrom([]int{4, 300}).Draw(t, "size")).Draw(t, "slots")
		running := slots * rapid.IntRange(0, 4).Draw(t, "quarters") / 4
		f.loads = append(f.loads, schedule.Load{Name: fmt.Sprint("n", i), MaxJobs: slots, Running: running})
	}
	for i, l := range f.loads {
		if l.Running > f.loads[f.me].Running {
			f.me = i
		}
	}
	f.parts = schedule.Parts(f.loads)
	runs := make([]*run, f.loads[f.me].Running)
	for i := range runs {
		runs[i] = &run{held: Held{JobID: fmt.Sprint("job", i)}, continuous: true}
	}
	s := DefaultSettings()
	s.MaxChurn = 1000
	then, loads := f.even(), slices.Clone(f.loads)
	for _, r := range f.movers(runs, s, instant.Time(0).Add(time.Hour)) {
		if f.own().Has(r.held.JobID) {
			t.Fatalf("%s moves", r.held.JobID)
		}
		to := then.owner(r.held.JobID)
		if loads[to].Running++; loads[to].Running > then.loads[to].Running {
			t.Fatalf("node %d gets more jobs than it lacks", to)
		}
	}
}

// TestOthersFree: jobs are left to others only where one of these has free slots.
func TestOthersFree(t *testing.T) {
	free, full := schedule.Load{MaxJobs: 5, Running: 4}, schedule.Load{MaxJobs: 5, Running: 5}
	for _, c := range []struct {
		loads []schedule.Load
		want  bool
	}{
		{[]schedule.Load{free}, false}, {[]schedule.Load{free, full}, false},
		{[]schedule.Load{full, free}, true}, {[]schedule.Load{full, full, free}, true},
	} {
		if got := (fleet{loads: c.loads}).othersFree(); got != c.want {
			t.Errorf("beside %+v: %v", c.loads, got)
		}
	}
}
