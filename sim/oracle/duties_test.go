package oracle

import (
	"testing"
	"time"

	"couchrelay/core/node"
)

// lookAround has the first node ask for everything that it looks for regularly, except at the queue, and have
// its answers.
func lookAround(r *rig) {
	for i, q := range []node.Request{
		node.ListLeases{}, node.Promote{}, node.Accept{Node: "n1"}, node.ListOwned{}, node.Sweep{},
	} {
		id := uint64(1000 + i)
		r.step(node.Wake{}, ask(id, q))
		r.step(done(id, node.Ok{}))
	}
}

// A lease that is lost does not end a look at the queue: the node repeats it, after half a minute in which
// nothing came and its pause.
func TestSurveyUnderWayAtJoin(t *testing.T) {
	rejoin := func(r *rig) {
		r.step(node.Start{})
		r.step(node.Wake{}, ask(1, node.Survey{}))
		r.step(node.Wake{}, ask(2, node.Join{Worker: "n1/1-2"}))
		r.step(failed(1))
		r.step(node.Wake{}, ask(3, node.Survey{}))
		r.step(failed(2))
		r.step(node.Wake{}, ask(4, node.Join{Worker: "n1/1-2"}))
		r.step(done(4, node.Ok{}))
	}
	later := func(r *rig) {
		for range 25 {
			r.pass(3 * time.Second)
			lookAround(r)
		}
	}
	check(t, &dutySubject, []case_{
		{"no answer to the look under way", func(r *rig) { rejoin(r); later(r) }, ""},
		{"it failed and is to be repeated", func(r *rig) { rejoin(r); r.step(failed(3)); later(r) }, ""},
		{"it was answered", func(r *rig) {
			rejoin(r)
			r.step(done(3, node.Surveyed{}))
			later(r)
		}, "L4d"},
	})
}
