package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

func TestCosts(t *testing.T) {
	page := func(rows int) peer.Changes {
		got := peer.Changes{End: true}
		for range rows {
			got.Rows = append(got.Rows, peer.Change{Seq: "1", ID: "a", Revs: []string{"1-a"}})
		}
		return got
	}
	// does has a run of batches of ten send a request so often, between others and its end.
	does := func(times int, op peer.Op, result peer.Result) func(*rig) {
		return func(r *rig) {
			run := r.run(map[string]any{"worker_batch_size": 10, "worker_processes": 1, "http_connections": 3})
			r.does(run, peer.Open{}, peer.Opened{})
			for range times {
				r.does(run, op, result)
			}
			r.ends(run, replication.Completed, replication.Info{})
		}
	}
	read, compare := peer.ReadChanges{Limit: 10}, peer.DiffRevs{Docs: []peer.DocRevs{{ID: "a"}}}
	check(t, along(&counterSubject, &costSubject), []case_{
		{"full pages", does(30, read, page(10)), ""},
		{"short pages", does(30, read, page(3)), ""},
		{"pages of one row", does(100, peer.ReadChanges{Limit: 1}, page(1)), "S97a"},
		{"pages without rows", does(30, read, page(0)), "S97a"},
		{"pages without rows, of a sequence that moves", does(30, read, peer.Changes{End: true, LastSeq: "1"}), ""},
		{"compares what nobody changed", does(40, compare, peer.Diff{}), "S97a"},
		{"opens again and again", does(40, peer.Open{}, peer.Opened{}), "S97a"},
		{"reads logs again and again", does(40, peer.GetLocal{ID: "a"}, peer.Local{}), "S97a"},
		{"saves again and again", does(40, peer.Commit{}, peer.Committed{}), "S97a"},
		{"copies alone", does(40, peer.CopyDoc{ID: "a"}, peer.Copied{}), "S97a"},
		{"copies alone for a new target", func(r *rig) {
			run := r.run(nil)
			r.does(run, peer.Open{Side: peer.Target}, peer.Opened{UpdateSeq: `"0-x"`})
			for range 40 {
				r.does(run, peer.ReadChanges{Limit: 1}, page(1))
				r.does(run, peer.CopyDoc{ID: "a"}, peer.Copied{})
			}
			r.ends(run, replication.Completed, replication.Info{})
		}, ""},
		{"reads in bulk what nobody changed", does(40, peer.FetchDocs{}, peer.Fetched{}), "S97a"},
		{"writes nothing", does(40, peer.WriteDocs{}, peer.Written{}), "S97a"},
		{"after an error", func(r *rig) {
			run := r.run(nil)
			r.fails(run, peer.Open{}, &peer.Failure{Kind: peer.TimedOut})
			for range 20 {
				r.does(run, peer.Open{}, peer.Opened{})
			}
			r.ends(run, replication.Completed, replication.Info{})
		}, ""},
		{"looks after its databases for an hour", func(r *rig) {
			run := r.run(map[string]any{"continuous": true})
			for range 30 {
				r.does(run, peer.Open{}, peer.Opened{})
				r.does(run, peer.Open{Side: peer.Target}, peer.Opened{})
				r.pass(2 * time.Minute)
			}
			r.ends(run, replication.Stopped, replication.Info{})
		}, ""},
	})
}
