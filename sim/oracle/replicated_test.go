package oracle

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

// replicated has a document come from another server with these members.
func (r *rig) replicated(id, members string) *world.JobDoc {
	j := r.w.NewDocument(id, nil)
	body := fmt.Sprintf(`{"source":%q,"target":%q%s}`, world.URL("s1", "a1"), world.URL("s2", "b1"), members)
	if err := world.ReplicateNow(r.w, j, revtree.Rev{Gen: 1, ID: strings.Repeat("a", 32)}, body); err != nil {
		r.t.Fatal(err)
	}
	return j
}

func TestReplicated(t *testing.T) {
	const wrong = `,"worker_processes":5000`
	const completed = `,"_replication_state":"completed","_replication_stats":{"docs_written":3}`
	const failed = `,"_replication_state":"failed","_replication_state_reason":"elsewhere"`
	runs := func(r *rig, j *world.JobDoc) {
		r.runOf(r.node(1), jobstore.Work{
			JobID: j.JobID(), Lock: jobs.Lock{Worker: "n1/1"}, Replication: r.replication(nil),
			Record: &jobstore.Record{},
		})
	}
	checkDocuments(t, &replicatedSubject, []case_{
		{"valid", func(r *rig) { runs(r, r.replicated("doc", "")); r.atRest() }, ""},
		{"wrong", func(r *rig) { r.replicated("doc", wrong); r.atRest() }, ""},
		{"wrong, and its job does not say so", func(r *rig) {
			r.o.shadows[r.replicated("doc", wrong).JobID()].record.Reason = "something"
			r.atRest()
		}, "S92b"},
		{"wrong, and does not say so itself", func(r *rig) {
			j := r.replicated("doc", "")
			r.see(world.DocumentReplicated{Doc: j, Token: r.o.docs[j.Tenant().Name()+" doc"].token,
				Body: []byte(`{"worker_processes":5000}`)})
			r.o.shadows[j.JobID()].record.State = jobstore.Failed
			r.atRest()
		}, "S92b"},
		{"wrong, and runs", func(r *rig) { runs(r, r.replicated("doc", wrong)) }, "S92b"},
		{"wrong, written since, and runs", func(r *rig) {
			j := r.replicated("doc", wrong)
			r.see(world.DocumentWritten{Doc: j, Token: 77, Present: true})
			runs(r, j)
		}, ""},
		{"completed", func(r *rig) { r.replicated("doc", completed+wrong); r.atRest() }, ""},
		{"completed, and runs", func(r *rig) { runs(r, r.replicated("doc", completed)) }, "S92c"},
		{"completed, and its job is not", func(r *rig) {
			r.o.shadows[r.replicated("doc", completed).JobID()].record.State = jobstore.Pending
			r.atRest()
		}, "S92c"},
		{"failed", func(r *rig) { r.replicated("doc", failed+wrong); r.atRest() }, ""},
		{"failed, retried, and runs", func(r *rig) { runs(r, r.replicated("doc", failed)); r.atRest() }, ""},
		{"changed on arrival", func(r *rig) {
			j := r.replicated("doc", completed)
			r.see(world.DocumentReplicated{Doc: j, Token: r.o.docs[j.Tenant().Name()+" doc"].token,
				Body: []byte(`{"_replication_state":"completed","comment":1}`)})
			r.atRest()
		}, "S92c"},
		{"written in another way on arrival", func(r *rig) {
			j := r.replicated("doc", completed+`,"proxy":"a&b"`)
			r.see(world.DocumentReplicated{Doc: j, Token: r.o.docs[j.Tenant().Name()+" doc"].token,
				Body: []byte(`{"_replication_state":"completed","proxy":"a\u0026b"}`)})
			r.atRest()
		}, ""},
		{"refused", func(r *rig) {
			r.see(world.ReplicatedRefused{Doc: r.w.NewDocument("doc", nil), Err: docs.Forbidden("no")})
		}, "S92a"},
		{"refused without a database", func(r *rig) {
			r.see(world.ReplicatedRefused{Doc: r.w.NewDocument("doc", nil), Err: docs.ErrNoDatabase})
		}, ""},
		{"once more", func(r *rig) { r.see(world.DocumentRepeated{Doc: r.replicated("doc", "")}) }, ""},
		{"once more, and changed", func(r *rig) {
			r.see(world.DocumentRepeated{Doc: r.replicated("doc", ""), Changed: true})
		}, "S92d"},
	})
}
