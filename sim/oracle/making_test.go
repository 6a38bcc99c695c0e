package oracle

import (
	"testing"

	"couchrelay/core/peer"
)

func TestMaking(t *testing.T) {
	source, target := peer.Open{Side: peer.Source}, peer.Open{Side: peer.Target}
	check(t, along(&makingSubject), []case_{
		{"a target made after the source was opened", func(r *rig) {
			run := r.run(nil)
			r.does(run, source, peer.Opened{})
			r.call(run, peer.Create{})
		}, ""},
		{"a target made first", func(r *rig) { r.call(r.run(nil), peer.Create{}) }, "S81"},
		{"a target made while the source is asked", func(r *rig) {
			run := r.run(nil)
			r.call(run, source)
			r.call(run, peer.Create{})
		}, "S81"},
		{"a target made after the source refused", func(r *rig) {
			run := r.run(nil)
			r.fails(run, source, status(401))
			r.call(run, peer.Create{})
		}, "S81"},
		{"a target made after itself was opened", func(r *rig) {
			run := r.run(nil)
			r.does(run, target, peer.Opened{})
			r.call(run, peer.Create{})
		}, "S81"},
		{"a target made after the source of another run was opened", func(r *rig) {
			r.does(r.run(nil), source, peer.Opened{})
			r.call(r.run(nil), peer.Create{})
		}, "S81"},
	})
}
