package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

func TestMistakes(t *testing.T) {
	failed := map[string]any{"_replication_state": "failed", "_replication_state_reason": "no source"}
	// spoil has a user be told that a document, as it is, is one that was edited elsewhere.
	spoil := func(r *rig, members map[string]any) *world.JobDoc {
		j := r.document("doc", members)
		token := toldBy(r.o.document(j.Tenant(), j.ID())).Token
		r.see(
			world.WriteBegins{Write: &world.Write{JobID: j.JobID(), Token: token, Brought: true, Wrong: true}},
			world.DocumentWritten{Doc: j, Token: token, Present: true},
		)
		return j
	}
	runs := func(r *rig, j *world.JobDoc) {
		after := *r.o.shadows[j.JobID()]
		rec := *after.record
		rec.State, after.record = jobstore.Running, &rec
		r.o.on.jobChanged.tell(jobChange{id: j.JobID(), before: r.o.shadows[j.JobID()], after: &after})
	}
	write := func(r *rig, j *world.JobDoc, present bool) {
		if err := r.w.WriteNow(j, present); err != nil {
			r.t.Fatal(err)
		}
	}
	checkDocuments(t, &mistakeSubject, []case_{
		{"failed", func(r *rig) { spoil(r, failed); r.pass(time.Minute); r.atRest() }, ""},
		{"as if it were valid", func(r *rig) { spoil(r, nil) }, "S92e"},
		{"completed", func(r *rig) { spoil(r, map[string]any{"_replication_state": "completed"}) }, "S92e"},
		{"failed without a reason", func(r *rig) { spoil(r, map[string]any{"_replication_state": "failed"}) }, "S92e"},
		{"its job runs", func(r *rig) { runs(r, spoil(r, failed)) }, "S92e"},
		{"mended", func(r *rig) { j := spoil(r, failed); write(r, j, true); runs(r, j); r.atRest() }, ""},
		{"deleted", func(r *rig) { write(r, spoil(r, failed), false); r.atRest() }, ""},
		{"deleted by an order", func(r *rig) {
			j := spoil(r, failed)
			r.see(world.DocumentWritten{Doc: j})
			runs(r, j)
		}, ""},
		{"its database is deleted", func(r *rig) {
			j := spoil(r, failed)
			r.see(world.DropBegins{Instance: j.Tenant().Instance()})
			runs(r, j)
		}, ""},
		{"of another database", func(r *rig) {
			j := spoil(r, failed)
			r.see(world.DropBegins{Instance: [16]byte{1}})
			runs(r, j)
		}, "S92e"},
	})
}
