package oracle

import (
	"testing"

	"couchrelay/core/instant"
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
	red := map[string]any{"tag": "red"}
	// made has the commit of a job told once more, as if a user's write had made it just now.
	made := func(r *rig, j *world.JobDoc, ended jobstore.State) {
		after := r.o.shadows[j.JobID()]
		if ended != "" {
			after.record.State = ended
		}
		r.o.on.jobChanged.tell(jobChange{id: j.JobID(), before: &shadow{}, after: after})
	}
	checkDocuments(t, &validationSubject, []case_{
		{"allowed", func(r *rig) { forbid(r, "blue"); made(r, r.document("doc", red), "") }, ""},
		{"stored before", func(r *rig) {
			j := r.document("doc", red)
			forbid(r, "red")
			s := r.o.shadows[j.JobID()]
			r.o.on.jobChanged.tell(jobChange{id: j.JobID(), before: s, after: s})
		}, ""},
		{"forbidden", func(r *rig) {
			j := r.document("doc", red)
			forbid(r, "blue", "red")
			made(r, j, "")
		}, "S93a"},
		{"forbidden until then", func(r *rig) {
			j := r.document("doc", red)
			forbid(r, "red")
			forbid(r)
			made(r, j, "")
		}, ""},
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

// TestForbiddenStates: a document that a function keeps from changing need not tell the state of its job, any other has
// to.
func TestForbiddenStates(t *testing.T) {
	ended := func(forbidden string) func(*rig) {
		return func(r *rig) {
			if err := world.ForbidNow(r.w, forbidden); err != nil {
				r.t.Fatal(err)
			}
			j := r.document("doc", map[string]any{"tag": "red"})
			s := r.o.shadows[j.JobID()]
			s.record.State, s.record.LastStart = jobstore.Completed, instant.Time(1)
			r.atRest()
		}
	}
	checkDocuments(t, &documentSubject, []case_{
		{"of another tag", ended("blue"), "S7f"},
		{"of a document whose tag was forbidden since", func(r *rig) {
			j := r.document("doc", map[string]any{"tag": "red"})
			if err := world.ForbidNow(r.w, "red"); err != nil {
				r.t.Fatal(err)
			}
			r.o.shadows[j.JobID()].record.State = jobstore.Completed
			r.atRest()
		}, ""},
	})
}
