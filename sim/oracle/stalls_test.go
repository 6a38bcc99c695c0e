package oracle

import (
	"testing"
	"time"

	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

func TestStalls(t *testing.T) {
	timeout := node.DefaultSettings().StallTimeout
	// begin has a run read its feed, which has two changes to come.
	begin := func(r *rig, members map[string]any) (*world.Run, peer.Seq) {
		db := r.db("s1", "a1")
		db.Server.Numeric = true
		last := r.edit(db, "a", "b")
		run := r.run(members)
		r.does(run, peer.Open{}, peer.Opened{UpdateSeq: last})
		r.call(run, peer.ReadChanges{Since: "0"})
		return run, last
	}
	stalled := func(r *rig, run *world.Run, through peer.Seq) {
		end := replication.End{
			Cause: replication.Crashed, Trouble: replication.Trouble{Error: "stalled"},
			Info: replication.Info{ThroughSeq: through, ChangesPending: 99},
		}
		r.see(world.RunSaidEnd{Run: run, Event: replication.Wake{}, End: end})
	}
	filtered := map[string]any{"selector": map[string]any{}}
	// after has a run be stalled after the timeout, and something happen a second before.
	after := func(what func(*rig, *world.Run)) func(*rig) {
		return func(r *rig) {
			run, _ := begin(r, nil)
			r.pass(timeout - time.Second)
			what(r, run)
			r.pass(time.Second)
			stalled(r, run, "0")
		}
	}
	// silent has a run read its feed and hear nothing for a time.
	silent := func(members map[string]any, wait time.Duration, what func(*rig, *world.Run)) func(*rig) {
		return func(r *rig) {
			run, _ := begin(r, members)
			what(r, run)
			r.pass(wait)
			r.see(world.Ticked{})
		}
	}
	nothing := func(*rig, *world.Run) {}
	long := timeout + stallSlack + time.Second
	later := &peer.Failure{Kind: peer.Status, Status: 429, RetryAfter: time.Minute}
	check(t, along(&feedSubject, &backlogSubject, &stallSubject), []case_{
		{"stalled", after(nothing), ""},
		{"stalled after rows", after(func(r *rig, run *world.Run) {
			r.does(run, peer.ReadChanges{}, rows("1", "a"))
		}), "S36a"},
		{"stalled after a write", after(func(r *rig, run *world.Run) {
			r.does(run, peer.WriteDocs{}, peer.Written{})
		}), "S36a"},
		{"stalled after a copy that failed", after(func(r *rig, run *world.Run) {
			r.fails(run, peer.CopyDoc{}, status(503))
		}), "S36a"},
		{"stalled after a copy that was given up", after(func(r *rig, run *world.Run) {
			r.see(world.RunCancels{Run: run, Op: peer.CopyDoc{}})
		}), "S36a"},
		{"stalled after 429", after(func(r *rig, run *world.Run) {
			r.fails(run, peer.ReadChanges{}, status(429))
		}), "S36a"},
		{"stalled after a failure", after(func(r *rig, run *world.Run) {
			r.fails(run, peer.ReadChanges{}, status(503))
		}), ""},
		{"stalled after its last checkpoint", after(func(r *rig, run *world.Run) {
			r.does(run, peer.PutLocal{}, peer.LocalWritten{})
		}), ""},
		{"stalled with all done", func(r *rig) {
			run, last := begin(r, nil)
			r.does(run, peer.ReadChanges{}, rows(last, "a", "b"))
			r.pass(timeout)
			stalled(r, run, last)
		}, "S36b"},
		{"stalled with a change that came before the source was opened", func(r *rig) {
			db := r.db("s1", "a1")
			begins, run := db.Last(), r.run(nil)
			r.does(run, peer.Open{}, peer.Opened{UpdateSeq: r.edit(db, "a")})
			r.call(run, peer.ReadChanges{Since: begins})
			r.pass(timeout)
			stalled(r, run, begins)
		}, ""},
		{"stalled with such a change, which was purged", func(r *rig) {
			db := r.db("s1", "a1")
			begins, run := db.Last(), r.run(nil)
			r.does(run, peer.Open{}, peer.Opened{UpdateSeq: r.edit(db, "a")})
			peers.Purge(db, "a")
			r.call(run, peer.ReadChanges{Since: begins})
			r.pass(timeout)
			stalled(r, run, begins)
		}, ""},
		{"stalled with a change that came later", func(r *rig) {
			db, run := r.db("s1", "a1"), r.run(nil)
			begins := db.Last()
			r.does(run, peer.Open{}, peer.Opened{UpdateSeq: begins})
			r.call(run, peer.ReadChanges{Since: begins})
			r.does(run, peer.Open{}, peer.Opened{UpdateSeq: r.edit(db, "a")})
			r.pass(timeout)
			stalled(r, run, begins)
		}, "S36b"},
		{"stalled with a later change that the source counted", func(r *rig) {
			db, run := r.db("s1", "a1"), r.run(nil)
			begins := db.Last()
			r.does(run, peer.Open{}, peer.Opened{UpdateSeq: begins})
			r.call(run, peer.ReadChanges{Since: begins})
			r.edit(db, "a")
			r.does(run, peer.CountPending{Since: begins}, peer.Pending{Count: 1})
			r.pass(timeout)
			stalled(r, run, begins)
		}, ""},
		{"stalled with changes that the last answer told of", func(r *rig) {
			run, last := begin(r, map[string]any{"continuous": true})
			whole := ended(last, "a", "b")
			whole.Pending = 1
			r.does(run, peer.ReadChanges{}, whole)
			r.call(run, peer.ReadChanges{Since: last})
			r.pass(timeout)
			stalled(r, run, last)
		}, ""},
		{"stalled with rows that are not done", func(r *rig) {
			run, last := begin(r, filtered)
			r.does(run, peer.ReadChanges{}, rows(last, "a", "b"))
			r.pass(timeout)
			stalled(r, run, "0")
		}, ""},
		{"stalled with a filter", func(r *rig) {
			run, _ := begin(r, filtered)
			r.pass(timeout)
			stalled(r, run, "0")
		}, "S36b"},
		{"silent for long", silent(nil, long, nothing), "S36c"},
		{"silent for long, and had its log late", func(r *rig) {
			r.db("s1", "a1").Server.Numeric = true
			last := r.edit(r.db("s1", "a1"), "a")
			run := r.run(nil)
			r.does(run, peer.Open{}, peer.Opened{UpdateSeq: last})
			r.pass(long)
			r.does(run, peer.GetLocal{}, peer.Local{})
			r.call(run, peer.ReadChanges{Since: "0"})
			r.see(world.Ticked{})
		}, ""},
		{"silent", silent(nil, timeout, nothing), ""},
		{"silent with a filter", silent(filtered, long, nothing), ""},
		{"silent on a node that stood still", silent(nil, long, func(r *rig, _ *world.Run) {
			r.node(1).StandStill(time.Minute)
		}), ""},
		{"silent while a document is copied", silent(nil, long, func(r *rig, run *world.Run) {
			r.call(run, peer.CopyDoc{})
		}), ""},
		{"silent while a look waits as its source asks", silent(nil, long, func(r *rig, run *world.Run) {
			r.fails(run, peer.Open{}, later)
			r.does(run, peer.PutLocal{}, peer.LocalWritten{})
		}), ""},
		{"silent for long after that", silent(nil, later.RetryAfter+long, func(r *rig, run *world.Run) {
			r.fails(run, peer.Open{}, later)
		}), "S36c"},
		{"silent at the end", silent(nil, long, func(r *rig, run *world.Run) {
			r.does(run, peer.ReadChanges{}, ended("7"))
			r.call(run, peer.ReadChanges{Since: "7", Wait: true})
		}), ""},
	})
}
