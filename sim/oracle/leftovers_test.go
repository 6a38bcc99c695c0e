package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestLeftovers(t *testing.T) {
	put := func(r *rig, key []byte) {
		r.commit(nil, func(tx kv.Tx) error { tx.Set(key, []byte("x")); return nil })
	}
	aJob := func(r *rig) { r.store(nil, jobs.Job{ID: "job", State: jobs.Pending}, jobstore.Record{}) }
	check(t, &leftoverSubject, []case_{
		{"a worker", func(r *rig) { r.joins("n1/1", infoOf(r, 1)); r.o.AtRest() }, ""},
		{"a worker that is gone", func(r *rig) {
			r.joins("n1/1", infoOf(r, 1))
			r.o.leases["n1/1"] = lease{gone: true}
			r.o.AtRest()
		}, "S17a"},
		{"calls of a worker that is gone", func(r *rig) {
			put(r, r.w.View().Store().Keys.Jobs.Call.Pack("n1/1"))
			r.o.leases["n1/1"] = lease{gone: true}
			r.o.AtRest()
		}, "S17a"},
		{"a replication of a job", func(r *rig) {
			aJob(r)
			put(r, r.w.View().Store().Keys.Spec.Pack("job", 0))
			r.o.AtRest()
		}, ""},
		{"a replication of a job that is gone", func(r *rig) {
			aJob(r)
			put(r, r.w.View().Store().Keys.Spec.Pack("job", 0))
			r.remove("job")
			r.o.AtRest()
		}, "S17b"},
		{"an expiry of a job", func(r *rig) {
			aJob(r)
			put(r, r.w.View().Store().Keys.Expire.Pack(int64(5), "job"))
			r.o.AtRest()
		}, ""},
		{"an expiry of a job that is gone", func(r *rig) {
			put(r, r.w.View().Store().Keys.Expire.Pack(int64(5), "job"))
			r.o.AtRest()
		}, "S17b"},

		{"a run that holds bodies and crashes", func(r *rig) {
			run := r.run(nil)
			run.Keep(1)
			r.see(world.RunSaidEnd{Run: run, End: replication.End{Cause: replication.Crashed}})
		}, ""},
		{"a run that holds bodies and has done all", func(r *rig) {
			run := r.run(nil)
			run.Keep(1)
			r.see(world.RunSaidEnd{Run: run, End: replication.End{Cause: replication.Completed}})
		}, "S17e"},
		{"a run that holds none and has done all", func(r *rig) {
			r.see(world.RunSaidEnd{Run: r.run(nil), End: replication.End{Cause: replication.Completed}})
		}, ""},
	})
}

func TestPages(t *testing.T) {
	some := func(r *rig) {
		for _, id := range []string{"a", "b", "c", "d"} {
			r.store(nil, jobs.Job{ID: id, State: jobs.Pending}, jobstore.Record{})
		}
		r.remove("b")
	}
	check(t, &pageSubject, []case_{
		{"no jobs", func(r *rig) { r.o.AtRest() }, ""},
		{"some jobs", func(r *rig) { some(r); r.o.AtRest() }, ""},
		{"a job is not listed", func(r *rig) {
			some(r)
			r.o.shadows["e"] = &shadow{header: &jobs.Job{ID: "e"}}
			r.o.AtRest()
		}, "S3y"},
		{"a job is listed that is gone", func(r *rig) {
			some(r)
			r.o.shadows["a"] = &shadow{}
			r.o.AtRest()
		}, "S3y"},
		{"half a job", func(r *rig) {
			r.commit(nil, func(tx kv.Tx) error {
				tx.Set(r.w.View().Store().Keys.Jobs.Job.Pack("half"), []byte("?"))
				return nil
			})
			r.o.violation = nil // the chronicle could not read it either
			r.o.AtRest()
		}, "S3y"},
	})
}
