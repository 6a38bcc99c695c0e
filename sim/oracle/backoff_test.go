package oracle

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// pending and running are headers of the job of these tests.
func pending(due instant.Time, lost int) jobs.Job {
	return jobs.Job{ID: "job", State: jobs.Pending, Schedule: jobs.Schedule{Due: due}, Lost: lost}
}

func running(lost int) jobs.Job {
	return jobs.Job{ID: "job", State: jobs.Running, Lock: jobs.Lock{Worker: "n1/1"}, Lost: lost}
}

// record is a job's after a number of crashes in a row and a run of a length.
func record(r *rig, state jobstore.State, crashes int, ran time.Duration) jobstore.Record {
	now := r.w.Engine.Now()
	return jobstore.Record{State: state, ErrorCount: crashes, LastStart: now.Add(-ran), LastUpdated: now}
}

// ofN1 is that job under the lock of the first node.
var ofN1 = node.Held{JobID: "job", Lock: jobs.Lock{Worker: "n1/1"}}

func TestBackoff(t *testing.T) {
	// crash has a job crash after some crashes in a row and a run of a length, and then have another number
	// of them.
	crash := func(before int, ran time.Duration, after int, wait time.Duration) func(*rig) {
		return func(r *rig) {
			r.remove("job")
			r.store(nil, running(0), record(r, jobstore.Running, before, ran))
			rec := record(r, jobstore.Crashing, after, ran)
			r.store(node.Crash{Held: ofN1}, pending(rec.LastUpdated.Add(wait), 0), rec)
		}
	}
	change := func(q node.Request, before, after int, state jobstore.State, ran time.Duration) func(*rig) {
		return func(r *rig) {
			r.store(nil, running(0), record(r, jobstore.Running, before, ran))
			r.store(q, running(0), record(r, state, after, ran))
		}
	}
	// leaves has a job leave a wait when a time of it has passed, by the clock of the node that ends it.
	leaves := func(wait, after time.Duration) func(*rig) {
		return func(r *rig) {
			due := r.w.Engine.Now().Add(wait)
			r.store(nil, pending(due, 0), record(r, jobstore.Crashing, 1, 0))
			r.pass(after)
			before := r.o.shadows["job"]
			now := &shadow{header: &jobs.Job{ID: "job", State: jobs.Pending}, record: before.record}
			r.o.on.jobMoved.tell(jobChange{id: "job", before: before, after: now, landing: landing{
				Landed: world.Landed{Asked: world.Asked{Request: node.Promote{}, Wall: r.w.Engine.Now()}},
			}})
		}
	}
	const ok, healthy = 5 * time.Second, 3 * time.Minute
	check(t, &backoffSubject, []case_{
		{"a first crash", crash(0, time.Second, 1, ok), ""},
		{"a first crash that counts twice", crash(0, time.Second, 2, 2*ok), "S8a"},
		{"a crash that does not count", crash(1, time.Second, 1, ok), "S8a"},
		{"a crash after a healthy run", crash(7, healthy, 1, ok), ""},
		{"a crash after a healthy run that is added", crash(7, healthy, 8, 640*time.Second), "S8a"},
		{"a new job with crashes", func(r *rig) {
			r.store(nil, running(0), record(r, jobstore.Running, 0, 0))
			rec := record(r, jobstore.Pending, 1, 0)
			rec.Created = r.w.Engine.Now()
			r.store(nil, pending(0, 0), rec)
		}, "S8a"},

		{"the shortest wait", crash(2, time.Second, 3, 15*time.Second), ""},
		{"a shorter wait", crash(2, time.Second, 3, 14*time.Second), "S8c"},
		{"the longest wait", crash(2, time.Second, 3, 20*time.Second), ""},
		{"a longer wait", crash(2, time.Second, 3, 21*time.Second), "S8c"},
		{"the longest wait of all", crash(40, time.Second, 41, 10*time.Minute), ""},
		{"a longer wait than all", crash(40, time.Second, 41, 601*time.Second), "S8c"},

		{"crashes are kept in a short run",
			change(node.Record{Held: ofN1}, 2, 2, jobstore.Running, time.Second), ""},
		{"completes, and begins anew as a user asked",
			change(node.Complete{Held: ofN1}, 2, 0, jobstore.Pending, time.Second), ""},
		{"crashes are forgotten in a short run",
			change(node.Record{Held: ofN1}, 2, 0, jobstore.Running, time.Second), "S8b"},
		{"crashes are kept in a healthy run",
			change(node.Record{Held: ofN1}, 2, 2, jobstore.Running, healthy), "S8b"},
		{"crashes are forgotten in a healthy run",
			change(node.Record{Held: ofN1}, 2, 0, jobstore.Running, healthy), ""},
		{"crashes are forgotten by a completion",
			change(node.Complete{Held: ofN1}, 2, 0, jobstore.Completed, 0), ""},

		{"a wait that is over", leaves(time.Minute, time.Minute), ""},
		{"a wait that is not over", leaves(time.Minute, 59*time.Second), "S8d"},
		{"a wait that no clock within a day gives", leaves(48*time.Hour, time.Minute), ""},

		{"four waits of one length", func(r *rig) {
			for range 4 {
				crash(0, time.Second, 1, ok)(r)
			}
		}, "S8e"},
		{"three waits of one length", func(r *rig) {
			for range 3 {
				crash(0, time.Second, 1, ok)(r)
			}
			crash(0, time.Second, 1, ok-time.Millisecond)(r)
			crash(0, time.Second, 1, ok)(r)
		}, ""},
	})
}

func TestVanishedWorkers(t *testing.T) {
	change := func(q node.Request, before, after jobs.Job, ran time.Duration) func(*rig) {
		return func(r *rig) {
			r.store(nil, before, record(r, jobstore.Running, 0, ran))
			r.store(q, after, record(r, jobstore.Running, 0, ran))
		}
	}
	progress := node.Record{Held: ofN1}
	const healthy = 3 * time.Minute
	silent := node.Expire{Beat: &[10]byte{}}
	check(t, &vanishedSubject, []case_{
		{"given up", change(silent, running(1), pending(0, 2), 0), ""},
		{"given up, and not counted", change(silent, running(1), pending(0, 1), 0), "S7c"},
		{"a lease that its worker gives up", change(node.Expire{}, running(1), pending(0, 1), 0), ""},
		{"a lease that its worker gives up, and counted", change(node.Expire{}, running(1), pending(0, 2), 0), "S7c"},
		{"left with a job", change(node.Retire{}, running(1), pending(0, 1), 0), ""},
		{"left with a job, and counted", change(node.Retire{}, running(1), pending(0, 2), 0), "S7c"},
		{"a job that does not run is counted", change(silent, pending(0, 1), pending(0, 2), 0), "S7c"},
		{"a run ends in order", change(node.Requeue{Held: ofN1}, running(3), pending(0, 0), 0), ""},
		{"a run ends in order, and the count stays",
			change(node.Requeue{Held: ofN1}, running(3), pending(0, 3), 0), "S7c"},
		{"taken", change(node.Accept{}, pending(0, 3), running(3), 0), ""},
		{"taken, and forgotten", change(node.Accept{}, pending(0, 3), running(0), 0), "S7c"},
		{"a healthy run", change(progress, running(3), running(0), healthy), ""},
		{"a healthy run, and the count stays", change(progress, running(3), running(3), healthy), "S7c"},
		{"a short run, and forgotten", change(progress, running(3), running(0), time.Minute), "S7c"},
		{"a user makes the job anew", change(nil, pending(0, 3), pending(0, 0), 0), ""},

		{"a job that lost four workers runs", func(r *rig) {
			r.store(nil, running(4), jobstore.Record{})
			r.run(nil)
		}, ""},
		{"a job that lost five workers runs", func(r *rig) {
			r.store(nil, running(5), jobstore.Record{})
			r.run(nil)
		}, "S7d"},
		{"a job that lost five workers, and was taken away, is started", func(r *rig) {
			r.store(nil, pending(0, 5), jobstore.Record{})
			r.run(nil)
		}, ""},
	})
}

func TestTransitions(t *testing.T) {
	change := func(before, after jobstore.Record) func(*rig) {
		return func(r *rig) {
			r.store(nil, running(0), before)
			r.store(node.Record{Held: ofN1}, running(0), after)
		}
	}
	state := func(s jobstore.State) jobstore.Record { return jobstore.Record{State: s} }
	wrote := func(repID string, docs int64) jobstore.Record {
		stats := jobstore.Stats{DocsWritten: docs}
		return jobstore.Record{State: jobstore.Running, RepID: repID, Stats: stats}
	}
	forgets := func(after time.Duration) jobstore.Record {
		expires := instant.Time(1000).Add(after)
		return jobstore.Record{State: jobstore.Completed, LastUpdated: 1000, Expires: expires}
	}
	ready := func(signals ...int64) func(*rig) {
		return func(r *rig) {
			r.store(nil, running(0), state(jobstore.Running))
			keys := r.w.View().Store().Keys.Jobs
			r.commit(node.Requeue{Held: ofN1}, func(tx kv.Tx) error {
				tx.Set(keys.Job.Pack("job"), encoded(pending(0, 0)))
				for _, row := range signals {
					tx.Add(keys.Signal.Pack(row), 1)
				}
				return nil
			})
		}
	}
	anew := state(jobstore.Pending)
	anew.Created = 5
	check(t, &transitionSubject, []case_{
		{"from pending to running", change(state(jobstore.Pending), state(jobstore.Running)), ""},
		{"from crashing to running", change(state(jobstore.Crashing), state(jobstore.Running)), ""},
		{"from running to failed", change(state(jobstore.Running), state(jobstore.Failed)), ""},
		{"from pending to completed", change(state(jobstore.Pending), state(jobstore.Completed)), "S7b"},
		{"from crashing to pending", change(state(jobstore.Crashing), state(jobstore.Pending)), "S7b"},
		{"from completed to running", change(state(jobstore.Completed), state(jobstore.Running)), "S7b"},
		{"from completed to pending, made anew", change(state(jobstore.Completed), anew), ""},

		{"counters grow", change(wrote("a", 1), wrote("a", 2)), ""},
		{"counters go back", change(wrote("a", 2), wrote("a", 1)), "S16a"},
		{"counters go back for another replication", change(wrote("a", 2), wrote("b", 1)), ""},
		{"counters go back before the replication is known", change(wrote("", 2), wrote("", 1)), ""},

		{"forgotten in time", change(state(jobstore.Running), forgets(10*time.Minute)), ""},
		{"forgotten too early", change(state(jobstore.Running), forgets(9*time.Minute)), "S7a"},

		{"ready with a signal", ready(50), ""}, // 50 is the row of "job"
		{"ready with the signal of other jobs", ready(49, 51), "L4e"},
		{"ready without a signal", ready(), "L4e"},
		{"waits until it is due", change(state(jobstore.Running), state(jobstore.Running)), ""},
	})
}
