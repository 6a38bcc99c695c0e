package node

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

func TestJobRunsAndCompletes(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	w.pass(10 * time.Millisecond) // the watch, not the poll, brings it
	id := n.runOf("r")
	n.step(RunIdentifies{Run: id, ID: "rep", Base: "rep"})
	n.step(RunProgress{Run: id})
	if w.state("r") != jobstore.Running {
		t.Error(w.state("r"))
	}
	n.endRun(id, replication.Completed)
	if w.state("r") != jobstore.Completed || n.Running() != 0 {
		t.Error(w.state("r"), n.Running())
	}
	w.audit()
}

func TestMaxJobsAndRefill(t *testing.T) {
	w := newWorld(t)
	w.putMany(120, false)
	n := w.start("n1", func(c *Config) { c.MaxJobs = 70 })
	if n.Running() != 70 {
		t.Fatalf("%d runs", n.Running())
	}
	for id := range n.running {
		n.endRun(id, replication.Completed)
		if n.Running() > 70 {
			t.Fatalf("%d runs", n.Running())
		}
	}
	for len(n.running) > 0 {
		for id := range n.running {
			n.endRun(id, replication.Completed)
		}
	}
	if w.state("r119") != jobstore.Completed {
		t.Error("not all jobs ran")
	}
}

func TestCrashBacksOffAndComesBack(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	n.endRun(n.runOf("r"), replication.Crashed)
	if w.state("r") != jobstore.Crashing {
		t.Fatal(w.state("r"))
	}
	w.pass(23 * time.Second)
	if n.Running() != 0 {
		t.Fatal("back before three quarters of 32 s")
	}
	w.pass(10 * time.Second)
	n.runOf("r")
}

// TestUnbegunRunTellsNothing: a run that cannot be begun, as a file of certificates is not there, leaves its job the
// numbers, and what is known of its checkpoints, that it had.
func TestUnbegunRunTellsNothing(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	info := replication.Info{ListSaved: [2]int64{3, 4}, ChangesPending: 7}
	info.DocsWritten = 5
	n.step(RunProgress{Run: n.runOf("r"), Info: info})
	n.endRun(n.runOf("r"), replication.Crashed)
	if got := w.record("r").Stats; !reflect.DeepEqual(got, jobstore.StatsOf(info)) {
		t.Errorf("the job has %+v", got)
	}
}

func TestRotation(t *testing.T) {
	w := newWorld(t)
	w.putMany(6, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 3, MaxChurn: 2} })
	first := n.runOf("r000")
	w.pass(61 * time.Second)
	if len(n.stopped) != 2 {
		t.Fatalf("%d stopped", len(n.stopped))
	}
	n.stopAll()
	w.pass(time.Second)
	if n.Running() != 3 {
		t.Errorf("%d run", n.Running())
	}
	n.runOf("r003")
	n.runOf("r004")
	if _, on := n.running[first]; on {
		t.Error("the first still runs")
	}
	w.audit()
}

func TestSlowStopIsKilled(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 1, MaxChurn: 1} })
	w.pass(67 * time.Second)
	if !slices.Contains(n.notes, "killed") || n.Running() != 1 {
		t.Errorf("notes %v, %d run", n.notes, n.Running())
	}
	n.runOf("r001")
}

func TestLoweredMaxJobs(t *testing.T) {
	w := newWorld(t)
	w.putMany(5, false)
	n := w.start("n1", nil)
	s := n.cfg.Settings
	s.MaxJobs = 2
	n.step(Configure{Settings: s})
	n.stopAll()
	w.pass(time.Minute)
	if n.Running() != 2 {
		t.Errorf("%d run", n.Running())
	}
}

// TestLoweredMaxJobsDuringAccept: what an accept brings that has no slot any more goes back at once.
func TestLoweredMaxJobsDuringAccept(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Accept); return is }
	w.putMany(3, true)
	w.pass(10 * time.Millisecond)
	s := n.cfg.Settings
	s.MaxJobs = 1
	n.step(Configure{Settings: s})
	n.step(n.perform(n.held[0]))
	if n.Running() != 1 || w.state("r002") != jobstore.Pending {
		t.Errorf("%d run, r002 is %s", n.Running(), w.state("r002"))
	}
	w.audit()
}

// TestNobodyWakesForNothing: without a lease, or when it is given back, what only a live worker does must
// not be a reason to be woken.
func TestNobodyWakesForNothing(t *testing.T) {
	for name, prepare := range map[string]func(*world, *driven){
		"lease lost": func(w *world, n *driven) { w.down = true },
		"leaving": func(w *world, n *driven) {
			n.hold = func(q Request) bool { _, is := q.(Retire); return is }
			n.step(Drain{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.start("n1", nil)
			prepare(w, n)
			for range 10_000 {
				at := n.Deadline()
				if at > w.now {
					w.now = at
				}
				n.step(Wake{})
			}
			if passed := w.now.Sub(instant.Seconds(1_700_000_000)); passed < 10*time.Minute {
				t.Errorf("10000 wakes in %s", passed)
			}
		})
	}
}

func TestDuplicates(t *testing.T) {
	w := newWorld(t)
	w.s.Config.DuplicatesWait = false
	w.put("one", `{"source":"http://h/a","target":"http://h/b"}`)
	w.put("two", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	one, two := n.runOf("one"), n.runOf("two")
	n.step(RunIdentifies{Run: one, ID: n.running[one].Record.RepID, Base: "b"})
	n.step(RunIdentifies{Run: two, ID: n.running[one].Record.RepID, Base: "b"})
	if w.state("one") != jobstore.Running || w.state("two") != jobstore.Failed || n.Running() != 1 {
		t.Errorf("one %s, two %s, %d run", w.state("one"), w.state("two"), n.Running())
	}
}

// TestDuplicateWaits: a job that learns by its own request which replication it is, and that another job has it,
// gives its slot up, and runs once the other job is gone.
func TestDuplicateWaits(t *testing.T) {
	w := newWorld(t)
	w.put("one", `{"source":"http://h/a","target":"http://h/b"}`)
	w.put("two", `{"source":"http://h/a","target":"http://h/b","filter":"d/f"}`)
	n := w.start("n1", nil)
	one, two := n.runOf("one"), n.runOf("two")
	n.step(RunIdentifies{Run: one, ID: n.running[one].Record.RepID, Base: "b"})
	n.step(RunIdentifies{Run: two, ID: n.running[one].Record.RepID, Base: "b"})
	if v := w.record("two").View(); v.State != jobstore.Pending || v.WaitsFor == "" || n.Running() != 1 {
		t.Fatalf("two is %s and waits for %q, %d run", v.State, v.WaitsFor, n.Running())
	}
	if count(n.notes, "waiting") != 1 {
		t.Errorf("operators are told %v", n.notes)
	}
	w.pass(time.Hour)
	if n.Running() != 1 {
		t.Fatalf("%d run", n.Running())
	}
	n.step(RunEnded{Run: one, End: replication.End{Cause: replication.Completed}})
	w.pass(n.cfg.PollInterval + time.Second)
	if w.state("two") != jobstore.Running {
		t.Errorf("two is %s", w.state("two"))
	}
	w.audit()
}

// TestTakeover: the jobs of a worker that vanishes run elsewhere soon after the activity timeout, and
// the worker that was only away knows at once that it has lost them.
func TestTakeover(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	one := w.start("n1", nil)
	if one.Running() != 3 {
		t.Fatal(one.Running())
	}
	two := w.start("n2", nil)
	w.pass(time.Minute)
	if two.Running() != 0 {
		t.Fatal("took the jobs of a living worker")
	}
	one.paused = true
	w.pass(one.cfg.ActivityTimeout - 6*time.Second) // the last heartbeat is up to 5 s old
	if two.Running() != 0 {
		t.Fatal("took over too early")
	}
	w.pass(6*time.Second + one.cfg.ActivityTimeout/2)
	if two.Running() != 3 {
		t.Fatalf("%d run", two.Running())
	}
	one.paused = false
	one.step(Wake{})
	if len(one.running) != 0 || !slices.Contains(one.notes, "lease_lost") {
		t.Errorf("the zombie runs %d; %v", len(one.running), one.notes)
	}
	w.pass(time.Second)
	w.audit()
}

// TestZombieWritesNothing: what a worker sends after its jobs were given away changes nothing.
func TestZombieWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, false)
	one := w.start("n1", nil)
	one.hold = func(q Request) bool { _, is := q.(Complete); return is }
	one.endRun(one.runOf("r000"), replication.Completed)
	one.paused = true
	two := w.start("n2", nil)
	w.pass(2 * one.cfg.ActivityTimeout)
	two.runOf("r000")
	if done := one.perform(one.held[0]); done.Fault != Halted {
		t.Errorf("the zombie's completion: %s", done)
	}
	if w.state("r000") != jobstore.Running {
		t.Error(w.state("r000"))
	}
}

func TestSelfFencing(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	w.down = true
	w.pass(n.cfg.ActivityTimeout + time.Second)
	if len(n.running) != 0 {
		t.Error("runs without a lease")
	}
	w.down = false
	w.pass(2 * n.cfg.ActivityTimeout)
	if n.Running() != 2 {
		t.Errorf("%d run after the outage", n.Running())
	}
	w.audit()
}

// TestShorterTimeout: others go by a shorter activity timeout as soon as the heartbeat landed that has it, also when
// its worker was not told so.
func TestShorterTimeout(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Beat); return is }
	s := n.cfg.Settings
	s.ActivityTimeout /= 4
	n.step(Configure{Settings: s})
	n.perform(n.held[0])
	w.down = true
	w.pass(s.ActivityTimeout)
	if len(n.running) != 0 {
		t.Error("it goes by the timeout before")
	}
}

// TestWakesWithoutLease: who stood still for longer than its lease starts nothing that it took before.
func TestWakesWithoutLease(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Accept); return is }
	w.putMany(1, true)
	w.pass(10 * time.Millisecond)
	done := n.perform(n.held[0])
	w.now = w.now.Add(n.cfg.ActivityTimeout)
	for _, e := range n.Step(n.clock(), done) {
		if _, is := e.(StartRun); is {
			t.Error(e)
		}
	}
}

func TestShortOutageCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	id := n.runOf("r000")
	w.down = true
	n.endRun(n.runOf("r001"), replication.Completed)
	w.pass(n.cfg.ActivityTimeout / 2)
	w.down = false
	w.pass(n.cfg.ActivityTimeout)
	if _, on := n.running[id]; !on || w.state("r001") != jobstore.Completed {
		t.Errorf("runs %v; r001 is %s", n.running, w.state("r001"))
	}
}

// TestLateAccept: an accept lands though the node was told it failed; the jobs are found and run.
func TestLateAccept(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Accept); return is }
	w.putMany(1, false)
	w.pass(10 * time.Millisecond)
	ask := n.held[0]
	if done := n.perform(ask); done.Fault != Committed {
		t.Fatal(done)
	}
	n.hold = nil
	n.step(Done{ID: ask.ID, Fault: StoreDown, Text: "timed out"})
	w.pass(time.Second)
	n.runOf("r000")
	w.audit()
}

// TestForgottenAccept: even one that the node never repeats.
func TestForgottenAccept(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	w.putMany(1, false)
	d := Accept{Worker: n.worker, Node: "n1"}
	d.Demand.Max, d.Demand.Batch = 1, 77
	n.perform(Ask{Request: d})
	w.pass(n.cfg.ActivityTimeout + time.Second)
	n.runOf("r000")
}

func TestExclusiveStoreNeedsNoTimeout(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	old := w.start("n1", nil)
	old.paused = true
	n := w.start("n1", func(c *Config) { c.Exclusive = true })
	w.pass(time.Second)
	if n.Running() != 2 {
		t.Errorf("%d run", n.Running())
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	n := w.start("n1", nil)
	n.step(Drain{})
	if len(n.stopped) != 3 || n.exited {
		t.Fatalf("%d stopped", len(n.stopped))
	}
	n.stopAll()
	if !n.exited || w.state("r000") != jobstore.Pending {
		t.Errorf("exited %v, r000 is %s", n.exited, w.state("r000"))
	}
	two := w.start("n2", nil)
	if two.Running() != 3 {
		t.Errorf("%d run elsewhere at once", two.Running())
	}
	w.audit()
}

func TestDrainWithoutRuns(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.step(Drain{})
	if !n.exited || n.Deadline() != instant.Never {
		t.Error("did not leave")
	}
	w.do(func(tx kv.Tx) error {
		if leases, err := w.s.Jobs.Leases(tx); err != nil || len(leases) != 0 {
			t.Errorf("leases %v, %v", leases, err)
		}
		return nil
	})
}

// TestDrainOvertakesHeartbeat: that a node's own Retire took the lease from its last heartbeat is no trouble to note.
func TestDrainOvertakesHeartbeat(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool {
		_, beat := q.(Beat)
		_, retire := q.(Retire)
		return beat || retire
	}
	n.step(Drain{})
	if len(n.held) != 2 {
		t.Fatalf("asked for %v", n.held)
	}
	retired := n.perform(n.held[1])
	n.step(n.perform(n.held[0]))
	n.step(retired)
	if !n.exited || slices.Contains(n.notes, "lease_lost") {
		t.Errorf("exited: %v; %q", n.exited, n.notes)
	}
}

// TestPoisonedJob: a job whose workers keep vanishing is held back.
func TestPoisonedJob(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	for range maxLost {
		n := w.start("n", func(c *Config) { c.Exclusive = true })
		w.pass(time.Second)
		n.runOf("r000")
		n.paused = true
	}
	n := w.start("n", func(c *Config) { c.Exclusive = true })
	w.pass(time.Second)
	if w.state("r000") != jobstore.Crashing || n.Running() != 0 {
		t.Errorf("r000 is %s", w.state("r000"))
	}
}

// TestWallClockJumps: nothing regular depends on the wall clock.
func TestWallClockJumps(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n1", nil)
	id := n.runOf("r000")
	for _, skew := range []time.Duration{-time.Hour, time.Hour, -24 * time.Hour, 0} {
		n.skew = skew
		w.pass(2 * time.Minute)
	}
	if _, on := n.running[id]; !on {
		t.Error("a jump of the clock ended the run")
	}
}

func TestOneAwaitAtATime(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	w.pass(10 * time.Minute)
	if len(n.awaits) != 2 {
		t.Errorf("%d awaits", len(n.awaits))
	}
}

// TestSweepIsSmall: transactions have five seconds. On a store that takes 50 ms for a read, one that removes a
// hundred jobs is too old whenever it is tried.
func TestSweepIsSmall(t *testing.T) {
	const read, readsOfRemoval, most = 50 * time.Millisecond, 6, 5 * time.Second
	n := New(Config{Settings: DefaultSettings(), Name: "n1", Worker: "n1/1"})
	effects := n.Step(Clock{}, Start{})
	late := instant.Time(0).Add(2 * sweepInterval)
	effects = append(effects, n.Step(Clock{Steady: late, Wall: late}, Wake{})...)
	for _, e := range effects {
		ask, _ := e.(Ask)
		if q, is := ask.Request.(Sweep); is {
			if took := time.Duration(q.Limit) * readsOfRemoval * read; took > most {
				t.Errorf("a sweep of %d jobs takes %s", q.Limit, took)
			}
			return
		}
	}
	t.Error("nothing is swept")
}
