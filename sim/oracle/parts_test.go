package oracle

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// fleetTells has the first node join with so many of ten jobs, and see another node with so many of ten.
func (r *rig) fleetTells(own, other int) {
	info := func(running int) node.Info {
		return node.Info{
			Roles: node.Replication, Status: node.Up, MaxJobs: 10, Running: running, ActivityTimeout: time.Minute,
		}
	}
	r.step(node.Wake{}, ask(9001, node.Join{Worker: "n1/1", Info: info(own)}))
	r.step(done(9001, node.Ok{}))
	r.calls++ // another heartbeat
	r.looks(node.Member{Worker: "n2/1", Beat: [10]byte{byte(r.calls)}, Info: info(other)})
}

// looks has the first node look at the others.
func (r *rig) looks(list ...node.Member) {
	r.step(node.Wake{}, ask(9002, node.ListLeases{}))
	r.step(done(9002, node.Leases{List: list}))
}

// jobIn finds the id of a job in a part and not in another, another one for each number.
func jobIn(in, not jobs.Part, number int) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("job", i); in.Has(id) && (not == 0 || !not.Has(id)) {
			if number--; number < 0 {
				return id
			}
		}
	}
}

// partsOf are the parts of the two nodes when they run so many of ten jobs.
func partsOf(own, other int) []jobs.Part {
	return fleet{nodes: []room{{"n1/1", 10, own}, {"n2/1", 10, other}}}.parts()
}

var (
	halves   = partsOf(0, 0)
	ownJob   = jobIn(halves[0], halves[1], 0)
	otherJob = jobIn(halves[1], halves[0], 0)
)

func TestParts(t *testing.T) {
	waits := func(r *rig, id string) {
		r.store(nil, jobs.Job{ID: id, State: jobs.Pending}, jobstore.Record{State: jobstore.Pending})
	}
	demand := jobs.Demand{Batch: 3, Max: 5, Window: 16, Part: halves[0]}
	asks := func(r *rig) node.Accept {
		q := node.Accept{Worker: "n1/1", Node: "n1", Demand: demand}
		r.step(node.Wake{}, ask(5, q))
		return q
	}
	takes := func(r *rig, q node.Accept, id string) {
		lock := jobs.Lock{Worker: "n1/1", Batch: 3}
		r.store(q, jobs.Job{ID: id, State: jobs.Running, Lock: lock}, jobstore.Record{State: jobstore.Running})
	}
	// leaves has the first node leave a job to others, and ask for jobs again after a while.
	leaves := func(r *rig, id string, lasts time.Duration) node.Accept {
		asks(r)
		r.step(done(5, node.Accepted{Left: id}))
		r.pass(lasts)
		demand := demand
		demand.Seed = 1
		q := node.Accept{Worker: "n1/1", Node: "n1", Demand: demand}
		r.step(node.Wake{}, ask(6, q))
		return q
	}
	both := subject{begin: func(c *chronicle) {
		dutySubject.begin(c)
		partSubject.begin(c)
	}}
	cases := []case_{
		{"its own", func(r *rig) { r.fleetTells(0, 0); waits(r, ownJob); takes(r, asks(r), ownJob) }, ""},
		{"another's", func(r *rig) { r.fleetTells(0, 0); waits(r, otherJob); takes(r, asks(r), otherJob) }, "S32a"},
		{"another's that is full", func(r *rig) {
			r.fleetTells(0, 10)
			waits(r, otherJob)
			takes(r, asks(r), otherJob)
		}, ""},
		{"another's after patience", func(r *rig) {
			r.fleetTells(0, 0)
			waits(r, otherJob)
			takes(r, leaves(r, otherJob, patience), otherJob)
		}, ""},
		{"another's too early", func(r *rig) {
			r.fleetTells(0, 0)
			waits(r, otherJob)
			takes(r, leaves(r, otherJob, patience-1000), otherJob)
		}, "S32a"},
		{"another's after patience for a job that was taken long ago", func(r *rig) {
			r.fleetTells(0, 0)
			waits(r, otherJob)
			takes(r, leaves(r, "gone", patience), otherJob)
		}, "S32a"},
		{"another's of a node that was silent", func(r *rig) {
			r.fleetTells(0, 0)
			r.pass(time.Hour)
			r.calls-- // the same heartbeat
			r.fleetTells(0, 0)
			waits(r, otherJob)
			takes(r, asks(r), otherJob)
		}, ""},
		{"another's before its own", func(r *rig) {
			r.fleetTells(10, 10)
			waits(r, ownJob)
			r.pass(readAge + time.Second)
			waits(r, otherJob)
			takes(r, asks(r), otherJob)
		}, "S32b"},
		{"another's before its own, of which it cannot know", func(r *rig) {
			r.fleetTells(10, 10)
			waits(r, ownJob)
			waits(r, otherJob)
			q := asks(r)
			r.pass(readAge + time.Second)
			takes(r, q, otherJob)
		}, ""},
		{"another's before its own, behind others that were taken since", func(r *rig) {
			r.fleetTells(10, 10)
			waits(r, ownJob)
			r.pass(readAge + time.Second)
			waits(r, otherJob)
			q := asks(r)
			for i := range demand.Window {
				id := jobIn(halves[1], halves[0], 1+i)
				waits(r, id)
				r.store(nil, jobs.Job{ID: id, State: jobs.Running}, jobstore.Record{State: jobstore.Running})
			}
			takes(r, q, otherJob)
		}, ""},
		{"leaves a job to a full node", func(r *rig) {
			r.fleetTells(0, 10)
			asks(r)
			r.step(done(5, node.Accepted{Left: otherJob}))
		}, "S32c"},
		{"leaves a job again", func(r *rig) {
			r.fleetTells(0, 0)
			leaves(r, otherJob, patience)
			r.step(done(6, node.Accepted{Left: otherJob}))
		}, "S32d"},
		{"leaves a job again too early", func(r *rig) {
			r.fleetTells(0, 0)
			leaves(r, otherJob, patience-1000)
			r.step(done(6, node.Accepted{Left: otherJob}))
		}, ""},
		{"leaves a job again, the first time under a lease that was lost", func(r *rig) {
			r.fleetTells(0, 0)
			asks(r)
			r.step(node.Wake{}, ask(7, node.Join{Worker: "n1/2"}))
			r.step(done(5, node.Accepted{Left: otherJob}))
			r.pass(patience)
			again := node.Accept{Worker: "n1/2", Node: "n1", Demand: demand}
			r.step(node.Wake{}, ask(6, again))
			r.step(done(6, node.Accepted{Left: otherJob}))
		}, ""},
		{"waits for its part", func(r *rig) {
			r.fleetTells(0, 0)
			r.step(node.Wake{}, node.Await{Topic: node.ReadyJobs, Part: demand.Part})
			r.fleetTells(0, 0)
		}, ""},
		{"waits for half of its part", func(r *rig) {
			r.fleetTells(0, 0)
			r.step(node.Wake{}, node.Await{Topic: node.ReadyJobs, Part: halves[0] & 0xffffffff})
			r.fleetTells(0, 0)
		}, "L9a"},
		{"was told of half of its part", func(r *rig) {
			r.fleetTells(0, 0)
			r.step(node.Wake{}, node.Await{Topic: node.ReadyJobs, Part: halves[0] & 0xffffffff})
			r.step(node.Notified{Topic: node.ReadyJobs})
			r.fleetTells(0, 0)
		}, ""},
		{"forgets what it left", func(r *rig) {
			r.fleetTells(0, 0)
			asks(r)
			r.step(done(5, node.Accepted{Left: otherJob}))
			r.pass(patience + dutyGrace + time.Millisecond)
			r.step(node.Wake{})
		}, "L9b"},
		{"may forget it for a while", func(r *rig) {
			r.fleetTells(0, 0)
			asks(r)
			r.step(done(5, node.Accepted{Left: otherJob}))
			r.pass(patience + dutyGrace)
			r.step(node.Wake{})
		}, ""},
	}
	for i := range cases {
		tell := cases[i].tell
		cases[i].tell = func(r *rig) {
			r.node(1).Occupy(0)
			r.see(world.Ticked{})
			tell(r)
		}
	}
	check(t, &both, cases)
}
