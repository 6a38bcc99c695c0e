package oracle

import (
	"testing"
	"time"

	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
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
		r.call(run, peer.ReadChanges{Since: "0"})
		return run, last
	}
	stalled := func(r *rig, run *world.Run, through peer.Seq) {
		end := replication.End{
			Cause: replication.Crashed, Trouble: replication.Trouble{Error: "stalled"},
			Info: replication.Info{ThroughSeq: through},
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
	check(t, along(&feedSubject, &stallSubject), []case_{
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
		{"silent", silent(nil, timeout, nothing), ""},
		{"silent with a filter", silent(filtered, long, nothing), ""},
		{"silent on a node that stood still", silent(nil, long, func(r *rig, _ *world.Run) {
			r.node(1).StandStill(time.Minute)
		}), ""},
		{"silent while a document is copied", silent(nil, long, func(r *rig, run *world.Run) {
			r.call(run, peer.CopyDoc{})
		}), ""},
		{"silent at the end", silent(nil, long, func(r *rig, run *world.Run) {
			r.does(run, peer.ReadChanges{}, ended("7"))
			r.call(run, peer.ReadChanges{Since: "7", Wait: true})
		}), ""},
	})
}
