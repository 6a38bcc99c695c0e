package oracle

import (
	"testing"
	"time"

	"couchrelay/core/explain"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

// three makes three jobs by requests, of which the last becomes another one as change has it, and returns the last.
func (r *rig) three(change ...func(tx kv.Tx, s *jobstore.Store, id string) error) (id string) {
	for _, target := range []string{"b1", "b2", "b3"} {
		r.pass(time.Second)
		id = r.request(map[string]any{"target": world.URL("s2", target)})
	}
	for _, c := range change {
		r.commit(nil, func(tx kv.Tx) error { return c(tx, r.w.View().Store(), id) })
	}
	return id
}

func TestExplanations(t *testing.T) {
	type change = func(tx kv.Tx, s *jobstore.Store, id string) error
	var r *rig
	var lock jobs.Lock
	operator := func(tx kv.Tx, s *jobstore.Store) jobstore.Operator {
		return jobstore.Operator{Store: s, Tx: tx, By: "ann", Now: r.now()}
	}
	pause := func(tx kv.Tx, s *jobstore.Store, id string) error {
		_, err := operator(tx, s).Pause(id, "disks")
		return err
	}
	hold := func(tx kv.Tx, s *jobstore.Store, _ string) error {
		_, err := operator(tx, s).MakeHold(jobstore.Hold{Server: "s2"})
		return err
	}
	accept := func(tx kv.Tx, s *jobstore.Store, id string) error {
		taken, err := s.Accept(tx, "n9/1", "n9", jobs.Demand{Batch: 1, Max: 5}, r.now())
		for _, w := range taken.Work {
			if w.JobID == id {
				lock = w.Lock
			}
		}
		return err
	}
	crash := func(tx kv.Tx, s *jobstore.Store, id string) error {
		trouble := replication.Trouble{Error: "max_backoff", Reason: "why", Throttled: true}
		return s.Owned(tx, id, lock, r.now()).Crash(trouble, nil, jobstore.Turn{}, 1)
	}
	// told judges the explanation of a job after changes, and after it was made wrong.
	told := func(wrong func(*explain.Explanation), changes ...change) func(*rig) {
		return func(now *rig) {
			r = now
			r.joins("n9/1", node.Info{Name: "n9", Roles: node.AllRoles, Status: node.Up, MaxJobs: 4, Running: 2})
			id := r.three(changes...)
			x := &explanations{chronicle: r.o.chronicle}
			e := x.read(id)
			wrong(e)
			x.judge(r.o.shadows[id], e)
		}
	}
	right := func(*explain.Explanation) {}
	check(t, &explanationSubject, []case_{
		{"ready", told(right), ""},
		{"ready under a hold", told(right, hold), ""},
		{"parked by a hold", told(right, hold, accept), ""},
		{"paused", told(right, pause), ""},
		{"running", told(right, accept), ""},
		{"running, to be paused", told(right, accept, pause), ""},
		{"running under a hold", told(right, accept, hold), ""},
		{"crashed", told(right, accept, crash), ""},
		{"crashed under a hold", told(right, accept, crash, hold), ""},

		{"running, and said to be ready", told(func(e *explain.Explanation) {
			e.Why = []explain.Cause{explain.Next}
		}, accept), "S60a"},
		{"paused, and said to be ready", told(func(e *explain.Explanation) {
			e.Why = []explain.Cause{explain.Paused, explain.Next}
		}, pause), "S60a"},
		{"to be paused, and not said to stop", told(func(e *explain.Explanation) {
			e.Why = []explain.Cause{explain.Running, explain.Paused}
		}, accept, pause), "S60a"},
		{"parked by a hold, and said to wait for its time", told(func(e *explain.Explanation) {
			e.Why = []explain.Cause{explain.Returning}
		}, hold, accept), "S60a"},
		{"without words", told(func(e *explain.Explanation) { e.Why = append([]explain.Cause{}, "none") }), "S60a"},
		{"of an earlier place", told(func(e *explain.Explanation) { e.Position.Ahead = 1 }), "S60b"},
		{"of a place for a paused one", told(func(e *explain.Explanation) { e.Position = &explain.Position{} },
			pause), "S60b"},
		{"without its hold", told(func(e *explain.Explanation) { e.Holds = nil }, hold), "S60c"},
		{"under a hold that there is not", told(func(e *explain.Explanation) {
			e.Holds = []jobstore.Hold{{Server: "s3"}}
		}), "S60c"},
		{"held for no cause", told(func(e *explain.Explanation) { e.Why = append(e.Why, explain.Held) }), "S60c"},
		{"due earlier", told(func(e *explain.Explanation) { e.Due-- }, accept, crash), "S60d"},
		{"without its error", told(func(e *explain.Explanation) { e.Problem = nil }, accept, crash), "S60d"},
		{"with fewer crashes", told(func(e *explain.Explanation) { e.Problem.Count-- }, accept, crash), "S60d"},
		{"with an error without a class", told(func(e *explain.Explanation) { e.Problem.Class = "" }, accept,
			crash), "S60d"},
		{"on another node", told(func(e *explain.Explanation) { e.Node.Worker = "n2/1" }, accept), "S60d"},
		{"on a node with other slots", told(func(e *explain.Explanation) { e.Node.MaxJobs = 2 }, accept), "S60f"},
		{"on a node that runs more", told(func(e *explain.Explanation) { e.Node.Running++ }, accept), "S60f"},
		{"with the slots of no node", told(func(e *explain.Explanation) { e.Slots.MaxJobs = 0 }), "S60f"},
		{"with more nodes", told(func(e *explain.Explanation) { e.Slots.Nodes++ }), "S60f"},
		{"on no node", told(func(e *explain.Explanation) { e.Node = nil }, accept), "S60d"},
		{"of another account", told(func(e *explain.Explanation) { e.Account.Name = "_replicator" }), "S60d"},
		{"with another checkpoint", told(func(e *explain.Explanation) { e.Checkpoint = "1" }), "S60d"},
		{"starting at once without a slot",
			told(func(e *explain.Explanation) { e.Slots.Free = 0; *e.Wait = 0 }), "S60e"},
		{"with no estimate and no reason", told(func(e *explain.Explanation) { e.Wait, e.Unknown = nil, nil }),
			"S60e"},
		{"with an estimate for a paused one", told(func(e *explain.Explanation) {
			e.Wait = new(time.Duration)
			e.Unknown = nil
		}, pause), "S60e"},

		{"a job that is gone", func(r *rig) {
			id := r.three()
			r.remove(id)
			r.see(world.Ticked{})
			r.atRest()
		}, ""},
		{"a job that is gone, and explained", func(r *rig) {
			id := r.three()
			r.o.shadows[id].header = nil
			for range r.o.shadows {
				r.see(world.Ticked{})
			}
		}, "S60a"},
		{"a job that is not explained", func(r *rig) {
			r.know("job", aJob(jobstore.Record{State: jobstore.Pending}))
			r.see(world.Ticked{})
		}, "S60a"},
	})
}
