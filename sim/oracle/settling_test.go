package oracle

import (
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

// busy has no slot be free, so that no job could run.
func busy(r *rig) {
	for number := 1; number <= 2; number++ {
		n := r.node(number)
		s := n.Settings()
		s.MaxJobs = 0
		n.SetSettings(s)
		n.Occupy(0)
	}
}

func TestSettling(t *testing.T) {
	// job has a real job of a request stand as a case says, while no slot is free.
	job := func(members map[string]any, change func(*rig, *shadow)) func(*rig) {
		return func(r *rig) {
			busy(r)
			s := r.o.shadows[r.request(members)]
			change(r, s)
			r.atRest()
		}
	}
	// rotated has a job give its slot back after the healing.
	rotated := func(r *rig, members map[string]any) {
		busy(r)
		r.pass(r.w.End().Sub(r.now()) + time.Second)
		run := r.runOf(r.node(1), jobstore.Work{
			JobID: r.request(members), Replication: r.replication(members), Record: &jobstore.Record{},
		})
		r.ends(run, replication.Stopped, replication.Info{})
		r.see(world.RunEnded{Run: run})
		r.atRest()
	}
	over := func(_ *rig, s *shadow) { s.record.State, s.header.State = jobstore.Completed, jobs.Finished }
	as := func(*rig, *shadow) {}
	continuous := map[string]any{"continuous": true, "doc_ids": []string{"none"}}
	check(t, &settlingSubject, []case_{
		{"nothing to do", func(r *rig) { r.atRest() }, ""},
		{"a job that could run", func(r *rig) { r.request(continuous); r.atRest() }, "L2"},
		{"a job that has no slot", job(continuous, as), ""},
		{"slots in use without runs", func(r *rig) { r.node(1).Occupy(2); r.atRest() }, "L6h"},

		{"over", job(nil, over), ""},
		{"to be removed", job(nil, func(r *rig, s *shadow) {
			over(r, s)
			s.record.Expires = r.now().Add(-removedLate - 1)
		}), ""},
		{"to be removed for long", job(nil, func(r *rig, s *shadow) {
			over(r, s)
			s.record.Expires = r.now().Add(-removedLate) - 1
		}), "L4h"},
		{"of a database that was deleted", job(nil, func(r *rig, s *shadow) {
			over(r, s)
			s.record.Instance, r.o.dropped["gone"] = "gone", r.now().Add(-removedLate)
		}), ""},
		{"of a database that was deleted for long", job(nil, func(r *rig, s *shadow) {
			over(r, s)
			s.record.Instance, r.o.dropped["gone"] = "gone", r.now().Add(-removedLate)-1
		}), "L4i"},
		{"due", job(continuous, func(r *rig, s *shadow) { s.header.Due = r.now().Add(-time.Minute) }), ""},
		{"due for long", job(continuous, func(r *rig, s *shadow) {
			s.header.Due = r.now().Add(-time.Minute) - 1
		}), "L4g"},
		{"running nowhere", job(continuous, func(_ *rig, s *shadow) {
			s.header.State, s.header.Lock = jobs.Running, aLock
		}), "L3d"},

		{"a one-shot that is not over", job(nil, as), "L1"},
		{"a one-shot without a source", job(map[string]any{"source": world.URL("s1", "none")}, as), ""},
		{"a one-shot without a target", job(map[string]any{"target": world.URL("s2", "none")}, as), ""},
		{"a one-shot that could make its target", job(map[string]any{
			"target": world.URL("s2", "none"), "create_target": true,
		}, as), "L1"},
		{"a filter that does not work", job(map[string]any{"filter": "none/none"}, as), ""},
		{"a document that has not arrived", job(map[string]any{"continuous": true}, as), "L1"},
		{"one that a light job has not come to", job(map[string]any{"continuous": true}, func(_ *rig, s *shadow) {
			s.record.Weight = 99
		}), ""},
		{"one that a heavy job has not come to", job(map[string]any{"continuous": true}, func(_ *rig, s *shadow) {
			s.record.Weight = 101
		}), "L1"},
		{"one that has not arrived in a turn", func(r *rig) {
			rotated(r, map[string]any{"continuous": true, "use_checkpoints": false})
		}, ""},
		{"one with checkpoints that has not arrived in a turn", func(r *rig) {
			rotated(r, map[string]any{"continuous": true})
		}, "L1"},
	})
}

func TestSettlingOfRuns(t *testing.T) {
	// runs has the first node run a job, of which the oracle knows this.
	runs := func(r *rig, s *shadow) { r.run(nil); r.know("job", s) }
	removed := func(r *rig, ago time.Duration) *shadow { return &shadow{gone: r.now().Add(-ago)} }
	check(t, &settlingSubject, []case_{
		{"runs a job that it holds", func(r *rig) {
			busy(r)
			id := r.request(map[string]any{"continuous": true, "doc_ids": []string{"none"}})
			s := r.o.shadows[id]
			s.header.State, s.header.Lock = jobs.Running, aLock
			r.runOf(r.node(1), jobstore.Work{JobID: id, Lock: aLock, Replication: r.replication(nil),
				Record: s.record})
			r.atRest()
		}, ""},
		{"runs another's", func(r *rig) {
			s := aJob(jobstore.Record{State: jobstore.Running})
			s.header.Lock = jobs.Lock{Worker: "n2/1"}
			runs(r, s)
			r.o.AtRest()
		}, "S4i"},
		{"runs what was removed just now", func(r *rig) {
			runs(r, removed(r, -time.Millisecond))
			if r.o.Unsettled() == nil {
				r.t.Error("a run whose node cannot know yet is nothing to wait for")
			}
		}, ""},
		{"runs what was removed after the healing", func(r *rig) {
			r.pass(r.w.View().End().Add(world.AwaitLimit).Sub(r.now()) + time.Second)
			runs(r, removed(r, 0))
			r.pass(ProbeLimit - time.Millisecond)
			if r.o.Unsettled() == nil {
				r.t.Error("a node hears at once")
			}
			r.pass(time.Millisecond)
			r.atRest()
		}, "S4i"},
	})
}

// A checkpoint has to cover every change that was copied, or refused by the target.
func TestSettlingOfCheckpoints(t *testing.T) {
	// runs has a node run a job whose target refused the only document of its source.
	runs := func(members map[string]any) func(*rig) {
		return func(r *rig) {
			busy(r)
			r.write(r.db("s1", "a1"), "doc")
			r.db("s2", "b1").Deny = map[string]*docs.Error{"doc": {}}
			members["continuous"] = true
			id := r.request(members)
			s := r.o.shadows[id]
			s.header.State, s.header.Lock = jobs.Running, aLock
			r.runOf(r.node(1), jobstore.Work{JobID: id, Lock: aLock, Replication: r.replication(nil),
				Record: s.record})
			r.atRest()
		}
	}
	check(t, &settlingSubject, []case_{
		{"covered by none", runs(map[string]any{"doc_ids": []string{"doc"}}), "L7"},
		{"without checkpoints",
			runs(map[string]any{"doc_ids": []string{"doc"}, "use_checkpoints": false}), ""},
		{"selected by none", runs(map[string]any{"doc_ids": []string{"another"}}), ""},
	})
}
