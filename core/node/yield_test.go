package node

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/schedule"
)

// TestRunThatStays: a run that is to give way, and has not said yet that it does, keeps its slot for as long as it
// takes. Another one gives way meanwhile, and an order to stop does not wait.
func TestRunThatStays(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 2, MaxChurn: 1} })
	n.stays = true
	w.pass(time.Second)
	long, other := n.runOf("r000"), n.runOf("r001")
	w.pass(n.cfg.Interval + n.cfg.StopTimeout + time.Second)
	if len(n.stopped) > 0 || len(n.told) != 1 || n.told[0] != fmt.Sprintf("%d replication.GiveWay", long) {
		t.Fatalf("stopped %v, told %v", n.stopped, n.told)
	}
	n.stays = false
	w.pass(n.cfg.Interval)
	if !n.stopped[other] || n.stopped[long] {
		t.Fatalf("stopped %v beside run %d, which stays", n.stopped, long)
	}
	n.step(RunGivesWay{Run: long})
	if !n.stopped[long] {
		t.Errorf("run %d says that it gives way, and is not stopped", long)
	}
	w.pass(n.cfg.StopTimeout + time.Second)
	if _, on := n.running[long]; on {
		t.Errorf("run %d stops slowly, and still runs", long)
	}
	w.audit()
}

func TestOrderToStopOneThatStays(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 1, MaxChurn: 1} })
	n.stays = true
	w.pass(time.Second + n.cfg.Interval)
	run := n.runOf("r000")
	if len(n.told) != 1 || n.stopped[run] {
		t.Fatalf("told %v, stopped %v", n.told, n.stopped)
	}
	n.step(Drain{})
	if !n.stopped[run] {
		t.Error("the node leaves, and does not stop its run")
	}
	n.step(RunGivesWay{Run: run})
	w.audit()
}

// TestLoweredMaxJobsStops: an operator who lowers max_jobs waits for no document. The run that gives way anyway is the
// first to go.
func TestLoweredMaxJobsStops(t *testing.T) {
	w := newWorld(t)
	w.putMany(4, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 3, MaxChurn: 1} })
	n.stays = true
	w.pass(time.Second + n.cfg.Interval)
	long := n.runOf("r000")
	if len(n.told) != 1 || len(n.stopped) > 0 {
		t.Fatalf("told %v, stopped %v", n.told, n.stopped)
	}
	for _, most := range []int{2, 0} {
		s := n.cfg.Settings
		s.MaxJobs = most
		n.step(Configure{Settings: s})
		w.pass(time.Second)
		if len(n.stopped) != 3-most || !n.stopped[long] {
			t.Errorf("with max_jobs %d: stopped %v", most, n.stopped)
		}
	}
	w.audit()
}

// TestSlowStops: each run that stops too slowly is killed in its time, though others were stopped later: the node wakes
// for that.
func TestSlowStops(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	w.pass(time.Second)
	early, late := n.find(n.runOf("r000")), n.find(n.runOf("r001"))
	n.stopRun(early)
	w.now = w.now.Add(time.Second)
	n.step(Wake{})
	if n.stopRun(late); n.stopping.next() > early.deadline {
		t.Errorf("the node looks at %s for runs to kill, and one is due at %s", n.stopping.next(), early.deadline)
	}
	n.step(Wake{})
	w.pass(early.deadline.Sub(w.now))
	_, first := n.running[early.id]
	if _, second := n.running[late.id]; first || !second {
		t.Errorf("the first one runs: %t; the second one: %t", first, second)
	}
}
