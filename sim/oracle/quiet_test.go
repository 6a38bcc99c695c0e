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
