package node

import (
	"testing"
	"time"

	"couchrelay/core/jobstore"
)

// TestLateJoin: a node asks for a lease while the store is away, and is answered when that comes back. The lease
// counts from when the question was sent. If it is nearly over, the node asks again, and loses none.
func TestLateJoin(t *testing.T) {
	for away := time.Second; away < 30*time.Second; away += 1700 * time.Millisecond {
		for _, some := range []int{0, 3} {
			w := newWorld(t)
			w.putMany(some, true)
			n := w.start("n", nil)
			w.pass(time.Minute)
			n.hold = func(q Request) bool {
				_, beats := q.(Beat)
				_, joins := q.(Join)
				return beats || joins
			}
			for count(n.notes, "lease_lost") == 0 {
				w.pass(100 * time.Millisecond)
			}
			w.pass(away)
			n.hold = nil
			for _, a := range n.held {
				n.step(n.perform(a))
			}
			w.pass(time.Minute)
			if count(n.notes, "lease_lost") > 1 || n.Running() != some {
				t.Errorf("%s away, %d jobs of %d: %v", away, n.Running(), some, n.texts)
			}
			w.audit()
		}
	}
}

// TestDrainWithoutLease: a node that has no lease while the store is away has nothing to give back, and does not wait
// for the store.
func TestDrainWithoutLease(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", nil)
	w.pass(time.Minute)
	n.hold = func(Request) bool { return true }
	for count(n.notes, "lease_lost") == 0 {
		w.pass(100 * time.Millisecond)
	}
	w.pass(time.Second)
	n.step(Drain{})
	w.pass(time.Second)
	if !n.exited {
		t.Error("it does not leave")
	}
}

// TestStoreAwayAgainAndAgain: a node that loses its lease since the store is away did not vanish with its jobs, so they
// go on however often that happens.
func TestStoreAwayAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n", nil)
	for i := range 2 * maxLost {
		w.pass(time.Minute)
		n.hold = func(q Request) bool { _, is := q.(Beat); return is }
		for count(n.notes, "lease_lost") == i {
			w.pass(100 * time.Millisecond)
		}
		n.hold = nil
	}
	w.pass(time.Minute)
	if w.state("r000") != jobstore.Running || n.Running() != 1 {
		t.Errorf("r000 is %s", w.state("r000"))
	}
}

// TestStoreAwayForLong: while the store is away for many intervals, the requests of a node do not pile up (see
// checkCalls), and when it is back no more jobs give way than in one interval.
func TestStoreAwayForLong(t *testing.T) {
	for _, silent := range []bool{false, true} { // or it refuses
		w := newWorld(t)
		w.putMany(30, true)
		n := w.start("n", func(c *Config) { c.MaxJobs, c.MaxChurn, c.ActivityTimeout = 10, 2, time.Hour })
		w.pass(5 * time.Minute)
		n.stopAll()
		w.pass(time.Second)
		n.notes = nil
		w.down, n.hold = !silent, func(Request) bool { return silent }
		w.pass(40 * time.Minute)
		w.down, n.hold = false, nil
		for _, a := range n.held {
			n.step(n.perform(a))
		}
		w.pass(30 * time.Second)
		n.stopAll()
		if stops := count(n.notes, "stopped"); n.Running() != 10 || stops > 2 {
			t.Errorf("silent %v: %d jobs run, %d gave way", silent, n.Running(), stops)
		}
		w.audit()
	}
}
