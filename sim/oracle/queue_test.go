package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

func TestQueue(t *testing.T) {
	check(t, &queueSubject, []case_{
		{"a job", func(r *rig) {
			r.commit(nil, func(tx kv.Tx) error {
				_, _, err := jobstore.Init(tx, r.w.View().Root(), "uuid")
				return err
			})
			r.request(nil)
			r.see(world.Ticked{})
			r.atRest()
		}, ""},
		{"a job that is not counted", func(r *rig) {
			r.know("job", aJob(jobstore.Record{State: jobstore.Pending}))
			r.see(world.Ticked{})
		}, "S3g"},
		{"a job that runs, and is counted as ready", func(r *rig) {
			r.o.shadows[r.request(nil)].header.State = jobs.Running
			r.see(world.Ticked{})
		}, "S3g"},
		{"a job that is over, and is counted as ready", func(r *rig) {
			r.o.shadows[r.request(nil)].header.State = jobs.Finished
			r.see(world.Ticked{})
		}, "S3g"},
		{"a job that waits, and is counted as ready", func(r *rig) {
			r.o.shadows[r.request(nil)].header.Due = 1
			r.see(world.Ticked{})
		}, "S3g"},
		{"a job in no index", func(r *rig) {
			r.store(nil, jobs.Job{ID: "job", State: jobs.Pending}, jobstore.Record{State: jobstore.Pending})
			r.atRest()
		}, "S3g"},
		{"an account with another number of jobs", func(r *rig) {
			r.request(nil)
			r.commit(nil, func(tx kv.Tx) error {
				tx.Add(r.w.View().Store().Keys.Count.Pack("user:"+world.Requester), 1)
				return nil
			})
			r.atRest()
		}, "S3g"},
	})
}

// A row that cannot be read breaks an invariant of its own, whichever checker reads it.
func TestUnreadable(t *testing.T) {
	check(t, &queueSubject, []case_{
		{"a header", func(r *rig) {
			r.set(r.w.View().Store().Keys.Jobs.Job.Pack("job"), []byte("?"))
		}, "S3a"},
		{"a record", func(r *rig) {
			id := r.request(nil)
			r.set(r.w.View().Store().Keys.Jobs.Job.Pack(id, 0), []byte("?"))
		}, "S3a"},
		{"another row of a job", func(r *rig) {
			r.set(r.w.View().Store().Keys.Spec.Pack("job", 0), []byte("?"))
		}, ""},
	})
}
