package oracle

import (
	"testing"
	"time"

	"couchrelay/core/ratelimit"
	"couchrelay/sim/world"
)

func TestQuiet(t *testing.T) {
	key := ratelimit.Key{Endpoint: "http://s1", Method: "GET"}
	// wished has a server ask for a minute's quiet, and a node send something later.
	wished := func(after time.Duration, sends func(*world.Sends)) func(*rig) {
		return func(r *rig) {
			n := r.node(1)
			r.see(world.Wished{Node: n, Key: key, Until: n.Steady().Add(time.Minute)})
			r.pass(after)
			f := world.Sends{Node: n, Key: key, Asked: n.Steady()}
			if sends != nil {
				sends(&f)
			}
			r.see(f)
		}
	}
	check(t, &quietSubject, []case_{
		{"sent after the quiet", wished(time.Minute, nil), ""},
		{"sent in the quiet", wished(59*time.Second, nil), "S20a"},
		{"on its way when the server asked", wished(59*time.Second, func(f *world.Sends) {
			f.Asked = f.Asked.Add(-time.Minute)
		}), ""},
		{"sent with another method", wished(0, func(f *world.Sends) { f.Key.Method = "PUT" }), ""},
		{"held back ten minutes later", wished(11*time.Minute, func(f *world.Sends) { f.Held = 1 }), ""},
		{"held back later still", wished(11*time.Minute+1000, func(f *world.Sends) { f.Held = 1 }), "S20b"},
		{"sent in the quiet by the node's next life", func(r *rig) {
			wished(0, func(f *world.Sends) { f.Asked = 0 })(r)
			r.see(world.NodeChanged{Node: r.node(1), State: world.NodeUp})
			r.see(world.Sends{Node: r.node(1), Key: key, Asked: r.node(1).Steady()})
		}, ""},
	})
}

// TestClosed is about a server that answers 429 again and again, and maybe takes a request after that.
func TestClosed(t *testing.T) {
	key := ratelimit.Key{Endpoint: "http://s1", Method: "GET"}
	wished := func(r *rig, quiet time.Duration) {
		r.see(world.Wished{Node: r.node(1), Key: key, Until: r.node(1).Steady().Add(quiet)})
	}
	sends := func(held time.Duration) func(*rig) {
		return func(r *rig) {
			r.see(world.Sends{Node: r.node(1), Key: key, Asked: r.node(1).Steady(), Held: held})
		}
	}
	withheld := func(wait time.Duration) func(*rig) {
		return func(r *rig) { r.see(world.Withheld{Node: r.node(1), Key: key, Wait: wait}) }
	}
	welcomed := func(r *rig) { r.see(world.Welcomed{Node: r.node(1), Key: key}) }
	// after has so many answers 429 come, one in a gap, and then others see what happens.
	after := func(answers int, gap time.Duration, others ...func(*rig)) func(*rig) {
		return func(r *rig) {
			for range answers {
				r.pass(gap)
				wished(r, 0)
			}
			for _, tell := range others {
				tell(r)
			}
		}
	}
	quiet := func(d time.Duration) func(*rig) { return func(r *rig) { wished(r, d) } }
	pass := func(d time.Duration) func(*rig) { return func(r *rig) { r.pass(d) } }
	s, us := time.Second, time.Microsecond
	check(t, &quietSubject, []case_{
		{"one too early", after(40, s, pass(24*s), sends(0)), "S20c"},
		{"one in time", after(40, s, pass(25*s), sends(0)), ""},
		{"one in time after a burst", after(40, s, pass(25*s-80*us*1000), sends(0)), ""},
		{"two in that time", after(40, s, pass(25*s), sends(0), pass(s), sends(0)), "S20c"},
		{"one that was held back before", after(40, s, pass(s), sends(s)), ""},
		{"two when the pause is forgotten", after(40, s, pass(51*s), sends(0), sends(0)), ""},
		{"two before that", after(40, s, pass(49*s), sends(0), sends(0)), "S20c"},
		{"one after 39", after(39, s, pass(s), sends(0)), ""},
		{"one after answers of which one counts", after(40, 50*time.Millisecond, pass(s), sends(0)), ""},
		{"one after the pause was forgotten", after(20, s, pass(46*s), after(20, s, pass(s), sends(0))), ""},
		{"one after a request was taken", after(40, s, welcomed, pass(s), sends(0)), ""},

		{"withheld after 39", after(39, s, withheld(s)), "S20d"},
		{"withheld after 40", after(40, s, withheld(25*s)), ""},
		{"withheld for longer", after(40, s, withheld(25*s+us)), "S20d"},
		{"withheld when the next is due", after(40, s, pass(25*s), withheld(us)), "S20d"},
		{"withheld behind one that was sent", after(40, s, pass(25*s), sends(0), withheld(25*s)), ""},
		{"withheld after answers that are forgotten", after(39, s, pass(51*s), after(1, 0, withheld(s))), "S20d"},
		{"withheld for a long quiet", after(0, s, quiet(26*s), withheld(26*s)), ""},
		{"withheld for longer than it", after(0, s, quiet(26*s), withheld(27*s)), "S20d"},
		{"withheld for a short quiet", after(0, s, quiet(25*s), withheld(25*s)), "S20d"},

		{"held back after a request was taken", after(9, s, pass(13*s), welcomed, pass(us), sends(1)), "S20e"},
		{"withheld after a request was taken", after(40, s, pass(13*s), welcomed, withheld(s)), "S20d"},
		{"held back after one was taken sooner", after(9, s, pass(12*s), welcomed, pass(us), sends(1)), ""},
		{"held back for another answer", after(9, s, pass(13*s), welcomed, quiet(0), pass(us), sends(1)), ""},
		{"held back since before", after(9, s, pass(13*s), welcomed, sends(1)), ""},
		{"held back for the rest of the quiet", after(9, s, quiet(20*s), pass(13*s), welcomed, func(r *rig) {
			asked := r.node(1).Steady().Add(s)
			r.pass(7 * s)
			r.see(world.Sends{Node: r.node(1), Key: key, Asked: asked, Held: 6 * s})
		}), ""},
	})
}
