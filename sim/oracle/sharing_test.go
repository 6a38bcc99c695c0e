package oracle

import (
	"encoding/json"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// order has a request put an order in force, whatever an operator wants.
func (r *rig) order(q node.Request, o schedule.Order) {
	row, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.commit(q, func(tx kv.Tx) error { tx.Set(r.w.View().Store().Keys.Order, row); return nil })
}

// share has an operator put settings in force, which the store has or not.
func (r *rig) share(c jobstore.Sharing, stored bool) {
	r.see(world.SharingAsked{})
	if stored {
		r.commit(nil, func(tx kv.Tx) error { return r.w.View().Store().Share(tx, c, r.now()) })
	}
	r.see(world.SharingInForce{Sharing: c})
}

func TestSharing(t *testing.T) {
	fifo := jobstore.DefaultSharing()
	fifo.Policy, fifo.Shares = schedule.FIFO, map[string]int64{anAccount: 400}
	decay := schedule.Decay{Since: 1_800_000_000_000_000, HalfLife: 30 * time.Minute}
	// jumps has the clock of decay be changed by a node so that it shows so many half-lives more.
	jumps := func(passed float64) func(*rig) {
		return func(r *rig) {
			r.order(node.Tune{}, schedule.Order{Decay: decay})
			other := decay
			other.Passed += int64(passed * aHalfLife)
			r.order(node.Tune{}, schedule.Order{Decay: other})
		}
	}
	fixed := func(halfLife time.Duration) func(*rig) {
		return func(r *rig) {
			r.order(node.Tune{}, schedule.Order{
				Forgetting: schedule.Forgetting{Interval: time.Minute}, PriorityCoeff: 500_000,
				Decay: schedule.Decay{HalfLife: halfLife},
			})
		}
	}
	// noted has the store have the clock of decay as of now.
	noted := func(r *rig) {
		order, _ := r.w.View().Store().Order(r.w.View().Present())
		order.Decay = order.Decay.Changed(r.now(), order.Decay.HalfLife)
		r.order(nil, order)
	}
	// auto has the order of auto in force for so long, with a half-life.
	auto := func(halfLife, since time.Duration) func(*rig) {
		return func(r *rig) {
			c := jobstore.DefaultSharing()
			r.share(c, true)
			order, _ := r.w.View().Store().Order(r.w.View().Present())
			order.Decay = order.Decay.Changed(r.now(), halfLife)
			r.order(nil, order)
			r.pass(since)
			r.atRest()
		}
	}
	check(t, &sharingSubject, []case_{
		{"settings as they were", func(r *rig) { r.atRest() }, ""},
		{"settings in force", func(r *rig) { r.share(fifo, true); r.atRest() }, ""},
		{"settings that are not in force", func(r *rig) {
			noted(r)
			r.share(fifo, false)
			r.atRest()
		}, "S10g"},
		{"settings that are asked for again", func(r *rig) {
			r.share(fifo, false)
			r.see(world.SharingAsked{})
			r.atRest()
		}, ""},
		{"other shares", func(r *rig) {
			r.share(fifo, true)
			r.set(r.w.View().Store().Keys.Shares.Pack("another"), []byte{1, 0, 0, 0, 0, 0, 0, 0})
			r.atRest()
		}, "S10g"},
		{"shares that cannot be read", func(r *rig) {
			r.share(fifo, true)
			r.set(r.w.View().Store().Keys.Shares.Pack(1), []byte{1, 0, 0, 0, 0, 0, 0, 0})
			r.atRest()
		}, "S3a"},
		{"an order that cannot be read", func(r *rig) {
			r.set(r.w.View().Store().Keys.Order, []byte("?"))
		}, "S3a"},
		{"a clock that goes on", jumps(0), ""},
		{"a clock that jumps", jumps(0.01), "S10e"},
		{"a half-life as fixed", fixed(time.Minute), ""},
		{"another half-life", fixed(time.Minute + time.Second), "S10f"},
		{"auto", auto(time.Hour, time.Hour), ""},
		{"auto, long ago", auto(time.Hour, 2*time.Hour), "S10s"},
		{"auto, too short", auto(30*time.Minute, 32*time.Minute), "S10f"},
		{"auto, too short at first", auto(30*time.Minute, time.Minute), ""},
	})
}
