package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

// TestWaiters: a user looks at a job, waits for a watch, is woken and is told.
func TestWaiters(t *testing.T) {
	pending, running := jobstore.Record{State: jobstore.Pending}, jobstore.Record{State: jobstore.Running}
	named := running
	named.RepID = "rep"
	var w *world.Waiter
	job := func(is *shadow) func(*rig) { return func(r *rig) { r.know("job", is) } }
	looksNow := func(wanted world.Wanted) func(*rig) {
		return func(r *rig) {
			w = &world.Waiter{JobID: "job", Wanted: wanted, Node: r.node(1)}
			r.see(world.WaiterLooks{Waiter: w})
		}
	}
	looks := func(wanted world.Wanted) func(*rig) {
		return func(r *rig) { r.pass(time.Second); looksNow(wanted)(r) }
	}
	waits := func(r *rig) { r.pass(time.Second); r.see(world.WaiterWaits{Waiter: w}) }
	woken := func(after time.Duration) func(*rig) {
		return func(r *rig) { r.pass(after); r.see(world.WaiterWoken{Waiter: w}) }
	}
	told := func(l world.Learned) func(*rig) {
		return func(r *rig) { r.see(world.WaiterLearns{Waiter: w, Learned: l}) }
	}
	// becomes has the job change from one to another; nil is none.
	becomes := func(from, to *shadow) func(*rig) {
		return func(r *rig) {
			if to == nil {
				to = &shadow{}
			}
			r.pass(time.Second)
			r.change(nil, from, to)
		}
	}
	misled := func(whom string) func(*rig) {
		return func(r *rig) { r.see(world.FaultHit{Name: "fdb-watch-lost", Whom: whom}) }
	}
	all := func(steps ...func(*rig)) func(*rig) {
		return func(r *rig) {
			for _, do := range steps {
				do(r)
			}
		}
	}
	over := aJob(jobstore.Record{State: jobstore.Completed})
	is, runs, has := aJob(pending), aJob(running), aJob(named)
	check(t, &waiterSubject, []case_{
		{"told of the state", all(job(over), looks(world.Over), told(world.Learned{State: jobstore.Completed})), ""},
		{"told of another end", all(job(over), looks(world.Over), told(world.Learned{State: jobstore.Failed})), "S79a"},
		{"told of what is not wanted", all(job(is), looks(world.Over),
			told(world.Learned{State: jobstore.Pending})), "S79a"},
		{"told of what was before", all(job(runs), looks(world.Running), becomes(runs, is), looks(world.Running),
			told(world.Learned{Header: jobs.Running})), "S79a"},
		{"told of what was since the look", all(job(runs), looks(world.Running), becomes(runs, is),
			told(world.Learned{Header: jobs.Running})), ""},
		{"told that it waits", all(job(is), looks(world.Running), told(world.Learned{Header: jobs.Pending})), "S79a"},
		{"told that it is gone", all(looks(world.Named), told(world.Learned{Gone: true})), ""},
		{"told wrongly that it is gone", all(job(is), looks(world.Named), told(world.Learned{Gone: true})), "S79a"},
		{"told of another id", all(job(has), looks(world.Named),
			told(world.Learned{State: jobstore.Running, RepID: "other"})), "S79a"},

		{"waits for what is not so", all(job(is), looks(world.Running), waits, woken(time.Hour)), ""},
		{"waits for what is so", all(job(runs), looks(world.Running), waits), "S79b"},
		{"waits for what is so since before", all(job(is), becomes(is, runs), looks(world.Running), waits), "S79b"},
		{"waits for what is so at this moment", all(job(is), becomes(is, runs), looksNow(world.Running), waits,
			woken(0)), ""},
		{"waits for what is gone", all(looks(world.Running), waits), "S79b"},
		{"woken at once", all(job(is), looks(world.Running), waits, becomes(is, runs), woken(0)), ""},
		{"woken late", all(job(is), looks(world.Running), waits, becomes(is, runs), woken(time.Minute)), "S79b"},
		{"woken late as it goes", all(job(is), looks(world.Over), waits, becomes(is, nil),
			woken(time.Minute)), "S79b"},
		{"woken late by its id", all(job(runs), looks(world.Named), waits, becomes(runs, has),
			woken(time.Minute)), "S79b"},
		{"its id is not wanted", all(job(runs), looks(world.Over), waits, becomes(runs, has), woken(time.Minute)), ""},
		{"changed while it was read", all(job(is), looks(world.Running), becomes(is, runs), waits,
			woken(time.Minute)), "S79b"},
		{"the watch is lost", all(job(is), looks(world.Running), misled("n1"), waits, becomes(is, runs),
			woken(time.Minute)), ""},
		{"another watch is lost", all(job(is), looks(world.Running), misled("n2"), waits, becomes(is, runs),
			woken(time.Minute)), "S79b"},
		{"the next watch is lost", all(job(is), looks(world.Running), waits, misled("n1"), becomes(is, runs),
			woken(time.Minute)), "S79b"},
		{"leaves", all(job(is), looks(world.Running), waits, func(r *rig) { r.see(world.WaiterLeaves{Waiter: w}) },
			becomes(is, runs)), ""},
	})
}
