package oracle

import (
	"fmt"
	"testing"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

// document has a user write a replication document with these members, which makes a real job.
func (r *rig) document(id string, members map[string]any) *world.JobDoc {
	body := map[string]any{"source": world.URL("s1", "a1"), "target": world.URL("s2", "b1")}
	for name, v := range members {
		body[name] = v
	}
	j := r.w.NewDocument(id, body)
	if err := r.w.WriteNow(j, true); err != nil {
		r.t.Fatal(err)
	}
	return j
}

// checkDocuments tells the facts of cases in worlds that have replicator databases.
func checkDocuments(t *testing.T, about *subject, cases []case_) {
	for i, c := range cases {
		cases[i].tell = func(r *rig) {
			r.w.MakeTenants()
			c.tell(r)
		}
	}
	check(t, about, cases)
}

func TestDocumentsAtRest(t *testing.T) {
	written := func(r *rig, j *world.JobDoc, token uint64, present bool) {
		r.see(world.DocumentWritten{Doc: j, Token: token, Present: present})
	}
	key := func(j *world.JobDoc) string { return j.Tenant().Name() + " " + j.ID() }
	checkDocuments(t, &documentSubject, []case_{
		{"written", func(r *rig) { r.document("doc", nil); r.atRest() }, ""},
		{"deleted", func(r *rig) {
			if err := r.w.WriteNow(r.document("doc", nil), false); err != nil {
				r.t.Fatal(err)
			}
			r.atRest()
		}, ""},
		{"forked, and not as its user knows it", func(r *rig) {
			j := r.document("doc", nil)
			world.ForkNow(r.w, j)
			written(r, j, 77, false)
			r.atRest()
		}, ""},
		{"forked, and its job is gone", func(r *rig) {
			j := r.document("doc", nil)
			world.ForkNow(r.w, j)
			r.know(j.JobID(), &shadow{})
			r.atRest()
		}, "S3c"},
		{"written, and gone", func(r *rig) {
			written(r, r.w.NewDocument("doc", nil), 1, true)
			r.atRest()
		}, "S3b"},
		{"written again, and as before", func(r *rig) {
			written(r, r.document("doc", nil), 77, true)
			r.atRest()
		}, "S3b"},
		{"deleted, and there", func(r *rig) {
			written(r, r.document("doc", nil), 77, false)
			r.atRest()
		}, "S4f"},
		{"deleted, and its job is there", func(r *rig) {
			j := r.document("doc", nil)
			job := r.o.shadows[j.JobID()]
			_ = r.w.WriteNow(j, false)
			r.know(j.JobID(), job)
			r.atRest()
		}, "S4f"},
		{"without a job", func(r *rig) {
			delete(r.o.shadows, r.document("doc", nil).JobID())
			r.atRest()
		}, "S3c"},
		{"with the job of another", func(r *rig) {
			doc, other := r.document("doc", nil), r.document("other", map[string]any{"continuous": true})
			specs := r.w.View().Store().Keys.Spec
			rows, err := r.w.View().Present().GetRange(specs.Sub(other.JobID()).Range(), kv.RangeOptions{})
			if err != nil || len(rows) != 1 {
				r.t.Fatal(rows, err)
			}
			r.set(specs.Pack(doc.JobID(), 0), rows[0].Value)
			r.atRest()
		}, "S3c"},
		{"whose job is over, and does not follow", func(r *rig) {
			r.o.shadows[r.document("doc", nil).JobID()].record.State = jobstore.Completed
			r.atRest()
		}, ""},
		{"a job of a deleted database", func(r *rig) {
			r.know("job", aJob(jobstore.Record{Database: "a/_replicator", Instance: "gone"}))
			r.atRest()
		}, "S4g"},
		{"a job of a deleted database that is still swept", func(r *rig) {
			r.know("job", aJob(jobstore.Record{Database: "a/_replicator", Instance: "gone"}))
			r.set(r.w.View().Store().Keys.Dropped.Pack("gone"), nil)
			r.atRest()
		}, ""},
		{"a job of a deleted database that is listed", func(r *rig) {
			s := r.o.shadows[r.document("doc", nil).JobID()]
			r.o.dropped[s.record.Instance] = r.now()
			r.see(world.Ticked{})
		}, "S4j"},
		{"a job of a deleted database that is listed no more", func(r *rig) {
			s := r.o.shadows[r.document("doc", nil).JobID()]
			r.o.dropped[s.record.Instance] = r.now()
			r.set(r.w.View().Store().Keys.Dropped.Pack(s.record.Instance), nil)
			r.see(world.Ticked{})
		}, ""},
		{"a job on another page of a list without an index", func(r *rig) {
			for i := range 201 { // which one look at the store does not get over
				r.document(fmt.Sprint("doc", i), nil)
			}
			r.request(map[string]any{"continuous": true})
			r.set(r.w.View().Store().Keys.Reindex, nil)
			r.know("gone|job", aJob(jobstore.Record{Database: "a/_replicator", Instance: "gone|"}))
			r.o.dropped["gone|"] = r.now()
			r.see(world.Ticked{})
		}, ""},
		{"a job that is not listed", func(r *rig) {
			s := r.o.shadows[r.document("doc", nil).JobID()]
			r.set(r.w.View().Store().Keys.Dropped.Pack(s.record.Instance), nil)
			r.know("gone|job", aJob(jobstore.Record{Database: "a/_replicator", Instance: "gone|"}))
			r.o.dropped["gone|"] = r.now()
			r.see(world.Ticked{})
		}, "S4j"},
		{"a job without its document", func(r *rig) {
			j := r.document("doc", nil)
			r.o.shadows[j.JobID()].record.DocID = "another"
			delete(r.o.docs, key(j))
			r.atRest()
		}, "S4g"},
		{"refused, and written", func(r *rig) {
			j := r.document("doc", nil)
			r.see(world.WriteRefused{Doc: j, Token: r.o.docs[key(j)].token})
		}, "S19"},
		{"refused, and not written", func(r *rig) {
			r.see(world.WriteRefused{Doc: r.document("doc", nil), Token: 77})
		}, ""},
	})
}
