package oracle

import (
	"bytes"
	"testing"

	"couchrelay/core/kv"
)

func TestFields(t *testing.T) {
	checkDocuments(t, &fieldSubject, []case_{
		{"as it should be", func(r *rig) { r.document("doc", map[string]any{"prioritty": 5}); r.atRest() }, ""},
		{"with a field that its job does not name", func(r *rig) {
			r.o.shadows[r.document("doc", map[string]any{"continous": true}).JobID()].record.Unknown = []string{"n"}
			r.atRest()
		}, "S40b"},
		{"without a field that its job names", func(r *rig) {
			s := r.o.shadows[r.document("doc", nil).JobID()]
			s.record.Unknown = append(s.record.Unknown, "continous")
			r.atRest()
		}, "S40b"},
		{"whose job is over, and does not follow", func(r *rig) {
			s := r.o.shadows[r.document("doc", map[string]any{
				"_replication_state": "failed", "_replication_state_reason": "because",
			}).JobID()]
			s.record.Unknown = nil
			r.atRest()
		}, ""},
		{"with the marks of another replicator", func(r *rig) {
			j := r.document("doc", nil)
			_, bodies := r.w.View().Store().Docs.Reads(j.Tenant().Instance(), "doc")
			rows, err := r.w.View().Present().GetRange(bodies, kv.RangeOptions{})
			if err != nil || len(rows) != 1 {
				r.t.Fatal(rows, err)
			}
			body := bytes.Replace(rows[0].Value, []byte(`"n":`), []byte(`"_replication_id":"x","n":`), 1)
			r.set(rows[0].Key, body)
			r.atRest()
		}, "S40a"},
	})
}
