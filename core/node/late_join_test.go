package node

import (
	"testing"
	"time"
)

// TestLateJoin: a node asks for a lease while the store is away, and is answered when that comes back. The lease
// counts from when the question was sent. If it is nearly over, the node asks again, and loses none.
func TestLateJoin(t *testing.T) {
	for away := time.Second; away < 30*time.Second; away += 1700 * time.Millisecond {
		for _, some := range []int{0, 3} {
			w := newWorld(t)
			w.putMany(some, true)
			n := w.start("n", nil)
			w.pass(time.Minute)
			n.hold = func(q Request) bool {
				_, beats := q.(Beat)
				_, joins := q.(Join)
				return beats || joins
			}
			for count(n.notes, "lease_lost") == 0 {
				w.pass(100 * time.Millisecond)
			}
			w.pass(away)
			n.hold = nil
			for _, a := range n.held {
				n.step(n.perform(a))
			}
			w.pass(time.Minute)
			if count(n.notes, "lease_lost") > 1 || n.Running() != some {
				t.Errorf("%s away, %d jobs of %d: %v", away, n.Running(), some, n.texts)
			}
			w.audit()
		}
	}
}
