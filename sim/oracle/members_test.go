package oracle

import (
	"testing"
	"time"

	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// infoOf is the news that a node of the rig has to tell now.
func infoOf(r *rig, number int) node.Info {
	p := r.node(number)
	return node.Info{
		Indexes: true,
		Name:    p.Title(), Roles: p.Roles(), Status: node.Up, MaxJobs: 10, Running: p.Running(),
		ActivityTimeout: 20 * time.Second, Seen: p.Clock().Wall,
	}
}

func TestWhatNodesTell(t *testing.T) {
	beat := func(r *rig, id uint64) node.Effect {
		return ask(id, node.Beat{Worker: "n1/1", Info: infoOf(r, 1)})
	}
	maintenance := func(r *rig) node.Event {
		s := r.node(1).Settings()
		s.Maintenance = true
		return node.Configure{Settings: s}
	}
	check(t, &memberSubject, []case_{
		{"the truth", func(r *rig) { r.step(node.Wake{}, beat(r, 1)) }, ""},
		{"the truth of before, when it joins", func(r *rig) {
			q := node.Join{Worker: "n1/1", Info: infoOf(r, 1)}
			r.pass(time.Second)
			r.step(node.Wake{}, ask(1, q))
		}, "L5c"},
		{"the truth of before, in a heartbeat", func(r *rig) {
			late := beat(r, 1)
			r.node(1).Occupy(1)
			r.step(node.Wake{}, late)
		}, "L5c"},
		{"that it is up, when it drains", func(r *rig) {
			r.node(1).Leave()
			r.step(node.Drain{}, beat(r, 1))
		}, "L5c"},
		{"that it is up, when it joins before it hears of maintenance", func(r *rig) {
			r.step(maintenance(r), ask(1, node.Join{Worker: "n1/1", Info: infoOf(r, 1)}))
		}, ""},
		{"that it is in maintenance", func(r *rig) {
			r.step(maintenance(r))
			info := infoOf(r, 1)
			info.Status = node.InMaintenance
			r.step(node.Wake{}, ask(1, node.Beat{Info: info}))
		}, ""},

		{"nothing of a change while it told others", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(maintenance(r))
			r.step(done(1, node.Beaten{}))
		}, "L5a"},
		{"of a change while it told others", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(maintenance(r))
			info := infoOf(r, 1)
			info.Status = node.InMaintenance
			r.step(done(1, node.Beaten{}), ask(2, node.Beat{Info: info}))
		}, ""},
		{"nothing of a change while it told others, and leaves", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.node(1).Leave()
			r.step(node.Drain{})
			r.step(done(1, node.Beaten{}))
		}, ""},
		{"of one run in two seconds at the latest", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(done(1, node.Beaten{}))
			r.node(1).Occupy(1)
			r.step(node.Wake{})
			r.pass(time.Second)
			r.step(node.Wake{})
		}, ""},
		{"of its first run too late", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(done(1, node.Beaten{}))
			r.node(1).Occupy(1)
			r.pass(1001 * time.Millisecond)
			r.step(node.Wake{})
		}, "L5g"},
		{"of its first run late, since the heartbeat before has no answer", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.node(1).Occupy(1)
			r.pass(time.Minute)
			r.step(node.Wake{})
		}, ""},
		{"of one run more than nine late", func(r *rig) {
			r.node(1).Occupy(9)
			r.step(node.Wake{}, beat(r, 1))
			r.step(done(1, node.Beaten{}))
			r.node(1).Occupy(10)
			r.pass(time.Minute)
			r.step(node.Wake{})
		}, ""},
		{"of one run more than seven late", func(r *rig) {
			r.node(1).Occupy(7)
			r.step(node.Wake{}, beat(r, 1))
			r.step(done(1, node.Beaten{}))
			r.node(1).Occupy(8)
			r.pass(time.Minute)
			r.step(node.Wake{})
		}, "L5g"},
		{"of each run at once", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(done(1, node.Beaten{}))
			r.node(1).Occupy(1)
			r.pass(500 * time.Millisecond)
			r.step(node.Wake{}, beat(r, 2))
		}, "B1j"},
		{"of each run at once, and before it failed to", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(failed(1))
			r.pass(200 * time.Millisecond)
			r.step(node.Wake{}, beat(r, 2))
			r.step(done(2, node.Beaten{}))
			r.pass(200 * time.Millisecond)
			r.step(node.Wake{}, beat(r, 3))
		}, ""},
		{"of a run, and of maintenance at once", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.step(done(1, node.Beaten{}))
			r.step(maintenance(r))
			info := infoOf(r, 1)
			info.Status = node.InMaintenance
			r.step(node.Wake{}, ask(2, node.Beat{Info: info}))
		}, ""},
		{"nothing of another number of runs", func(r *rig) {
			r.step(node.Wake{}, beat(r, 1))
			r.node(1).Occupy(1)
			r.step(done(1, node.Beaten{}))
		}, ""},
	})
}

func TestHeartbeats(t *testing.T) {
	beat := func(r *rig, id uint64) {
		r.step(node.Wake{}, ask(id, node.Beat{Worker: "n1/1", Info: infoOf(r, 1)}))
	}
	check(t, &memberSubject, []case_{
		{"one that failed is repeated within a second", func(r *rig) {
			beat(r, 1)
			r.step(failed(1))
			r.pass(time.Second)
			beat(r, 2)
		}, ""},
		{"one that failed is repeated later", func(r *rig) {
			beat(r, 1)
			r.step(failed(1))
			r.pass(1001 * time.Millisecond)
			beat(r, 2)
		}, "S26a"},
		{"one that failed is repeated later, after a pause of the node", func(r *rig) {
			beat(r, 1)
			r.step(failed(1))
			r.pass(time.Millisecond)
			r.node(1).StandStill(time.Minute)
			r.pass(time.Minute)
			beat(r, 2)
		}, ""},
		{"one that succeeded is repeated later", func(r *rig) {
			beat(r, 1)
			r.step(done(1, node.Beaten{}))
			r.pass(5 * time.Second)
			beat(r, 2)
		}, ""},

		{"a call is not looked into", func(r *rig) {
			beat(r, 1)
			r.step(done(1, node.Beaten{Calls: 1}))
		}, "S4a"},
		{"a call is looked into", func(r *rig) {
			beat(r, 1)
			r.step(done(1, node.Beaten{Calls: 1}), ask(2, node.ListOwned{}))
			r.step(done(2, node.Owned{Calls: 1}))
			r.pass(5 * time.Second)
			beat(r, 3)
			r.step(done(3, node.Beaten{Calls: 1}))
		}, ""},
		{"a call comes after the last look", func(r *rig) {
			beat(r, 1)
			r.step(node.Wake{}, ask(2, node.ListOwned{}))
			r.step(done(2, node.Owned{}))
			r.step(done(1, node.Beaten{Calls: 1}))
		}, "S4a"},
		{"a call comes during a look", func(r *rig) {
			beat(r, 1)
			r.step(node.Wake{}, ask(2, node.ListOwned{}))
			r.step(done(1, node.Beaten{Calls: 1}))
		}, ""},
		{"a call to a node that drains", func(r *rig) {
			beat(r, 1)
			r.node(1).Leave()
			r.step(done(1, node.Beaten{Calls: 1}))
		}, ""},
		{"a call of an earlier lease", func(r *rig) {
			beat(r, 1)
			r.step(node.Wake{}, ask(2, node.Join{Worker: "n1/1-2", Info: infoOf(r, 1)}))
			r.step(done(1, node.Beaten{Calls: 1}))
		}, ""},
	})
}

func TestRenamedNodes(t *testing.T) {
	for _, c := range []struct {
		name       string
		namesakes  int
		number     int
		is, breaks string
	}{
		{"the only one of its name", 0, 1, "n1/1", "L5b"},
		{"the older of two", 1, 1, "n1/1", "L5b"},
		{"the younger of two", 1, 2, "n2/1", ""},
		{"the younger of two, to another name", 1, 2, "relay", "L5b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := world.Default()
			config.Namesakes = c.namesakes
			r := newRigIn(t, config, &memberSubject)
			r.see(world.NodeStepped{
				Node: r.node(c.number), Event: node.Wake{}, Effects: []node.Effect{node.Rename{Name: c.is}},
			})
			r.breaks(c.breaks)
		})
	}
}

func TestRegistry(t *testing.T) {
	check(t, &memberSubject, []case_{
		{"all nodes", func(r *rig) {
			r.joins("n1/1", infoOf(r, 1))
			r.joins("n2/1-2", infoOf(r, 2))
			r.unsettled()
		}, ""},
		{"a node is missing", func(r *rig) { r.joins("n1/1", infoOf(r, 1)); r.unsettled() }, "L5d"},
		{"a node is missing, and leaves", func(r *rig) {
			r.joins("n1/1", infoOf(r, 1))
			r.node(2).Leave()
			r.unsettled()
		}, ""},
		{"an earlier life", func(r *rig) {
			r.joins("n1/0", infoOf(r, 1))
			r.joins("n1/1", infoOf(r, 1))
			r.joins("n2/1", infoOf(r, 2))
			r.unsettled()
		}, "L5d"},
		{"under another name", func(r *rig) {
			r.joins("n1/1", infoOf(r, 1))
			r.joins("n2/1", infoOf(r, 1))
			r.unsettled()
		}, "L5d"},
		{"in maintenance that is over", func(r *rig) {
			info := infoOf(r, 2)
			info.Status = node.InMaintenance
			r.joins("n1/1", infoOf(r, 1))
			r.joins("n2/1", info)
			r.unsettled()
		}, "L5d"},
	})
}
