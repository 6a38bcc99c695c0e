package oracle

import (
	"math"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// checkRotations tells the facts of cases to rotations, and to turns, which keep where runs stand.
func checkRotations(t *testing.T, cases []case_) {
	both := subject{begin: func(c *chronicle) {
		turnSubject.begin(c)
		rotationSubject.begin(c)
	}}
	check(t, &both, cases)
}

// slots gives the first node so many slots, of which none is in use as its machine says.
func (r *rig) slots(n int) {
	s := r.node(1).Settings()
	s.MaxJobs, s.MaxChurn, s.MinRun = n, 2, time.Minute
	r.node(1).SetSettings(s)
	r.node(1).Occupy(0)
	r.step(node.Configure{Settings: s})
}

func giveWay(runs ...*world.Run) (effects []node.Effect) {
	for _, run := range runs {
		effects = append(effects, node.TellRun{Run: run.ID(), Event: replication.GiveWay{}})
	}
	return effects
}

func stop(runs ...*world.Run) (effects []node.Effect) {
	for _, run := range runs {
		effects = append(effects, node.StopRun{Run: run.ID()})
	}
	return effects
}

var oneShot = map[string]any{"continuous": false}

func TestRotation(t *testing.T) {
	// rotates has a node with two slots and so many runs see that jobs wait at the front, and some of its runs give
	// way, of which those stop at once that are too many.
	rotates := func(runs int, waiting []int64, ran time.Duration, stopped ...int) func(*rig) {
		return func(r *rig) {
			r.slots(2)
			var all []*world.Run
			for i := range runs {
				all = append(all, r.runAt("job"+string(rune('0'+i)), 7, nil))
			}
			r.pass(ran)
			var some []*world.Run
			for _, i := range stopped {
				some = append(some, all[i])
			}
			excess := min(max(0, runs-2), len(some))
			r.survey(fifoOrder, idle, waiting, append(stop(some[:excess]...), giveWay(some[excess:]...)...)...)
		}
	}
	// succeeds has one of two runs stop, its job be taken once more after so many accepts, and the other run give way.
	succeeds := func(accepts uint64) func(*rig) {
		return func(r *rig) {
			r.slots(2)
			one, two := r.runAt("one", 7, nil), r.runAt("two", 7, nil)
			s := aJob(jobstore.Record{State: jobstore.Running})
			s.header.State, s.header.Lock = jobs.Running, aLock
			s.header.Lock.Batch += accepts
			r.know("one", s)
			r.step(node.Wake{}, stop(one)...)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, []int64{1}, giveWay(two)...)
		}
	}
	// beside has one of two runs be told to give way, and keep its slot for a while; then the other one is judged.
	beside := func(gives bool) func(*rig) {
		return func(r *rig) {
			r.slots(2)
			one, two := r.runAt("one", 7, nil), r.runAt("two", 7, nil)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, []int64{1}, giveWay(one)...)
			r.pass(time.Minute)
			if gives {
				r.survey(fifoOrder, idle, []int64{1}, giveWay(two)...)
			} else {
				r.survey(fifoOrder, idle, []int64{1})
			}
		}
	}
	// lowered has two runs of which one gives way, one of two slots goes, and some are stopped.
	lowered := func(stops func(one, two *world.Run) []node.Effect) func(*rig) {
		return func(r *rig) {
			r.slots(2)
			one, two := r.runAt("one", 7, nil), r.runAt("two", 7, nil)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, []int64{1}, giveWay(one)...)
			r.slots(1)
			r.survey(fifoOrder, idle, nil, stops(one, two)...)
		}
	}
	front := []int64{1, 2, 3}
	checkRotations(t, []case_{
		{"none wait", rotates(2, nil, time.Hour), ""},
		{"two give way", rotates(2, front, time.Hour, 0, 1), ""},
		{"one gives way, and another could", rotates(2, front, time.Hour, 0), "S6g"},
		{"two give way to three by a max_churn that the node was told", func(r *rig) {
			r.slots(3)
			runs := []*world.Run{r.runAt("one", 7, nil), r.runAt("two", 7, nil), r.runAt("three", 7, nil)}
			s := r.node(1).Settings()
			s.MaxChurn++
			r.node(1).SetSettings(s) // it will be told later
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, front, giveWay(runs[:2]...)...)
		}, ""},
		{"one gives way to one", rotates(2, front[:1], time.Hour, 0), ""},
		{"one moves to another node", rotates(2, nil, time.Hour, 0), ""},
		{"one gives way while a slot is free", rotates(1, front[:1], time.Hour, 0), "S6c"},
		{"one gives way while the job of another waits for its run before", succeeds(1), ""},
		{"one gives way while another run stops", succeeds(0), "S6c"},
		{"one gives way while another keeps its slot", beside(true), ""},
		{"none gives way while another keeps its slot", beside(false), "S6g"},
		{"none gives way while slots are free", rotates(1, front[:1], time.Hour), ""},
		{"three of four at once", rotates(4, front, time.Hour, 0, 1, 2), "S6a"},
		{"two of four that are too many", rotates(4, nil, time.Hour, 0, 1), ""},
		{"three of five that are too many", rotates(5, nil, time.Hour, 0, 1, 2), ""},
		{"two that are too many do not stop at once", func(r *rig) {
			r.slots(1)
			runs := []*world.Run{r.runAt("one", 7, nil), r.runAt("two", 7, nil)}
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, nil, giveWay(runs[0])...)
		}, "S6i"},
		{"one stops at once that is not too many", func(r *rig) {
			r.slots(1)
			run := r.runAt("one", 7, nil)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, front, stop(run)...)
		}, "S6i"},
		{"one that gave way stops as it is too many", lowered(func(one, two *world.Run) []node.Effect {
			return stop(one)
		}), ""},
		{"one that gave way stays, and another stops", lowered(func(one, two *world.Run) []node.Effect {
			return stop(two)
		}), "S6i"},
		{"one that gave way is too many", lowered(func(one, two *world.Run) []node.Effect { return nil }), "S6i"},
		{"young ones stay", rotates(2, front, time.Minute-1), ""},
		{"a young one gives way", rotates(2, front, time.Second, 0), "S6b"},
		{"a young one that is too many", rotates(3, nil, time.Second, 0), ""},
		{"jobs behind wait", rotates(2, []int64{math.MaxInt64}, time.Hour), ""},
		{"a lost lease", func(r *rig) {
			r.slots(1)
			run := r.runAt("job", 7, nil)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, front, node.KillRun{Run: run.ID()})
		}, ""},
		{"a one-shot stays", func(r *rig) {
			r.slots(1)
			r.runAt("job", 7, oneShot)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, front)
		}, ""},
		{"a one-shot gives way", func(r *rig) {
			r.slots(1)
			run := r.runAt("job", 7, oneShot)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, front, giveWay(run)...)
		}, "S6b"},
		{"a one-shot is too many, and a continuous job goes on", func(r *rig) {
			r.slots(1)
			run := r.runAt("job0", 7, oneShot)
			r.runAt("job1", 7, nil)
			r.pass(time.Hour)
			r.survey(fifoOrder, idle, nil, stop(run)...)
		}, "S6b"},
	})
}

func TestLastGivesWay(t *testing.T) {
	// second has the second of two runs give way to one job, under an order.
	second := func(o schedule.Order, first, second int64) func(*rig) {
		return func(r *rig) {
			r.slots(2)
			r.runAt("job0", first, nil)
			r.pass(time.Second)
			run := r.runAt("job1", second, nil)
			r.pass(time.Hour)
			r.survey(o, idle, []int64{0}, giveWay(run)...)
		}
	}
	value := func(v float64) int64 { return int64(math.Log2(v) * aHalfLife) }
	checkRotations(t, []case_{
		{"it stands last", second(fairOrder, value(1000), value(9000)), ""},
		{"the other stands last", second(fairOrder, value(9000), value(1000)), "S6h"},
		{"it began last, under fifo", second(fifoOrder, 7, 7), "S6h"},
	})
}

func TestGaveWay(t *testing.T) {
	// gives has a run give way to a job that waits at a key, and its job be queued again at another one.
	gives := func(o schedule.Order, waits, queued int64) func(*rig) {
		return func(r *rig) {
			r.slots(1)
			run := r.runAt("job", waits+10*aHalfLife, nil)
			r.pass(time.Hour)
			r.survey(o, idle, []int64{waits}, giveWay(run)...)
			turn := jobstore.Turn{Place: schedule.Place{Key: queued}}
			// Only rotations hear of this: turns would ask for the place that the definition gives.
			r.o.on.nodeStepped[1](nodeStep{p: r.o.process(r.node(1)), ev: node.Wake{}, effects: []node.Effect{
				ask(99, node.Requeue{Held: held, Turn: turn}),
			}})
		}
	}
	const far = 100 * aHalfLife
	// returned has a node put a job back at a key that it has no slot for, and that stood at 7.
	returned := func(key int64) func(*rig) {
		return func(r *rig) {
			work := jobstore.Work{JobID: "job", Lock: aLock, Place: schedule.Place{Key: 7}}
			got := node.Accepted{Work: []jobstore.Work{work}}
			turn := jobstore.Turn{Place: schedule.Place{Key: key}}
			r.step(done(1, got), ask(2, node.Requeue{Held: held, Turn: turn}))
		}
	}
	checkRotations(t, []case_{
		{"behind", gives(fairOrder, far, far), ""},
		{"before, but for rounding", gives(fairOrder, far, far-aHalfLife), ""},
		{"before", gives(fairOrder, far, far-aHalfLife-1), "S6f"},
		{"before, under fifo", gives(fifoOrder, far, 0), ""},
		{"put back where it stood", returned(7), ""},
		{"put back before others", returned(6), "S6e"},
	})
}
