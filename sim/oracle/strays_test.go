package oracle

import (
	"testing"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

func TestStrays(t *testing.T) {
	limit := 4*20*time.Second + 5*time.Second + 2*time.Minute
	stray := func(r *rig, d time.Duration) {
		r.see(world.Ticked{})
		r.pass(d)
		r.see(world.Ticked{})
	}
	check(t, &straySubject, []case_{
		{"a run with its job", func(r *rig) { take(r, "n1/1", 0); r.run(nil); stray(r, time.Hour) }, ""},
		{"a run without its job", func(r *rig) { r.run(nil); stray(r, limit) }, ""},
		{"a run without its job for too long", func(r *rig) {
			r.run(nil)
			stray(r, limit+time.Second)
		}, "S4b"},
		{"a run with the job of another worker", func(r *rig) {
			take(r, "n2/1", 0)
			r.run(nil)
			stray(r, limit+time.Second)
		}, "S4b"},
		{"a run of a node that stands still", func(r *rig) {
			r.run(nil)
			r.node(1).StandStill(time.Hour)
			stray(r, limit+time.Second)
		}, ""},
		{"a run of a node that stood still meanwhile", func(r *rig) {
			r.run(nil)
			r.see(world.Ticked{})
			r.pass(limit)
			r.node(1).StandStill(time.Second)
			r.see(world.Ticked{})
			r.pass(time.Minute)
			stray(r, limit)
		}, ""},
	})
}

func TestTransactions(t *testing.T) {
	fails := func(c kv.Code) func(*rig) {
		return func(r *rig) {
			r.see(world.AskFailed{Node: r.node(1), Request: node.Promote{}, Err: kv.NewError(c)})
		}
	}
	takes := func(q node.Request, trips int, rights ...string) func(*rig) {
		return func(r *rig) {
			var l world.Landed
			l.Request, l.Trips = q, trips
			for _, id := range rights {
				key := r.o.w.Store().Keys.Claim.Pack(id)
				l.Mutations = append(l.Mutations, ryw.Mutation{Kind: ryw.Set, Key: key})
			}
			r.see(l, world.Stepped{})
		}
	}
	reads := func(trips int) func(*rig) {
		return func(r *rig) {
			r.see(world.Answered{Node: r.node(1), Request: node.ListOwned{}, Result: node.Owned{}, Trips: trips})
		}
	}
	check(t, &transactionSubject, []case_{
		{"repeated without effect", func(r *rig) { r.see(world.Repeated{Request: node.Promote{}}) }, ""},
		{"repeated with effect", func(r *rig) {
			r.see(world.Repeated{Request: node.Promote{}, Changed: true})
		}, "S17c"},
		{"too large", fails(kv.TransactionTooLarge), "S17d"},
		{"a conflict", fails(kv.NotCommitted), "S17d"},
		{"no answer in time", fails(kv.TransactionTimedOut), ""},
		{"as many round trips as may be", takes(node.Promote{}, 8), ""},
		{"a round trip more", takes(node.Promote{}, 9), "S17g"},
		{"more for rights that it hands over", takes(node.Promote{}, 14, "a", "b"), ""},
		{"too many for them", takes(node.Promote{}, 15, "a", "b"), "S17g"},
		{"a list of own jobs", reads(5), ""},
		{"a list that reads job by job", reads(6), "S17g"},
		{"a user who writes", takes(nil, 20), ""},
		{"a user who reads row by row", takes(nil, 21), "S17g"},
	})
}
