package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

func TestMoves(t *testing.T) {
	var given, kept []string // jobs of the other node and of this one, when both run as many
	for i := range 5 {
		even, now := partsOf(4, 4), partsOf(8, 0)
		given, kept = append(given, jobIn(even[1], now[0], i)), append(kept, jobIn(even[0], even[1], i))
	}
	type moves struct {
		other   int           // jobs that the other node told of, of ten
		ran     time.Duration // of the runs when the node sees the queue
		members map[string]any
		jobs    []string // that run
		stops   int      // how many of these stop
		off     bool     // rebalance
		over    int      // runs that are over and still have their slots
	}
	tell := func(m moves) func(*rig) {
		return func(r *rig) {
			s := r.node(1).Settings()
			s.MaxJobs, s.MaxChurn, s.MinRun, s.Rebalance = 10, 5, time.Minute, !m.off
			r.node(1).SetSettings(s)
			r.node(1).Occupy(8 + m.over)
			r.node(2).Occupy(0)
			r.step(node.Configure{Settings: s})
			r.fleetTells(8, m.other)
			var runs []*world.Run
			for _, id := range m.jobs {
				runs = append(runs, r.runAt(id, 7, m.members))
			}
			for range 20 { // so that the other node is not silent
				r.pass(m.ran / 20)
				r.fleetTells(8, m.other)
			}
			r.survey(fifoOrder, idle, nil, giveWay(runs[:m.stops]...)...)
		}
	}
	const rested, young = 10 * time.Minute, 9 * time.Minute
	// stays has two jobs give way, and not stop, and then so many more.
	stays := func(more int) func(*rig) {
		return func(r *rig) {
			tell(moves{0, rested, nil, given, 2, false, 0})(r)
			another := r.o.process(r.node(1)).runs[2].Run
			r.survey(fifoOrder, idle, nil, giveWay(another)[:more]...)
		}
	}
	back := func(after time.Duration, worker string) func(*rig) {
		return func(r *rig) {
			tell(moves{0, rested, nil, given, 2, false, 0})(r)
			lock := jobs.Lock{Worker: worker}
			r.store(nil, jobs.Job{ID: given[0], State: jobs.Pending}, jobstore.Record{State: jobstore.Pending})
			r.pass(after)
			r.step(node.Wake{}, ask(9003, node.Accept{Worker: "n1/1", Demand: jobs.Demand{Max: 1}}))
			r.store(node.Accept{Worker: worker}, jobs.Job{ID: given[0], State: jobs.Running, Lock: lock},
				jobstore.Record{State: jobstore.Running})
		}
	}
	// atRest has the first node, which runs eight jobs of ten, keep them when it had the time to move some.
	atRest := func(list []string, before int, off bool) func(*rig) {
		return func(r *rig) {
			tell(moves{0, rested, nil, list, 0, true, 0})(r)
			o := r.o.process(r.node(1))
			o.applied.Rebalance = !off
			r.o.process(r.node(2)).outlook.worker = "n2/1"
			e := r.o.Uneven()
			if e.Lasts > 0 == off {
				t.Errorf("moves take %s", e.Lasts)
			}
			if e.Lasts > 0 {
				r.pass(e.Lasts)
				r.o.moves += before
				r.o.CheckEven(e)
			}
		}
	}
	all := subject{begin: func(c *chronicle) {
		partSubject.begin(c)
		balanceSubject.begin(c)
	}}
	check(t, &all, []case_{
		{"two", tell(moves{0, rested, nil, given, 2, false, 0}), ""},
		{"none though all is uneven", tell(moves{0, rested, nil, given, 0, false, 0}), "S33g"},
		{"none while slots are too many", tell(moves{0, rested, nil, given, 0, false, 3}), ""},
		{"one though two could", tell(moves{0, rested, nil, given, 1, false, 0}), "S33g"},
		{"the only one", tell(moves{0, rested, nil, append(given[:1:1], kept...), 1, false, 0}), ""},
		{"three at once", tell(moves{0, rested, nil, given, 3, false, 0}), "S33c"},
		{"young ones", tell(moves{0, young, nil, given, 1, false, 0}), "S33b"},
		{"none that is young", tell(moves{0, young, nil, given, 0, false, 0}), ""},
		{"one-shots", tell(moves{0, rested, oneShot, given, 1, false, 0}), "S33b"},
		{"while off", tell(moves{0, rested, nil, given, 1, true, 0}), "S33a"},
		{"none while off", tell(moves{0, rested, nil, given, 0, true, 0}), ""},
		{"while others run about as many", tell(moves{4, rested, nil, given, 1, false, 0}), "S33d"},
		{"none while others run about as many", tell(moves{4, rested, nil, given, 0, false, 0}), ""},
		{"and none more, as they finish a document", stays(0), ""},
		{"and more, as they finish a document", stays(1), "S33d"},
		{"of its own part", tell(moves{0, rested, nil, kept, 1, false, 0}), "S33e"},
		{"none of its own part", tell(moves{0, rested, nil, kept, 0, false, 0}), ""},
		{"for no reason", func(r *rig) {
			r.slots(2)
			r.step(node.Wake{}, giveWay(r.runAt(given[0], 7, nil))...)
		}, "S33a"},
		{"and come back", back(patience-1000, "n1/1"), "S33f"},
		{"and come back late", back(patience, "n1/1"), ""},
		{"never", atRest(given, 0, false), "L9c"},
		{"never of its own part", atRest(kept, 0, false), ""},
		{"never while off", atRest(given, 0, true), ""},
		{"more than there are too many", atRest(kept, 5, false), "L9d"},
		{"as many as there are too many", atRest(kept, 4, false), ""},
		{"and come to the other", back(0, "n2/1"), ""},
	})
}
