package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// take has the store give a job to a worker.
func take(r *rig, worker string, batch uint64) {
	job := jobs.Job{ID: "job", State: jobs.Running, Lock: jobs.Lock{Worker: worker, Batch: batch}}
	r.store(node.Accept{Worker: worker}, job, jobstore.Record{})
}

// alive is a lease of the first node, told by a join.
func alive(r *rig) { r.landed(node.Join{Worker: "n1/1", Info: infoOf(r, 1)}) }

// stopping has a run of a removed job be dropped after the time that it had to stop.
func stopping(r *rig, after time.Duration) {
	alive(r)
	take(r, "n1/1", 0)
	run := r.run(nil)
	r.remove("job")
	r.step(node.Wake{}, node.StopRun{Run: run.ID()}, node.Note{What: "halted", Job: run.JobID()})
	r.pass(after)
	r.step(node.Wake{}, node.KillRun{Run: run.ID()})
}

func TestTakes(t *testing.T) {
	takes := func(n uint64) func(*rig) {
		return func(r *rig) {
			alive(r)
			for i := range n {
				take(r, "n1/1", i)
			}
		}
	}
	check(t, &leaseSubject, []case_{
		{"as often as a job may be taken", takes(30), ""},
		{"too often", takes(31), "B1d"},
		{"often, and edited in between", func(r *rig) {
			takes(30)(r)
			job := jobs.Job{ID: "job", State: jobs.Running, Lock: jobs.Lock{Worker: "n1/1", Batch: 100}}
			r.store(node.Accept{Worker: "n1/1"}, job, jobstore.Record{Created: 1})
		}, ""},
		{"in two minutes", func(r *rig) {
			takes(30)(r)
			r.pass(time.Minute)
			take(r, "n1/1", 100)
		}, ""},
		{"changed while it is held", func(r *rig) {
			alive(r)
			for range 40 {
				take(r, "n1/1", 0)
			}
		}, ""},

		{"run when it was given", func(r *rig) { alive(r); take(r, "n1/1", 0); r.run(nil) }, ""},
		{"run when it was given to another worker", func(r *rig) {
			r.landed(node.Join{Worker: "n2/1"})
			take(r, "n2/1", 0)
			r.run(nil)
		}, "S24a"},
		{"run twice", func(r *rig) { alive(r); take(r, "n1/1", 0); r.run(nil); r.run(nil) }, "S24b"},

		{"dropped", func(r *rig) {
			alive(r)
			take(r, "n1/1", 0)
			run := r.run(nil)
			r.step(node.Wake{}, node.KillRun{Run: run.ID()}, node.Note{What: "halted", Job: run.JobID()})
		}, "S24c"},
		{"dropped for another reason", func(r *rig) {
			alive(r)
			take(r, "n1/1", 0)
			r.step(node.Wake{}, node.KillRun{Run: r.run(nil).ID()}, node.Note{What: "slow"})
		}, "S24d"},
		{"dropped when its end is on the way", func(r *rig) {
			alive(r)
			r.step(node.Wake{}, node.KillRun{Run: 99})
		}, ""},
		{"dropped when it was removed", func(r *rig) {
			alive(r)
			take(r, "n1/1", 0)
			run := r.run(nil)
			r.remove("job")
			r.step(node.Wake{}, node.KillRun{Run: run.ID()}, node.Note{What: "halted", Job: run.JobID()})
		}, "S24d"},
		{"dropped when it did not stop", func(r *rig) { stopping(r, 5*time.Second) }, ""},
		{"dropped before it could stop", func(r *rig) { stopping(r, 4*time.Second) }, "S24d"},
		{"dropped since another has its replication", func(r *rig) {
			alive(r)
			take(r, "n1/1", 0)
			r.step(node.Done{Result: node.Claimed{Refused: true}}, node.KillRun{Run: r.run(nil).ID()})
		}, ""},
		{"dropped when its worker was given up", func(r *rig) {
			alive(r)
			take(r, "n1/1", 0)
			run := r.run(nil)
			r.landed(node.Retire{Worker: "n1/1"})
			r.step(node.Wake{}, node.KillRun{Run: run.ID()}, node.Note{What: "halted", Job: run.JobID()})
		}, ""},
	})
}

func TestLeases(t *testing.T) {
	beat := func(r *rig, number uint64) {
		q := node.Beat{Worker: "n1/1", Info: infoOf(r, 1)}
		r.see(world.Landed{Asked: world.Asked{Request: q, Number: number}}, world.Stepped{})
	}
	running := func(r *rig) *world.Run { alive(r); take(r, "n1/1", 0); return r.run(nil) }
	check(t, &leaseSubject, []case_{
		{"given up too early", func(r *rig) {
			alive(r)
			r.pass(19 * time.Second)
			r.landed(node.Expire{Worker: "n1/1", Beat: &[10]byte{1}})
		}, "S25"},
		{"given up by itself while it is that worker", func(r *rig) {
			r.step(node.Start{}, ask(1, node.Join{Worker: "n1/1"}))
			alive(r)
			r.landed(node.Expire{Worker: "n1/1"})
		}, "S25"},
		{"given up by itself while it is another worker", func(r *rig) {
			r.step(node.Start{}, ask(1, node.Join{Worker: "n1/1-2"}))
			alive(r)
			r.landed(node.Expire{Worker: "n1/1"})
		}, ""},
		{"given up by itself while it runs a job as that worker", func(r *rig) {
			running(r)
			r.step(node.Start{}, ask(1, node.Join{Worker: "n1/1-2"}))
			r.landed(node.Expire{Worker: "n1/1"})
		}, "S25"},
		{"given up in time", func(r *rig) {
			alive(r)
			r.pass(20 * time.Second)
			r.landed(node.Expire{Worker: "n1/1"})
		}, ""},
		{"a heartbeat of a worker that was given up", func(r *rig) {
			alive(r)
			r.landed(node.Retire{Worker: "n1/1"})
			beat(r, 1)
		}, "S25"},
		{"an accept of a worker that never joined", func(r *rig) {
			r.landed(node.Accept{Worker: "n1/1"})
		}, "S25"},
		{"heartbeats in order", func(r *rig) { alive(r); beat(r, 1); beat(r, 2) }, ""},
		{"heartbeats out of order", func(r *rig) { alive(r); beat(r, 2); beat(r, 1) }, "L5e"},

		{"a run within its lease", func(r *rig) {
			running(r)
			r.pass(20 * time.Second)
			r.see(world.Ticked{})
		}, ""},
		{"a run after its lease", func(r *rig) {
			running(r)
			r.pass(21 * time.Second)
			r.see(world.Ticked{})
		}, "S26b"},
		{"a run that ends after its lease", func(r *rig) {
			run := running(r)
			r.pass(21 * time.Second)
			r.see(world.RunEnded{Run: run})
		}, "S26b"},
		{"a run after its lease, when a heartbeat kept that", func(r *rig) {
			running(r)
			r.pass(10 * time.Second)
			beat(r, 1)
			r.pass(20 * time.Second)
			r.see(world.Ticked{})
		}, ""},
		{"a run after its lease on a node that stands still", func(r *rig) {
			running(r)
			r.node(1).StandStill(time.Minute)
			r.pass(21 * time.Second)
			r.see(world.Ticked{})
		}, ""},
		{"a run after its lease on a node that was suspended as long", func(r *rig) {
			running(r)
			r.node(1).Suspend(10 * time.Second)
			r.pass(30 * time.Second)
			r.see(world.Ticked{})
		}, ""},
		{"a run after its lease on a node that was suspended for less", func(r *rig) {
			running(r)
			r.node(1).Suspend(10 * time.Second)
			r.pass(31 * time.Second)
			r.see(world.Ticked{})
		}, "S26b"},
	})
}

// seen is an answer in which a node sees another one's lease.
func seen(r *rig, worker string, beat byte) node.Event {
	member := node.Member{Worker: worker, Beat: [10]byte{beat}, Info: infoOf(r, 2)}
	return done(1, node.Leases{List: []node.Member{member}})
}

func TestSilentWorkers(t *testing.T) {
	// looks at a worker every five seconds, or after an outage once
	looks := func(r *rig, every time.Duration, worker string, pause time.Duration, beat byte,
		effects ...node.Effect) {
		r.step(seen(r, worker, 1))
		for ; pause > every; pause -= every {
			r.pass(every)
			r.step(seen(r, worker, 1))
		}
		r.pass(pause)
		r.step(seen(r, worker, beat), effects...)
	}
	look := func(worker string, pause time.Duration, beat byte, effects ...node.Effect) func(*rig) {
		return func(r *rig) { looks(r, 5*time.Second, worker, pause, beat, effects...) }
	}
	expire := ask(2, node.Expire{Worker: "n2/1", Beat: &[10]byte{1}})
	check(t, &leaseSubject, []case_{
		{"silent for less than the activity timeout", look("n2/1", 19*time.Second, 1), ""},
		{"silent for the activity timeout", look("n2/1", 20*time.Second, 1), "L3b"},
		{"given up", look("n2/1", 20*time.Second, 1, expire), ""},
		{"given up too early", look("n2/1", 19*time.Second, 1, expire), "S25b"},
		{"given up, by a request that was repeated after a heartbeat had come", func(r *rig) {
			look("n2/1", 20*time.Second, 1, expire)(r)
			r.step(failed(2), ask(5, node.Expire{Worker: "n2/1", Beat: &[10]byte{1}}))
			r.step(done(4, seen(r, "n2/1", 2).(node.Done).Result))
		}, ""},
		{"given up too early, and others began with that", func(r *rig) {
			member := node.Member{Worker: "n2/1", Expired: true, Info: infoOf(r, 2)}
			r.step(done(1, node.Leases{List: []node.Member{member}}), expire)
		}, ""},
		{"not looked at for the activity timeout", func(r *rig) {
			looks(r, time.Minute, "n2/1", time.Minute, 1)
		}, ""},
		{"not looked at for the activity timeout, and given up", func(r *rig) {
			looks(r, time.Minute, "n2/1", time.Minute, 1, expire)
		}, "S25b"},
		{"looked at now and then", func(r *rig) {
			looks(r, time.Minute, "n2/1", 4*time.Minute, 1)
		}, "L3b"},
		{"looked at now and then, and given up", func(r *rig) {
			looks(r, time.Minute, "n2/1", 4*time.Minute, 1, expire)
		}, ""},
		{"another heartbeat", look("n2/1", 20*time.Second, 2), ""},
		{"itself", look("n1/1-2", 20*time.Second, 1), ""},
		{"a node that drains", func(r *rig) { r.node(1).Leave(); look("n2/1", 20*time.Second, 1)(r) }, ""},
		{"a longer timeout of the node itself", func(r *rig) {
			s := r.node(1).Settings()
			s.ActivityTimeout = time.Minute
			r.step(node.Configure{Settings: s})
			look("n2/1", 59*time.Second, 1)(r)
		}, ""},
		{"an attempt that failed is repeated", func(r *rig) {
			look("n2/1", 20*time.Second, 1, expire)(r)
			r.step(failed(2))
			r.step(seen(r, "n2/1", 1))
		}, ""},
		{"an attempt that succeeded does not count again", func(r *rig) {
			look("n2/1", 20*time.Second, 1, expire)(r)
			r.step(done(2, node.Progressed{Done: true}))
			r.step(seen(r, "n2/1", 1))
		}, "L3b"},
	})
}

func TestOwnPast(t *testing.T) {
	first := func(r *rig) { r.step(node.Start{}, ask(1, node.Join{Worker: "n1/1"})) }
	join := ask(2, node.Join{Worker: "n1/1-2"})
	check(t, &leaseSubject, []case_{
		{"joins", first, ""},
		{"joins in another attempt", func(r *rig) { first(r); first(r) }, ""},
		{"joins again", func(r *rig) { first(r); r.step(node.Wake{}, join) }, "L3c"},
		{"joins again and gives up what it was", func(r *rig) {
			first(r)
			r.step(node.Wake{}, ask(1, node.Expire{Worker: "n1/1"}), join)
		}, ""},
		{"joins again and waits for a sign of life of itself", func(r *rig) {
			first(r)
			r.step(node.Wake{}, ask(1, node.Expire{Worker: "n1/1", Beat: &[10]byte{1}}), join)
		}, "L3c"},
	})
}

func TestStoreOfOneProcess(t *testing.T) {
	for _, c := range []case_{
		{"an earlier life", func(r *rig) {
			r.step(done(1, node.Leases{List: []node.Member{{Worker: "n1/0"}}}))
		}, "L3a"},
		{"this life", func(r *rig) {
			r.step(done(1, node.Leases{List: []node.Member{{Worker: "n1/1-2"}}}))
		}, ""},
		{"an earlier life that is given up", func(r *rig) {
			r.step(done(1, node.Leases{List: []node.Member{{Worker: "n1/0"}}}),
				ask(2, node.Expire{Worker: "n1/0"}))
		}, ""},
		{"an earlier life is given up at once", func(r *rig) {
			r.landed(node.Join{Worker: "n1/0", Info: infoOf(r, 1)})
			r.landed(node.Expire{Worker: "n1/0"})
		}, ""},
		{"this life is given up at once", func(r *rig) {
			alive(r)
			r.landed(node.Expire{Worker: "n1/1"})
		}, ""},
		{"this life is given up at once, and runs a job", func(r *rig) {
			alive(r)
			take(r, "n1/1", 0)
			r.run(nil)
			r.landed(node.Expire{Worker: "n1/1"})
		}, "S25"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := world.Default()
			config.Nodes = 1
			r := newRigIn(t, config, &leaseSubject)
			c.tell(r)
			r.breaks(c.breaks)
		})
	}
}
