package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

func TestLocks(t *testing.T) {
	start := func(r *rig, number int, worker string) {
		r.runOf(r.node(number), jobstore.Work{
			JobID: "job", Lock: jobs.Lock{Worker: worker}, Replication: r.replication(nil), Record: &jobstore.Record{},
		})
	}
	check(t, &lockSubject, []case_{
		{"one run", func(r *rig) { start(r, 1, "n1/1") }, ""},
		{"two nodes under one lock", func(r *rig) { start(r, 1, "n1/1"); start(r, 2, "n1/1") }, "S1"},
		{"one node under two locks", func(r *rig) { start(r, 1, "n1/1"); start(r, 1, "n1/1-2") }, "S1"},
		{"a write for a job that is not there", func(r *rig) {
			held := node.Held{JobID: "job", Lock: jobs.Lock{Worker: "n1/1"}}
			r.commit(node.Complete{Held: held}, func(tx kv.Tx) error {
				tx.Set(r.w.View().Store().Keys.Jobs.Job.Pack("job", 0), nil)
				return nil
			})
		}, "S2"},
	})
}
