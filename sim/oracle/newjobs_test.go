package oracle

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

func TestNewJobs(t *testing.T) {
	// made has a job be made for a document: as it should be, but for the change of the case.
	made := func(wrong func(*shadow)) func(*rig) {
		return func(r *rig) {
			at := r.now()
			s := aJob(jobstore.Record{
				State: jobstore.Pending, Database: "a/_replicator", DocID: "doc", User: world.UserOf("doc"),
				Source: world.URL("s1", "a1"), Target: world.URL("s2", "b1"),
				CheckpointInterval: 5000, RepID: "rep", BaseID: "rep", Created: at, LastUpdated: at,
				History: []jobstore.Event{{Type: "added", At: at}},
			})
			s.spec = fmt.Sprintf(`{"replication":{"Source":{"URL":%q},"Target":{"URL":%q},`+
				`"checkpoint_interval_ns":5000000000}}`,
				s.record.Source, s.record.Target)
			wrong(s)
			r.change(nil, &shadow{}, s)
		}
	}
	// again has a job be made anew in the place of one in a state.
	again := func(before jobstore.State, spec string) func(*rig) {
		return func(r *rig) {
			made(func(s *shadow) {
				old := aJob(jobstore.Record{State: before, Created: 1})
				if old.spec = spec; spec == "" {
					old.spec = s.spec
				}
				r.change(nil, old, s)
			})(r)
		}
	}
	check(t, &newJobSubject, []case_{
		{"made", made(func(*shadow) {}), ""},
		{"made in its last state", made(func(s *shadow) {
			s.record.State, s.record.History = jobstore.Failed, nil
		}), ""},
		{"made at another time", made(func(s *shadow) { s.record.LastUpdated++ }), "S29a"},
		{"made without history", made(func(s *shadow) { s.record.History = nil }), "S29a"},
		{"of another user", made(func(s *shadow) { s.record.User = "nobody" }), "S29b"},
		{"of an operator", made(func(s *shadow) { s.record.User = world.Requester }), "S29b"},
		{"of the operator who retried it", made(func(s *shadow) {
			s.record.User = world.Requester
			s.record.History = append([]jobstore.Event{{Type: "retried"}}, s.record.History...)
		}), ""},
		{"of a request", made(func(s *shadow) { s.record.Database, s.record.User = "", "nobody" }), ""},
		{"another source", made(func(s *shadow) { s.record.Source = "http://s3/a1" }), "S29c"},
		{"another interval", made(func(s *shadow) { s.record.CheckpointInterval++ }), "S29c"},
		{"made anew for another replication", again(jobstore.Running, "{}"), ""},
		{"made anew for the same", again(jobstore.Running, ""), "S22"},
		{"made anew when it was over", again(jobstore.Completed, ""), ""},
	})
}

// TestCheckpointIDs: replications that copy the same have one id for their checkpoints, and others have another.
func TestCheckpointIDs(t *testing.T) {
	// job has a job be replication id, which copies from s1 to s2 with some members more.
	job := func(name, base, id, more string) func(*rig) {
		return func(r *rig) {
			j := &jobs.Job{ID: name, State: jobs.Running}
			s := &shadow{header: j, record: &jobstore.Record{RepID: id, BaseID: base}}
			before := &shadow{header: j, record: &jobstore.Record{}}
			s.spec = `{"replication":{"source":{"url":"s1"},"target":{"url":"s2"}` + more + `}}`
			r.o.on.jobChanged.tell(jobChange{id: name, before: before, after: s})
		}
	}
	both := func(a, b func(*rig)) func(*rig) { return func(r *rig) { a(r); b(r) } }
	first := job("a", "id", "id", "")
	since, function := `,"since_seq":"7"`, `,"filter":{"kind":"function","name":"d/f"}`
	check(t, &newJobSubject, []case_{
		{"two that do the same", both(first, job("b", "id", "id", `,"worker_batch_size":7,"create_target":false`)), ""},
		{"continuous", both(first, job("b", "id", "id+continuous", `,"continuous":true`)), ""},
		{"both", job("b", "id", "id+continuous+create_target", `,"continuous":true,"create_target":true`), ""},
		{"continuous, untold", job("b", "id", "id", `,"continuous":true`), "S18j"},
		{"once, and told otherwise", job("b", "id", "id+continuous", ""), "S18j"},
		{"two that do not", both(first, job("b", "id", "id", since)), "S18j"},
		{"another since_seq", both(first, job("b", "other", "other", since)), ""},
		{"another id for the same", both(first, job("b", "other", "other", "")), "S18j"},
		{"a function that has changed", both(job("a", "id", "id", function), job("a", "other", "other", function)), ""},
		{"a function, and all", both(first, job("b", "id", "id", function)), "S18j"},
	})
}

// A new job has an id at once, unless a filter function is a part of that.
func TestNewJobsHaveIDs(t *testing.T) {
	// requested has a request make a job, with another id than that has.
	requested := func(members map[string]any, change func(*jobstore.Record)) func(*rig) {
		return func(r *rig) {
			job := r.request(members)
			made := *r.o.shadows[job]
			rec := *made.record
			made.record = &rec
			change(&rec)
			r.o.on.jobChanged.tell(jobChange{id: job, before: &shadow{header: nil}, after: &made})
		}
	}
	as := func(id string) func(*jobstore.Record) {
		return func(rec *jobstore.Record) { rec.RepID, rec.BaseID = id, id }
	}
	function := map[string]any{"filter": "d/f"}
	check(t, &newJobSubject, []case_{
		{"an id", requested(nil, func(*jobstore.Record) {}), ""},
		{"no id", requested(nil, as("")), "S18g"},
		{"no id, for a filter function", requested(function, as("")), ""},
		{"an id, for a filter function", requested(function, as("rep")), "S18g"},
	})
}

// TestJobsMadeAtOneMoment: of two requests that make a job at one moment, the last one counts.
func TestJobsMadeAtOneMoment(t *testing.T) {
	small := map[string]any{"create_target": true}
	large := map[string]any{"create_target": true, "create_target_params": map[string]any{"q": 2}}
	r := newRig(t, &newJobSubject)
	id := r.request(small)
	if other := r.request(large); other != id {
		t.Fatalf("requests for jobs %s and %s", id, other)
	}
	r.pass(time.Second)
	r.request(small)
	r.breaks("")
}
