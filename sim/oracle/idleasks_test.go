package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

func TestIdleAsks(t *testing.T) {
	answers := func(times int, result func(i int) node.Result) func(*rig) {
		return func(r *rig) {
			for i := range times {
				r.see(world.Answered{Node: r.node(1), Result: result(i)})
			}
		}
	}
	same := func(result node.Result) func(int) node.Result { return func(int) node.Result { return result } }
	awaits := func(times int, seen func(i int) int64) func(*rig) {
		return func(r *rig) {
			for i := range times {
				r.see(world.Awaits{Node: r.node(1), Await: node.Await{Topic: node.ReadyJobs, Seen: seen(i)}})
			}
		}
	}
	check(t, &idleAskSubject, []case_{
		{"as many promotions of nothing as a minute may have", answers(200, same(node.Promoted{})), ""},
		{"one more", answers(201, same(node.Promoted{})), "B1c"},
		{"in two minutes", func(r *rig) {
			answers(200, same(node.Promoted{}))(r)
			r.pass(time.Minute)
			answers(200, same(node.Promoted{}))(r)
		}, ""},
		{"of two nodes", func(r *rig) {
			answers(200, same(node.Promoted{}))(r)
			r.see(world.Answered{Node: r.node(2), Result: node.Promoted{}})
		}, ""},
		{"when it made one job ready, of another's part", func(r *rig) {
			r.see(world.Answered{Node: r.node(1), Result: node.Promoted{Moved: 1}})
			answers(201, same(node.Promoted{}))(r)
		}, ""},
		{"when another node was faster with one job", func(r *rig) {
			r.see(world.Answered{Node: r.node(2), Result: node.Promoted{Moved: 1}})
			answers(201, same(node.Promoted{}))(r)
		}, ""},
		{"one more than that", func(r *rig) {
			r.see(world.Answered{Node: r.node(2), Result: node.Promoted{Moved: 1}})
			answers(202, same(node.Promoted{}))(r)
		}, "B1c"},
		{"promotions of jobs", answers(300, same(node.Promoted{Moved: 1})), ""},
		{"accepts of nothing while no job becomes ready", answers(201, same(node.Accepted{})), "B1c"},
		{"accepts of nothing, with a signal before each", answers(300, func(i int) node.Result {
			return node.Accepted{Signal: int64(i + 1)}
		}), ""},
		{"accepts of jobs, and of nothing between them", answers(300, func(i int) node.Result {
			return node.Accepted{Signal: 5, Work: make([]jobstore.Work, i%2)}
		}), ""},
		{"ten accepts that park one job each", answers(10, same(node.Accepted{Parked: 1})), ""},
		{"one more of these", answers(11, same(node.Accepted{Parked: 1})), "B1k"},
		{"accepts that park the one job not left over", answers(20, same(node.Accepted{Parked: 1, Left: "b"})), ""},
		{"accepts that park a job each, which has become ready", answers(20, func(i int) node.Result {
			return node.Accepted{Parked: 1, Signal: int64(i)}
		}), ""},
		{"accepts that park as many as may be taken", answers(11, same(node.Accepted{Parked: node.AcceptLimit})), ""},
		{"accepts that park a job and take others", answers(20, func(i int) node.Result {
			return node.Accepted{Parked: 1, Work: make([]jobstore.Work, i%2)}
		}), ""},
		{"lists of jobs without a call", answers(201, same(node.Owned{})), "B1c"},
		{"lists of jobs after calls", answers(300, func(i int) node.Result {
			return node.Owned{Calls: int64(i + 1)}
		}), ""},
		{"waits for the same change", awaits(202, func(int) int64 { return 1 }), "B1c"},
		{"waits for the next change", awaits(300, func(i int) int64 { return int64(i) }), ""},
	})
}
