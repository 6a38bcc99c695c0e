package node

import (
	"testing"
	"time"
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
