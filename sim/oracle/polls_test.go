package oracle

import (
	"testing"

	"couchrelay/core/peer"
	"couchrelay/sim/world"
)

// TestPolls: the same long poll counts each time that it follows soon on the one before, within one minute; other
// places and other reads do not.
func TestPolls(t *testing.T) {
	c := world.Default()
	c.Followed = 1
	for name, want := range map[string]string{
		"in one minute": "B1l", "in two": "", "of two places": "", "reads": "", "late": "",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigIn(t, c, &pollSubject)
			world.MakeFollowed(r.w)
			for i := range maxSoon + 2 {
				op := peer.ReadChanges{Since: "5", Wait: true}
				switch {
				case i == maxSoon/2 && name == "in two":
					r.pass(61e9)
				case i >= maxSoon/2 && name == "of two places":
					op.Since = "6"
				case name == "reads":
					op.Wait = false
				case name == "late":
					r.pass(soon)
				}
				r.see(world.FollowCalls{Node: r.node(1), Worker: "n1/1", Of: r.w.View().Followings()[0], Op: op})
			}
			broken := ""
			if v := r.o.Violation(); v != nil {
				broken = v.ID
			}
			if broken != want {
				t.Errorf("breaks %q, want %q", broken, want)
			}
		})
	}
}
