package oracle

import (
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

func TestRequests(t *testing.T) {
	pending := jobstore.Record{
		State: jobstore.Pending, User: world.Requester,
		Source: world.URL("s1", "a1"), Target: world.URL("s2", "b1"),
	}
	// accepted has a request be accepted that was made a second ago, with a job like this.
	accepted := func(change func(r *rig, s *shadow)) func(*rig) {
		return func(r *rig) {
			rep, s := r.replication(nil), aJob(pending)
			change(r, s)
			r.know("job", s)
			r.see(world.RequestAccepted{ID: "job", Replication: rep, Made: r.now() - 1_000_000})
		}
	}
	// canceled has a request be canceled so long after its job came.
	canceled := func(after instant.Time) func(*rig) {
		return func(r *rig) {
			s := aJob(pending)
			s.came = r.now()
			r.know("job", s)
			r.see(world.RequestCanceled{ID: "job", At: s.came + after})
		}
	}
	// swept has a job be removed that was to be kept for so long.
	swept := func(q node.Request, rec jobstore.Record, left instant.Time) func(*rig) {
		return func(r *rig) {
			rec.Expires = r.now() + left
			r.change(q, aJob(rec), &shadow{})
		}
	}
	completed := jobstore.Record{State: jobstore.Completed}
	ofDocument := jobstore.Record{State: jobstore.Pending, Database: "a/_replicator"}
	answered := func(members ...map[string]any) func(*rig) {
		return func(r *rig) {
			for _, m := range members {
				r.see(world.RequestAnswered{ID: "job", Replication: r.replication(m)})
			}
		}
	}
	check(t, &requestSubject, []case_{
		{"accepted", accepted(func(*rig, *shadow) {}), ""},
		{"accepted for nothing", func(r *rig) {
			r.see(world.RequestAccepted{ID: "job", Replication: r.replication(nil)})
		}, "S3d"},
		{"removed before", accepted(func(r *rig, s *shadow) {
			s.header, s.gone = nil, r.now()-2_000_000
		}), "S3d"},
		{"removed meanwhile", accepted(func(r *rig, s *shadow) { s.header, s.gone = nil, r.now() }), ""},
		{"over before", accepted(func(r *rig, s *shadow) {
			*s = *aJob(jobstore.Record{State: jobstore.Completed, User: world.Requester,
				Source: s.record.Source, Target: s.record.Target})
			s.over = r.now() - 2_000_000
		}), "S3d"},
		{"over since", accepted(func(r *rig, s *shadow) {
			*s = *aJob(jobstore.Record{State: jobstore.Completed, User: world.Requester,
				Source: s.record.Source, Target: s.record.Target})
			s.over = r.now()
		}), ""},
		{"another user's", accepted(func(_ *rig, s *shadow) { s.record.User = "nobody" }), "S3d"},
		{"another target's", accepted(func(_ *rig, s *shadow) { s.record.Target = "http://s3/b1" }), "S3d"},

		{"asked twice", answered(nil, nil), ""},
		{"asked for something else", answered(nil, map[string]any{"continuous": true}), "S3e"},
		{"asked with a filter", answered(nil, map[string]any{"doc_ids": []string{"a"}}), "S3e"},

		{"removed in time", swept(node.Sweep{}, completed, 0), ""},
		{"removed too early", swept(node.Sweep{}, completed, 1), "S3f"},
		{"removed while it waits", swept(node.Sweep{}, pending, 0), "S3f"},
		{"a document's removed", swept(node.Sweep{}, ofDocument, 1), ""},
		{"removed by its user", swept(nil, completed, 1), ""},

		{"canceled, and there", canceled(1), "S4h"},
		{"canceled before it came", canceled(0), ""},
		{"canceled, and gone", func(r *rig) { r.see(world.RequestCanceled{ID: "job", At: r.now()}) }, ""},
	})
}
