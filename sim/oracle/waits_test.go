package oracle

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// TestWaits: each of two nodes has one run of two give way in every minute, so that a full turn of ten jobs takes ten
// minutes if all are in the part of one node. Nodes may be late by four intervals, by a look every five seconds, twice
// half a minute in which runs stop, and a minute: 6:05. Nothing is promised while there is trouble, or no run gives
// way.
func TestWaits(t *testing.T) {
	c := world.Default()
	c.Duration, c.Settle = 0, 3*time.Hour
	s := &c.Settings
	s.MaxJobs, s.MaxChurn, s.Interval, s.MinRun = 2, 1, time.Minute, 0
	s.PollInterval, s.StopTimeout = 5*time.Second, 30*time.Second
	const late, turn = 6*time.Minute + 5*time.Second, 10 * time.Minute
	ticks := func(r *rig, d time.Duration) {
		for range d / tickOfWorld {
			r.pass(tickOfWorld)
			r.see(world.Ticked{})
		}
	}
	// waits has ten jobs wait for so long, of a key that is so many microseconds or half-lives of an hour ahead.
	waits := func(policy schedule.Policy, ahead float64, d time.Duration) func(*rig) {
		return under(policy, func(r *rig) {
			o, _ := r.w.View().Store().Order(r.w.View().Present())
			o.Decay.HalfLife = time.Hour
			r.order(nil, o)
			key := float64(r.now()) + ahead
			if policy == schedule.FairShare {
				key = (clockOf(o.Decay, r.now()) + ahead) * aHalfLife
			}
			for i := range 10 {
				r.queue(fmt.Sprint("job", i), priority(o.Epoch, key))
			}
			ticks(r, d)
		})
	}
	then := func(tell func(*rig), more func(*rig)) func(*rig) {
		return func(r *rig) { tell(r); more(r) }
	}
	tags, fifo, fair := schedule.Tags, schedule.FIFO, schedule.FairShare
	more := func(r *rig) { ticks(r, 2*tickOfWorld) }
	for _, c_ := range []case_{
		{"a turn", waits(fifo, 0, turn+late), ""},
		{"more than a turn", waits(fifo, 0, turn+late+tickOfWorld), "L11"},
		{"behind a clock that was ahead", waits(fifo, 70e6, turn+late+time.Minute), ""},
		{"long behind a clock that was ahead", waits(fifo, 70e6, turn+late+2*time.Minute), "L11"},
		{"17 turns", waits(tags, 0, 17*turn+late), ""},
		{"more than 17 turns", waits(tags, 0, 17*turn+late+tickOfWorld), "L11"},
		{"two half-lives and a turn", waits(fair, 2, 2*time.Hour+turn+late-time.Minute), ""},
		{"more than two half-lives and a turn", waits(fair, 2, 2*time.Hour+turn+late+time.Minute), "L11"},
		{"a policy of simulations", waits(schedule.Tags+1, 0, 48*time.Hour), ""},
		{"with a turn in between", then(waits(tags, 0, 17*turn+late), func(r *rig) {
			for i := range 10 {
				id := fmt.Sprint("job", i)
				r.store(nil, jobs.Job{ID: id, State: jobs.Running}, jobstore.Record{State: jobstore.Running})
				r.queue(id, priority(1, 0))
			}
			ticks(r, turn)
		}), ""},
		{"while a one-shot runs", then(waits(tags, 0, 17*turn+late), func(r *rig) { r.run(nil); more(r) }), ""},
		{"while a continuous job runs", then(waits(tags, 0, 17*turn+late), func(r *rig) {
			r.run(map[string]any{"continuous": true})
			more(r)
		}), "L11"},
		{"while settings change", then(waits(tags, 0, 17*turn+late), func(r *rig) {
			r.see(world.SharingAsked{})
			more(r)
		}), ""},
		{"while a dead worker has a lease", then(waits(tags, 0, 17*turn+late), func(r *rig) {
			r.o.leases["n9/1"] = lease{beat: r.now(), timeout: 2 * tickOfWorld}
			ticks(r, 3*tickOfWorld)
		}), ""},
		{"after the lease of a dead worker", then(waits(tags, 0, 17*turn+late), func(r *rig) {
			r.o.leases["n9/1"] = lease{beat: r.now(), timeout: 2 * tickOfWorld}
			ticks(r, 5*tickOfWorld)
		}), "L11"},
		{"long after a world should rest", then(waits(tags, 0, 17*turn+late), func(r *rig) {
			r.run(nil)
			ticks(r, 2*time.Hour)
		}), "L11"},
		{"under a policy before", then(waits(tags, 0, 0), func(r *rig) {
			for i := range 10 {
				r.queue(fmt.Sprint("job", i), priority(0, 7e15))
			}
			ticks(r, turn+late+tickOfWorld)
		}), "L11"},
	} {
		t.Run(c_.name, func(t *testing.T) {
			r := newRigIn(t, c, &waitSubject)
			c_.tell(r)
			r.breaks(c_.breaks)
		})
	}
	trouble, still := c, c
	trouble.Duration, trouble.Rates = 24*time.Hour, map[string]int{world.NodeSuspend: 1}
	still.Duration, still.Settings.MaxChurn = 24*time.Hour, 0
	for _, c := range []world.Config{trouble, still} {
		r := newRigIn(t, c, &waitSubject)
		waits(tags, 0, 20*time.Hour)(r)
		r.breaks("")
	}
}

// TestLimit: a world may settle for longer while a job has not had a turn, and after that.
func TestLimit(t *testing.T) {
	c := world.Default()
	c.Duration = 0
	r := newRigIn(t, c, &waitSubject)
	limit := func(after instant.Time) {
		t.Helper()
		if got := r.o.Limit(time.Hour); got != after.Add(time.Hour) {
			t.Errorf("until %s, should be %s", got, after.Add(time.Hour))
		}
	}
	runs := func() {
		header := jobs.Job{ID: "job", State: jobs.Running}
		r.store(node.Accept{}, header, jobstore.Record{State: jobstore.Running})
	}
	limit(r.w.View().End())
	r.queue("job", priority(0, 0))
	r.pass(2 * time.Hour)
	if got := r.o.Limit(time.Hour); got <= r.now() {
		t.Errorf("until %s while a job waits for its first turn", got)
	}
	runs()
	first := r.now()
	limit(first)
	r.pass(30 * time.Minute)
	r.queue("job", priority(0, 0))
	limit(first)
	runs()
	limit(first)
}

// TestLargest: of ten jobs one part of two may have all, of many jobs hardly more than its share.
func TestLargest(t *testing.T) {
	for _, c := range []struct {
		jobs, parts int
		want        float64
	}{{0, 3, 3}, {10, 1, 1}, {10, 2, 2}, {64, 4, 2}, {30000, 3, 1.04}} {
		if got := largest(c.jobs, c.parts); got != c.want {
			t.Errorf("%d jobs in %d parts: %v, want %v", c.jobs, c.parts, got, c.want)
		}
	}
}
