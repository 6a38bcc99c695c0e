package oracle

import (
	"testing"

	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

func TestValidation(t *testing.T) {
	forbid := func(r *rig, tags ...string) {
		if err := world.ForbidNow(r.w, tags...); err != nil {
			r.t.Fatal(err)
		}
		r.see(world.Stepped{}) // from now on it is in force
	}
	// made has the commit of a job told once more, as if a user's write had made it just now.
	made := func(r *rig, j *world.JobDoc, ended jobstore.State) {
		after := r.o.shadows[j.JobID()]
		if ended != "" {
			after.record.State = ended
		}
		r.o.on.jobChanged.tell(jobChange{id: j.JobID(), before: &shadow{}, after: after})
	}
	checkDocuments(t, &validationSubject, []case_{
		{"over before", func(r *rig) {
			j := r.document("doc", map[string]any{"tag": "red", "_replication_state": "failed"})
			forbid(r, "red")
			made(r, j, "")
		}, "S93b"},
		{"failed without a reason", func(r *rig) {
			j := r.document("doc", nil)
			forbid(r, "red")
			made(r, j, jobstore.Failed)
		}, "S93b"},
		{"completed", func(r *rig) {
			j := r.document("doc", nil)
			forbid(r, "red")
			made(r, j, jobstore.Completed)
		}, ""},
	})
}
