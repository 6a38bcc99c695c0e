package oracle

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// inLot is a job in a lot, due at a time after its return and at a place.
func inLot(lot string, due instant.Time, tag float64) *shadow {
	s := aJob(jobstore.Record{State: jobstore.Pending})
	s.header.Lot, s.header.Due, s.header.Priority = lot, due, priority(0, tag)
	return s
}

// TestParkings: a user holds s2, lifts that, makes it again, while jobs come back.
func TestParkings(t *testing.T) {
	const id = "server:s2"
	made := func(r *rig) {
		r.pass(time.Second)
		asked := r.now()
		r.see(world.HoldAsked{ID: id, Made: true})
		r.pass(time.Millisecond)
		r.see(world.HoldMade{ID: id, Server: "s2", Asked: asked})
	}
	lift := func(told bool) func(*rig) {
		return func(r *rig) {
			r.pass(time.Second)
			asked := r.now()
			r.see(world.HoldAsked{ID: id})
			if r.pass(time.Millisecond); told {
				r.see(world.HoldLifted{ID: id, Asked: asked})
			}
		}
	}
	// overlapping has a user ask for the hold, which is there, while another one ends it.
	overlapping := func(r *rig) {
		made(r)
		r.pass(time.Second)
		ends := r.now()
		r.see(world.HoldAsked{ID: id})
		r.pass(time.Second)
		asked := r.now()
		r.see(world.HoldAsked{ID: id, Made: true})
		r.pass(time.Second)
		r.see(world.HoldLifted{ID: id, Asked: ends})
		r.see(world.HoldMade{ID: id, Server: "s2", Asked: asked})
	}
	moves := func(q node.Request, from, to *shadow) func(*rig) {
		return func(r *rig) { r.change(q, from, to) }
	}
	back := func(after time.Duration) func(*rig) {
		return func(r *rig) {
			r.change(node.Promote{}, inLot("held/"+id, 0, 5), inLot("", r.now().Add(after), 5))
		}
	}
	looks := func(n int) func(*rig) {
		return func(r *rig) {
			for range n {
				r.pass(time.Second)
				r.see(world.Answered{
					Node: r.node(1), Request: node.Promote{Limit: 10}, Result: node.Promoted{Moved: 9}, Since: r.now(),
				})
			}
		}
	}
	stays := func(r *rig) {
		r.know("job", inLot("held/"+id, 0, 5))
		r.see(world.Ticked{})
	}
	all := func(steps ...func(*rig)) func(*rig) {
		return func(r *rig) {
			for _, do := range steps {
				do(r)
			}
		}
	}
	hour := func(r *rig) { r.pass(time.Hour) }
	parked, another := inLot("held/"+id, 0, 5), inLot("held/x", 0, 5)
	check(t, &together, []case_{
		{"let go under a hold", all(made, back(0)), "S75a"},
		{"let go after a hold", all(made, lift(true), back(0)), ""},
		{"let go under the hold that came next", all(made, lift(true), made, back(0)), "S75a"},
		{"let go though a user ended its wait", all(made, moves(nil, parked, inLot("", 0, 5))), "S75a"},
		{"paused under a hold", all(made, moves(nil, parked, inLot("paused", 0, 5))), ""},
		{"let go as the end may come late", all(lift(false), made, back(0)), ""},
		{"let go as one end of two may come late", all(made, lift(false), lift(true), made, back(0)), ""},
		{"let go as the end came meanwhile", all(overlapping, back(0)), ""},
		{"let go though no end can come any more", all(lift(false), hour, made, back(0)), "S75a"},
		{"let go under another hold", all(made, moves(node.Promote{}, another, inLot("", 1<<62, 5))), "S75b"},
		{"back by and by", back(59 * time.Second), ""},
		{"back late", back(61 * time.Second), "S75b"},
		{"back before", back(-time.Second), "S75b"},
		{"back after its wait", moves(node.Promote{}, inLot("held/x", 1<<62, 5), inLot("", 1<<62, 5)), ""},
		{"left behind", all(made, lift(true), looks(2), stays), "S75c"},
		{"not looked for yet", all(made, lift(true), looks(1), stays), ""},
		{"held again", all(made, lift(true), made, looks(2), stays), ""},

		{"keeps its place", moves(nil, inLot("", 0, 5), inLot("paused", 0, 5)), ""},
		{"parked elsewhere", moves(nil, inLot("", 0, 5), inLot("paused", 0, 6)), "S76"},
		{"back elsewhere", moves(nil, inLot("paused", 0, 5), inLot("", 0, 6)), "S76"},
		{"back behind", under(schedule.Tags, moves(nil, inLot("paused", 0, 5), inLot("", 0, 6))), ""},
		{"back before others", under(schedule.Tags, moves(nil, inLot("paused", 0, 5), inLot("", 0, 4))), "S76"},
	})
}

// together are the invariants of holds and of what they park.
var together = subject{begin: func(c *chronicle) {
	controlSubject.begin(c)
	parkingSubject.begin(c)
}}

// TestCalls: users stop or remove a job that runs, or make a hold, while two workers live.
func TestCalls(t *testing.T) {
	runs := aJob(jobstore.Record{State: jobstore.Running})
	stops := aJob(jobstore.Record{State: jobstore.Running})
	stops.header.Stop = true
	// commits has a transaction change the job that calls these workers, and makes a hold or does not.
	commits := func(q node.Request, to *shadow, hold bool, workers ...string) func(*rig) {
		return func(r *rig) {
			keys := r.w.View().Store().Keys
			r.o.leases["n1/1"], r.o.leases["n2/1"], r.o.leases["n3/1"] = lease{}, lease{}, lease{gone: true}
			l := landing{Landed: world.Landed{Asked: world.Asked{Request: q}}}
			for _, w := range workers {
				l.Mutations = append(l.Mutations, ryw.Mutation{Key: keys.Jobs.Call.Pack(w), Value: []byte{1}})
			}
			if hold {
				made := ryw.Mutation{Key: keys.Held.Pack("server:s2"), Value: []byte("{}")}
				l.Mutations = append(l.Mutations, made)
			}
			r.o.on.jobChanged.tell(jobChange{id: "job", before: runs, after: to, landing: l})
			r.o.on.followed.tell(l)
		}
	}
	check(t, &parkingSubject, []case_{
		{"stopped", commits(nil, stops, false, "n1/1"), ""},
		{"stopped untold", commits(nil, stops, false, "n2/1"), "S77a"},
		{"removed untold", commits(nil, &shadow{}, false), "S77a"},
		{"swept up untold", commits(node.Sweep{}, &shadow{}, false), "S77a"},
		{"given back", commits(node.Requeue{}, aJob(jobstore.Record{State: jobstore.Pending}), false), ""},
		{"changed", commits(nil, runs, false), ""},
		{"held", commits(nil, runs, true, "n1/1", "n2/1"), ""},
		{"held untold", commits(nil, runs, true, "n1/1"), "S77b"},
	})
}

// TestToldOfPauses: a pause and its end, as a user's transaction leaves them.
func TestToldOfPauses(t *testing.T) {
	at := func(n instant.Time, event, by string, pause *jobstore.Pause) *shadow {
		rec := jobstore.Record{State: jobstore.Pending, LastUpdated: n}
		rec.History = []jobstore.Event{{Type: event, At: n, By: by}}
		if pause != nil {
			rec.History[0].Reason = "why"
		}
		rec.Pause = pause
		return aJob(rec)
	}
	pause := &jobstore.Pause{By: world.Requester, Reason: "why", At: 5}
	anonymous := &jobstore.Pause{Reason: "why", At: 5}
	free, paused := at(4, "added", "", nil), at(5, "paused", world.Requester, pause)
	moves := func(from, to *shadow) func(*rig) { return func(r *rig) { r.change(nil, from, to) } }
	// holds has a hold be in the store that was made by a user.
	holds := func(by string) func(*rig) {
		return func(r *rig) {
			r.pass(time.Second)
			r.commit(nil, func(tx kv.Tx) error {
				o := jobstore.Operator{Store: r.w.View().Store(), Tx: tx, By: by, Now: r.now()}
				_, err := o.MakeHold(jobstore.Hold{Server: "s2"})
				return err
			})
		}
	}
	check(t, &parkingSubject, []case_{
		{"paused", moves(free, paused), ""},
		{"paused by nothing", moves(free, at(5, "paused", world.Requester, anonymous)), "S78a"},
		{"paused at another time", moves(free, at(6, "paused", world.Requester, pause)), "S78a"},
		{"paused untold", moves(free, at(5, "added", "", pause)), "S78a"},
		{"resumed", moves(paused, at(6, "resumed", world.Requester, nil)), ""},
		{"resumed untold", moves(paused, at(6, "paused", world.Requester, nil)), "S78a"},
		{"resumed by nothing", moves(paused, at(6, "resumed", "", nil)), "S78a"},
		{"held", holds(world.Requester), ""},
		{"held by nothing", holds(""), "S78b"},
	})
}

// TestShownInLots: what users are told of jobs that wait in a lot or in none.
func TestShownInLots(t *testing.T) {
	told := func(lot string, state jobstore.State, p jobstore.Parking) func(*rig) {
		return func(r *rig) {
			shown := jobstore.View{State: state, Control: jobstore.Control{Parking: p}}
			(&views{r.o.chronicle}).checkParked("job", lot, &jobstore.Record{State: jobstore.Crashing}, shown)
		}
	}
	check(t, &viewSubject, []case_{
		{"in none", told("", jobstore.Crashing, jobstore.Parking{}), ""},
		{"paused", told("paused", jobstore.Paused, jobstore.Parking{Paused: true}), ""},
		{"paused untold", told("paused", jobstore.Crashing, jobstore.Parking{Paused: true}), "S29n"},
		{"held", told("held/server:s2", jobstore.Crashing, jobstore.Parking{HeldBy: "server:s2"}), ""},
		{"held by nothing", told("held/server:s2", jobstore.Crashing, jobstore.Parking{}), "S29n"},
		{"waits", told("behind/rep", jobstore.Crashing, jobstore.Parking{WaitsFor: "rep"}), ""},
		{"paused after that", told("", jobstore.Crashing, jobstore.Parking{Paused: true}), "S29n"},
	})
}
