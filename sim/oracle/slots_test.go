package oracle

import (
	"testing"
	"time"

	"couchrelay/core/node"
	"couchrelay/sim/world"
)

func TestStartsOfRuns(t *testing.T) {
	onlyOne := func(r *rig) {
		s := r.node(1).Settings()
		s.MaxJobs = 1
		r.node(1).SetSettings(s)
		r.node(1).Occupy(0)
	}
	maintenance := func(r *rig, on bool) {
		s := r.node(1).Settings()
		s.Maintenance = on
		r.step(node.Configure{Settings: s})
	}
	check(t, &slotSubject, []case_{
		{"one of one", func(r *rig) { onlyOne(r); r.run(nil) }, ""},
		{"two of one", func(r *rig) { onlyOne(r); r.run(nil); r.run(nil) }, "S5b"},
		{"one after the other", func(r *rig) {
			onlyOne(r)
			r.see(world.RunEnded{Run: r.run(nil)})
			r.run(nil)
		}, ""},
		{"on a node that drains", func(r *rig) { r.node(1).Leave(); r.run(nil) }, "S5c"},
		{"in maintenance", func(r *rig) { maintenance(r, true); r.run(nil) }, "S5c"},
		{"after maintenance", func(r *rig) { maintenance(r, true); maintenance(r, false); r.run(nil) }, ""},
		{"in maintenance that the node has not heard of", func(r *rig) {
			s := r.node(1).Settings()
			s.Maintenance = true
			r.node(1).SetSettings(s)
			r.run(nil)
		}, ""},
	})
	t.Run("without the role", func(t *testing.T) {
		config := world.Default()
		config.Nodes, config.FrontendOnly = 0, 1
		r := newRigIn(t, config, &slotSubject)
		r.run(nil)
		r.breaks("S5a")
	})
}

func TestStopsOfRuns(t *testing.T) {
	stop := func(r *rig) *world.Run {
		run := r.run(nil)
		r.step(node.Wake{}, node.StopRun{Run: run.ID()})
		return run
	}
	check(t, &slotSubject, []case_{
		{"in time", func(r *rig) { stop(r); r.pass(6 * time.Second); r.see(world.Ticked{}) }, ""},
		{"too late", func(r *rig) { stop(r); r.pass(7 * time.Second); r.see(world.Ticked{}) }, "L6a"},
		{"over", func(r *rig) {
			r.see(world.RunEnded{Run: stop(r)})
			r.pass(7 * time.Second)
			r.see(world.Ticked{})
		}, ""},
		{"not told to", func(r *rig) { r.run(nil); r.pass(time.Hour); r.see(world.Ticked{}) }, ""},
		{"too late in maintenance", func(r *rig) {
			r.run(nil)
			s := r.node(1).Settings()
			s.Maintenance = true
			r.step(node.Configure{Settings: s})
			r.pass(7 * time.Second)
			r.see(world.Ticked{})
		}, "L6a"},
		{"too late on a node that stood still", func(r *rig) {
			stop(r)
			r.node(1).StandStill(10 * time.Second)
			r.pass(16 * time.Second)
			r.see(world.Ticked{})
		}, ""},
		{"too late on a node that stood still long ago", func(r *rig) {
			stop(r)
			r.node(1).StandStill(10 * time.Second)
			r.pass(17 * time.Second)
			r.see(world.Ticked{})
		}, "L6a"},

		{"a worker leaves with a run", func(r *rig) {
			r.run(nil)
			r.landed(node.Retire{Worker: "n1/1"})
		}, "L6b"},
		{"a worker leaves after its run", func(r *rig) {
			r.see(world.RunEnded{Run: r.run(nil)})
			r.landed(node.Retire{Worker: "n1/1"})
		}, ""},
		{"another worker leaves", func(r *rig) { r.run(nil); r.landed(node.Retire{Worker: "n2/1"}) }, ""},
		{"a worker leaves that was given up", func(r *rig) {
			r.run(nil)
			r.o.leases["n1/1"] = lease{gone: true}
			r.landed(node.Retire{Worker: "n1/1"})
		}, ""},
	})
}
