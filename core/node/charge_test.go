package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// TestEveryTurnIsCharged: to the microsecond, whether runs go on, end by themselves, are taken away, or the node
// leaves.
func TestEveryTurnIsCharged(t *testing.T) {
	w := newWorld(t)
	w.putMany(4, true)
	n := w.start("n1", nil)
	w.pass(100 * time.Second)
	n.endRun(n.runOf("r000"), replication.Crashed)
	w.put("r001", `{"_deleted":true}`)
	w.pass(7 * time.Second)
	if n.Running() != 2 {
		t.Fatalf("%d run", n.Running())
	}
	n.step(Drain{})
	w.pass(time.Second)
	n.stopAll()
	w.pass(time.Second)
	if !n.exited {
		t.Fatal("did not leave")
	}
	if got, want := w.used("_replicator"), 2*100*time.Second+2*108*time.Second; got < want || got > want+7*time.Second {
		t.Errorf("charged %s, want %s and what the second took to hear of its end", got, want)
	}
}

// TestUsageInterval: nodes charge the use of slots each usage_interval, whatever the interval of rotations.
func TestUsageInterval(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.start("n1", func(c *Config) { c.Interval, c.UsageInterval = time.Minute, 15*time.Second })
	w.pass(100 * time.Second)
	w.do(func(tx kv.Tx) error {
		charges, err := w.s.Charges(tx, "_replicator")
		if len(charges) < 6 {
			t.Errorf("%d charges in 100 seconds", len(charges))
		}
		for _, c := range charges {
			if c.At%15_000_000 != 0 || c.Used > 15_000_000 {
				t.Errorf("charge %+v", c)
			}
		}
		return err
	})
}

// TestChargesSurviveOutages: of the store and of the lease.
func TestChargesSurviveOutages(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	began := w.now
	w.pass(30 * time.Second)
	w.down = true
	for !slices.Contains(n.notes, "lease_lost") {
		w.pass(time.Second)
	}
	ran := w.now.Sub(began)
	n.hold = func(q Request) bool { _, is := q.(Accept); return is } // it does not run again
	w.pass(3 * time.Minute)
	w.down = false
	w.pass(time.Minute)
	if got := w.used("_replicator"); got < ran-time.Second || got > ran {
		t.Errorf("charged %s, it ran for %s before the lease was lost", got, ran)
	}
	var workers []string
	w.do(func(tx kv.Tx) error {
		charges, err := w.s.Charges(tx, "_replicator")
		workers = nil
		for _, c := range charges {
			workers = append(workers, c.Worker)
		}
		return err
	})
	if len(workers) == 0 || slices.ContainsFunc(workers, func(name string) bool { return name != "n1-0" }) {
		t.Errorf("charged by %v", workers)
	}
}

// TestShorterIntervals: a node whose intervals become shorter charges, and finds that another one is gone, by the new
// ones at once. By the old ones it would be an hour before it looks.
func TestShorterIntervals(t *testing.T) {
	w := newWorld(t)
	long := func(c *Config) {
		c.Interval, c.UsageInterval, c.ActivityTimeout = time.Hour, time.Hour, 4*time.Hour
	}
	gone := w.start("gone", long)
	n := w.start("n", long)
	w.putMany(1, true)
	w.pass(time.Minute)
	short := n.cfg.Settings
	short.Interval, short.UsageInterval, short.ActivityTimeout = 20*time.Second, 20*time.Second, 20*time.Second
	for _, d := range []*driven{gone, n} {
		d.step(Configure{Settings: short})
	}
	w.pass(25 * time.Second)
	if got := w.used("_replicator"); got < time.Minute {
		t.Errorf("charged %s", got)
	}
	gone.paused = true
	w.pass(w.handoverBound())
	if n.Running() != 1 || !slices.Contains(n.notes, "worker_silent") {
		t.Errorf("%d run, notes %v", n.Running(), n.notes)
	}
}

// TestLastChargesAreStored before a node leaves.
func TestLastChargesAreStored(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Charge); return is }
	w.pass(10 * time.Second)
	n.step(Drain{})
	n.stopAll()
	w.pass(time.Second)
	if n.exited || len(n.held) != 1 {
		t.Fatalf("left %v with %d charges under way", n.exited, len(n.held))
	}
	n.step(n.perform(n.held[0]))
	if got := w.used("_replicator"); !n.exited || got != 10*time.Second {
		t.Errorf("left %v, charged %s", n.exited, got)
	}
}

// TestRemovedJobIsCharged: until its run has stopped in order.
func TestRemovedJobIsCharged(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	w.pass(100 * time.Second)
	w.put("r000", `{"_deleted":true}`)
	w.pass(2 * time.Second)
	n.endRun(n.runOf("r000"), replication.Stopped)
	n.step(Drain{})
	w.pass(time.Second)
	if got := w.used("_replicator"); got != 102*time.Second {
		t.Errorf("charged %s of 102 seconds", got)
	}
}

// TestChargesAfterSetBack: a run is charged for all its time though the wall clock goes through some intervals twice.
func TestChargesAfterSetBack(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	w.pass(10 * time.Minute)
	n.skew = -5 * time.Minute
	w.pass(10 * time.Minute)
	n.step(Drain{})
	n.endRun(n.runOf("r000"), replication.Stopped)
	w.pass(time.Second)
	if got := w.used("_replicator"); got != 20*time.Minute {
		t.Errorf("charged %s of 20 minutes", got)
	}
}

// TestChargesAfterALongPause: a process stood still for so many intervals that their charges do not fit into one
// transaction. They are stored all the same, and the node can leave.
func TestChargesAfterALongPause(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", func(c *Config) { c.UsageInterval = 100 * time.Millisecond })
	w.pass(time.Second)
	n.paused = true
	w.pass(3 * time.Hour)
	n.paused = false
	w.pass(time.Second)
	if slices.Contains(n.notes, "store_error") {
		t.Errorf("%v", n.texts)
	}
	n.step(Drain{})
	n.stopAll()
	w.pass(time.Second)
	if !n.exited {
		t.Error("the node did not leave")
	}
}

// TestChargesOfLongIntervals: what a run uses adds to what was stored of the same interval, though that was hours ago.
func TestChargesOfLongIntervals(t *testing.T) {
	w := newWorld(t)
	const day = 24 * time.Hour
	sharing := jobstore.DefaultSharing()
	sharing.Follow(time.Minute, day)
	w.do(func(tx kv.Tx) error { return w.s.Share(tx, sharing, w.now) })
	w.putMany(1, true)
	n := w.start("n1", func(c *Config) {
		c.UsageInterval, c.PollInterval, c.ActivityTimeout = day, time.Minute, 10*time.Minute
	})
	w.pass(5 * day)
	n.step(Drain{})
	n.stopAll()
	w.pass(time.Second)
	if got := w.used("_replicator"); got < 5*day {
		t.Errorf("charged %s of five days", got)
	}
}

// TestChargesOfManyAccounts: what the jobs of many accounts used is stored in one interval, in several transactions,
// each charge in one of them.
func TestChargesOfManyAccounts(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", nil)
	w.pass(10 * time.Second)
	stored := 0
	d.hold = func(q Request) bool {
		if q, is := q.(Charge); is {
			stored += len(q.Charges)
		}
		return false
	}
	account := func(i int) string { return fmt.Sprint("account", i) }
	for i := range 2*chargesAtOnce + 1 {
		d.share.ledger.Add(account(i), time.Second, w.now, d.cfg.usageInterval())
	}
	w.pass(d.cfg.usageInterval() * 9 / 8)
	for i := range 2*chargesAtOnce + 1 {
		if used := w.used(account(i)); used != time.Second {
			t.Fatalf("of %s %s are stored", account(i), used)
		}
	}
	if stored != 2*chargesAtOnce+1 {
		t.Errorf("%d charges are stored of %d", stored, 2*chargesAtOnce+1)
	}
}
