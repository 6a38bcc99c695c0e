package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

func TestLists(t *testing.T) {
	change := func(r *rig, f func(tx kv.Tx, k jobstore.Keys)) {
		r.commit(nil, func(tx kv.Tx) error { f(tx, r.w.View().Store().Keys); return nil })
	}
	readAll := func(r *rig) {
		for range 20 * listedEvery {
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Jobs.Signal.Pack(0), 1) })
			r.see(world.Ticked{})
		}
	}
	check(t, &listSubject, []case_{
		{"a job", func(r *rig) { r.request(nil); r.atRest() }, ""},
		{"no job", func(r *rig) { r.atRest() }, ""},
		{"a job that no list has", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Index.Range()) })
			r.atRest()
		}, "S41a"},
		{"a job that is listed, and is not known", func(r *rig) {
			delete(r.o.shadows, r.request(nil))
			r.atRest()
		}, "S41a"},
		{"a job that runs, and is listed as pending", func(r *rig) {
			s := r.o.shadows[r.request(nil)]
			s.header.State, s.header.Lock = jobs.Running, jobs.Lock{Worker: "w", Batch: 1}
			r.atRest()
		}, "S41a"},
		{"a job that is paused, and is listed as pending", func(r *rig) {
			r.o.shadows[r.request(nil)].header.Lot = "paused"
			r.atRest()
		}, "S41a"},
		{"a job that crashed, and is listed as pending", func(r *rig) {
			r.o.shadows[r.request(nil)].record.State = jobstore.Crashing
			r.atRest()
		}, "S41a"},
		{"a job that was given back, and is listed as pending", func(r *rig) {
			r.o.shadows[r.request(nil)].record.State = jobstore.Running
			r.atRest()
		}, ""},
		{"a job of another server", func(r *rig) {
			r.o.shadows[r.request(nil)].record.Target = "http://elsewhere:5984/a"
			r.atRest()
		}, "S41a"},
		{"a job of another user", func(r *rig) {
			r.o.shadows[r.request(nil)].record.User = "another"
			r.atRest()
		}, "S41a"},
		{"a job that is not counted", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Tally.Range()) })
			r.atRest()
		}, "S41b"},
		{"a store that gets no index", func(r *rig) {
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.Set(k.Reindex, nil) })
			r.unsettled()
		}, "L17"},
		{"a store with an index", (*rig).unsettled, ""},
		{"a list that is read after enough commits", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Index.Range()) })
			readAll(r)
		}, "S41a"},
		{"lists of a store that has no index yet", func(r *rig) {
			r.request(nil)
			change(r, func(tx kv.Tx, k jobstore.Keys) {
				tx.ClearRange(k.Index.Range())
				tx.Set(k.Reindex, nil)
			})
			readAll(r)
		}, ""},
	})
}

// TestIndexBesideOlder: the index of a store is made when no node of an earlier release has a lease, as far as what
// makes it has read.
func TestIndexBesideOlder(t *testing.T) {
	for _, c := range []struct {
		name   string
		node   int  // that has the lease; the first one is of an earlier release
		leaves bool // before the index is made
		breaks bool
	}{
		{"an older node", 1, false, true},
		{"one that has left", 1, true, false},
		{"a node of this release", 2, false, false},
	} {
		config := world.Default()
		config.Older = 1
		r := newRigIn(t, config, &listSubject)
		lease := r.w.View().Store().Keys.Jobs.Worker.Pack(r.node(c.node).Worker())
		change := func(f func(tx kv.Tx)) {
			r.commit(nil, func(tx kv.Tx) error {
				_, err := tx.ReadVersion()
				f(tx)
				return err
			})
		}
		change(func(tx kv.Tx) { tx.Set(lease, []byte("L")) })
		if c.leaves {
			change(func(tx kv.Tx) { tx.Clear(lease) })
		}
		change(func(tx kv.Tx) { tx.Clear(r.w.View().Store().Keys.Reindex) })
		if v := r.o.Violation(); (v != nil && v.ID == "S41f") != c.breaks {
			t.Errorf("%s: %v", c.name, v)
		}
	}
}

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://A/b": "a:80", "https://a/": "a:443", "http://u:p@a:81/b": "a:81", "": "",
	} {
		if got := hostOf(url); got != want {
			t.Errorf("%s: %q", url, got)
		}
	}
}
