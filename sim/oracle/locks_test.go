package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
)

func TestLocks(t *testing.T) {
	start := func(r *rig, number int, worker string) {
		r.runOf(r.node(number), jobstore.Work{
			JobID: "job", Lock: jobs.Lock{Worker: worker},
			Replication: r.replication(nil), Record: &jobstore.Record{},
		})
	}
	take := func(r *rig, worker string) {
		job := jobs.Job{ID: "job", State: jobs.Running, Lock: jobs.Lock{Worker: worker}}
		r.store(nil, job, jobstore.Record{})
	}
	check(t, &lockSubject, []case_{
		{"one run", func(r *rig) { start(r, 1, "n1/1") }, ""},
		{"two nodes under one lock", func(r *rig) { start(r, 1, "n1/1"); start(r, 2, "n1/1") }, "S1"},
		{"one node under two locks", func(r *rig) { start(r, 1, "n1/1"); start(r, 1, "n1/1-2") }, "S1"},
		{"taken over while it runs", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, "S1"},
		{"taken over from a node that stands still", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			r.node(1).StandStill(time.Minute)
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, ""},
		{"taken over from a node that stood still within its activity timeout", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			r.node(1).StandStill(time.Second)
			r.pass(20 * time.Second)
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, ""},
		{"taken over from a node that stood still long ago", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			r.node(1).StandStill(time.Second)
			r.pass(21 * time.Second)
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, "S1"},
		{"made anew by its user", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			r.remove("job")
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, ""},
		{"made anew by its user, and started late where it was before", func(r *rig) {
			take(r, "n1/1")
			r.remove("job")
			r.pass(time.Second)
			take(r, "n2/1")
			start(r, 2, "n2/1")
			r.pass(time.Second)
			start(r, 1, "n1/1")
		}, ""},
		{"made anew by its user, and started far too late", func(r *rig) {
			take(r, "n1/1")
			r.remove("job")
			r.pass(time.Second)
			take(r, "n2/1")
			start(r, 2, "n2/1")
			r.pass(time.Hour)
			start(r, 1, "n1/1")
		}, "S1"},
		{"taken over while an upgrade changes the activity timeout", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			other := r.node(2).Settings()
			other.ActivityTimeout = time.Minute
			r.node(2).SetSettings(other)
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, ""},
		{"started by a node that was suspended after it was given the job", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			r.node(2).Suspend(time.Second)
			r.pass(10 * time.Second)
			start(r, 2, "n2/1")
		}, ""},
		{"started by a node that was suspended before it was given the job", func(r *rig) {
			take(r, "n1/1")
			start(r, 1, "n1/1")
			r.node(2).Suspend(time.Second)
			r.pass(10 * time.Second)
			take(r, "n2/1")
			start(r, 2, "n2/1")
		}, "S1"},
	})
}

func TestFencing(t *testing.T) {
	job := func(state jobs.State, worker string) jobs.Job {
		return jobs.Job{ID: "job", State: state, Lock: jobs.Lock{Worker: worker}}
	}
	write := node.Record{Held: node.Held{JobID: "job", Lock: jobs.Lock{Worker: "n1/1"}}}
	check(t, &lockSubject, []case_{
		{"a write under the lock", func(r *rig) {
			r.store(nil, job(jobs.Running, "n1/1"), jobstore.Record{})
			r.store(write, job(jobs.Running, "n1/1"), jobstore.Record{})
		}, ""},
		{"a write under the lock of another worker", func(r *rig) {
			r.store(nil, job(jobs.Running, "n2/1"), jobstore.Record{})
			r.store(write, job(jobs.Running, "n1/1"), jobstore.Record{})
		}, "S2"},
		{"a write for a job that waits", func(r *rig) {
			r.store(nil, job(jobs.Pending, ""), jobstore.Record{})
			r.store(write, job(jobs.Running, "n1/1"), jobstore.Record{})
		}, "S2"},
		{"a write for a job that is not there", func(r *rig) {
			r.store(write, job(jobs.Running, "n1/1"), jobstore.Record{})
		}, "S2"},
		{"a request that changes another job", func(r *rig) {
			r.store(write, jobs.Job{ID: "other", State: jobs.Pending}, jobstore.Record{})
		}, ""},
	})
}
