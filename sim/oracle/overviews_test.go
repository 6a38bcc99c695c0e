package oracle

import (
	"fmt"
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

func TestOverviews(t *testing.T) {
	change := func(r *rig, f func(tx kv.Tx, k jobstore.Keys)) {
		r.commit(nil, func(tx kv.Tx) error { f(tx, r.w.View().Store().Keys); return nil })
	}
	crashed := func(r *rig) *shadow {
		s := r.o.shadows[r.request(nil)]
		s.record.State, s.record.Error = jobstore.Crashing, "timeout"
		return s
	}
	check(t, &overviewSubject, []case_{
		{"a job", func(r *rig) { r.request(nil); r.atRest() }, ""},
		{"jobs of several accounts", func(r *rig) { r.request(nil); r.request(nil); r.atRest() }, ""},
		{"no job", func(r *rig) { r.atRest() }, ""},
		{"a job that touches another server", func(r *rig) {
			r.o.shadows[r.request(nil)].record.Target = "http://elsewhere:5984/a"
			r.atRest()
		}, "S41c"},
		{"a job that crashed, and is not counted", func(r *rig) { crashed(r); r.atRest() }, "S41c"},
		{"a finished job of a request that is counted", func(r *rig) {
			r.o.shadows[r.request(nil)].record.State = jobstore.Completed
			r.atRest()
		}, "S41c"},
		{"a job without numbers", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Tally.Range()) })
			r.atRest()
		}, "S41c"},
		{"numbers of a store that has no index yet", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Tally.Range()); tx.Set(k.Reindex, nil) })
			for range overviewEvery {
				change(r, func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Jobs.Signal.Pack(0), 1) })
			}
			r.see(world.Ticked{})
		}, ""},
		{"a job that matches behind many that do not, in a store that has no index yet", func(r *rig) {
			for i := range 300 { // more than a transaction looks at
				h := jobs.Job{ID: fmt.Sprintf("!%03d", i), State: jobs.Finished}
				r.store(nil, h, jobstore.Record{State: jobstore.Completed})
			}
			r.request(nil)
			r.set(r.w.View().Store().Keys.Reindex, nil)
			r.atRest()
		}, ""},
		{"a job that is not told of in a store that has no index yet", func(r *rig) {
			s := r.o.shadows[r.request(nil)]
			r.remove(s.header.ID)
			r.know(s.header.ID, s)
			r.set(r.w.View().Store().Keys.Reindex, nil)
			r.atRest()
		}, "S41e"},
		{"an account that is not told", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Count.Range()) })
			r.atRest()
		}, "S41d"},
		{"an account with another number of jobs", func(r *rig) {
			account := r.o.shadows[r.request(nil)].record.Account()
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Count.Pack(account), 1) })
			r.atRest()
		}, "S41d"},
		{"an account that has nothing", func(r *rig) {
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Count.Pack("none"), 0) })
			r.atRest()
		}, ""},
		{"an account with other shares", func(r *rig) {
			r.o.sharing.Shares = map[string]int64{r.o.shadows[r.request(nil)].record.Account(): 7}
			r.atRest()
		}, "S41d"},
		{"a job that matches, and is not told of", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Index.Range()) })
			r.atRest()
		}, "S41e"},
	})
}
