package oracle

import (
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestControl(t *testing.T) {
	rec := jobstore.Record{
		State: jobstore.Pending, Source: world.URL("s1", "a1"), Target: world.URL("s2", "b1"),
		History: []jobstore.Event{{Type: "added"}},
	}
	paused := rec
	paused.Pause = &jobstore.Pause{}
	running := rec
	running.State = jobstore.Running
	// obeyed has a job, and then a user who is told that an order is carried out.
	obeyed := func(v world.Verb, is jobstore.Record, then func(r *rig)) func(*rig) {
		return func(r *rig) {
			r.pass(time.Second)
			r.know("job", aJob(is))
			r.see(world.Ordered{Verb: v, ID: "job", At: r.now()})
			r.see(world.Obeyed{Verb: v, ID: "job", Changed: true, Asked: r.now(), At: r.now()})
			then(r)
		}
	}
	given := func(r *rig) { r.change(node.Accept{}, aJob(paused), aJob(running)) }
	asks := func(v world.Verb) func(*rig) {
		return func(r *rig) { r.see(world.Ordered{Verb: v, ID: "job", At: r.now()}) }
	}
	all := func(steps ...func(*rig)) func(*rig) {
		return func(r *rig) {
			for _, do := range steps {
				do(r)
			}
		}
	}
	ticks := func(r *rig) { r.see(world.Ticked{}) }
	hold := func(server string) func(*rig) {
		return func(r *rig) {
			r.pass(time.Second)
			r.see(world.HoldMade{ID: "server:" + server, Server: server, Asked: r.now()})
		}
	}
	// stored has a hold on s2 be stored, or taken out of the store.
	stored := func(kind ryw.Kind) func(*rig) {
		return func(r *rig) {
			key := r.w.View().Store().Keys.Held.Pack("server:s2")
			l := landing{Landed: world.Landed{}}
			l.Mutations = []ryw.Mutation{{Kind: kind, Key: key, Value: []byte(`{"server":"s2"}`)}}
			r.o.on.landed.tell(l)
		}
	}
	lift := func(r *rig) { r.see(world.HoldAsked{ID: "server:s2"}) }
	parked := func(lot string, is jobstore.Record) *shadow {
		s := aJob(is)
		s.header.Lot = lot
		return s
	}
	byDocument := running
	byDocument.PausedByDocument = true
	// runs has a run of the job go on for so long.
	runs := func(d time.Duration) func(*rig) {
		return func(r *rig) {
			r.know("job", aJob(running))
			r.run(nil)
			ticks(r)
			r.pass(d)
			ticks(r)
		}
	}
	check(t, &controlSubject, []case_{
		{"paused and given", obeyed(world.Pause, paused, given), "S90a"},
		{"resumed and given", obeyed(world.Pause, paused, all(asks(world.Resume), given)), ""},
		{"paused by its document", func(r *rig) { r.change(node.Accept{}, aJob(rec), aJob(byDocument)) }, "S90a"},
		{"pause lost", obeyed(world.Pause, rec, ticks), "S90c"},
		{"pause kept", obeyed(world.Pause, paused, ticks), ""},
		{"lost on request", obeyed(world.Pause, rec, all(asks(world.Resume), ticks)), ""},
		{"lost to a wish that was answered first", func(r *rig) {
			r.pass(time.Second)
			r.know("job", aJob(rec))
			resumed := r.now()
			r.see(world.Ordered{Verb: world.Resume, ID: "job", At: resumed})
			r.pass(time.Second)
			paused := r.now()
			r.see(world.Ordered{Verb: world.Pause, ID: "job", At: paused})
			r.pass(time.Second)
			r.see(world.Obeyed{Verb: world.Resume, ID: "job", Changed: true, Asked: resumed, At: r.now()})
			r.see(world.Obeyed{Verb: world.Pause, ID: "job", Asked: paused, At: r.now()})
			ticks(r)
		}, ""},
		{"parked for nothing", func(r *rig) { r.know("job", parked("paused", rec)); ticks(r) }, "S90d"},
		{"parked for a pause", func(r *rig) { r.know("job", parked("paused", paused)); ticks(r) }, ""},
		{"wait that goes on", func(r *rig) {
			waits := aJob(rec)
			waits.header.Due, waits.record.History = r.now()+5, []jobstore.Event{{Type: "retried"}}
			r.know("job", waits)
			r.see(world.Obeyed{Verb: world.Retry, ID: "job", Changed: true, Asked: r.now(), At: r.now()})
		}, "S90e"},
		{"given under a hold", all(hold("s2"), given), "S91a"},
		{"given under another hold", all(hold("s3"), given), ""},
		{"given after a hold", all(hold("s2"), lift, given), ""},
		{"given under a hold whose end a suspended node may bring", all(lift, func(r *rig) {
			r.node(1).Suspend(5 * time.Minute)
			r.pass(5 * time.Minute)
		}, hold("s2"), given), ""},
		{"given as a hold is stored", all(stored(ryw.Set), given), "S91a"},
		{"given once it is stored no more", all(stored(ryw.Set), stored(ryw.Clear), given), ""},
		{"back at once", func(r *rig) { back(r, rec, 5, 5, 5) }, "S91b"},
		{"back by and by", func(r *rig) { back(r, rec, 5, 6, 7) }, ""},
		{"held for ever", func(r *rig) { r.know("job", parked("held/server:s2", rec)); r.atRest() }, "L10"},
		{"stops in time", all(hold("s2"), runs(time.Minute)), ""},
		{"runs on under a hold", all(hold("s2"), runs(time.Hour)), "S90b"},
		{"runs on though it is paused", obeyed(world.Pause, paused, func(r *rig) {
			running := running
			running.Pause = paused.Pause
			r.know("job", aJob(running))
			r.run(nil)
			ticks(r)
			r.pass(time.Hour)
			ticks(r)
		}), "S90b"},
		{"runs on without a hold", runs(time.Hour), ""},
	})
}

// back has jobs come back that are due at these times.
func back(r *rig, rec jobstore.Record, due ...instant.Time) {
	l := landing{Landed: world.Landed{Asked: world.Asked{Request: node.Promote{}}}}
	for i, at := range due {
		id := string(rune('a' + i))
		s := aJob(rec)
		s.header = &jobs.Job{ID: id, State: jobs.Pending, Schedule: jobs.Schedule{Due: at}}
		r.know(id, s)
		l.jobs = append(l.jobs, id)
	}
	r.o.on.followed.tell(l)
}

// TestStartOver: the first run after an order to start over begins at the beginning, and those after it anywhere.
func TestStartOver(t *testing.T) {
	begins := func(order bool, since ...peer.Seq) func(*rig) {
		return func(r *rig) {
			r.pass(time.Second)
			if rec := (jobstore.Record{State: jobstore.Pending}); order {
				rec.Reset, rec.History = r.now(), []jobstore.Event{{Type: "reset"}}
				r.know("job", aJob(rec))
				r.see(world.Obeyed{Verb: world.Reset, ID: "job", Changed: true, Asked: r.now(), At: r.now()})
			}
			for _, at := range since {
				r.pass(time.Second)
				run := r.run(nil)
				source := r.db("s1", "a1")
				r.o.of[run].begin.source = source
				r.call(run, peer.ReadChanges{Since: at})
			}
		}
	}
	check(t, &controlSubject, []case_{
		{"from the beginning", begins(true, peer.Zero), ""},
		{"from elsewhere", begins(true, "5"), "S90f"},
		{"the second from elsewhere", begins(true, peer.Zero, "5"), ""},
		{"without an order", begins(false, "5"), ""},
	})
}

// TestCountersOfStart: a run that is to start over counts from 0, and any other may go on.
func TestCountersOfStart(t *testing.T) {
	begins := func(reset instant.Time, counts checkpoint.Counters) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			run.Record().Reset = reset
			run.SetInfo(replication.Info{Counters: counts})
			r.call(run, read)
		}
	}
	check(t, &controlSubject, []case_{
		{"those of before", begins(1, checkpoint.Counters{DocsRead: 1}), "S90g"},
		{"from 0", begins(1, checkpoint.Counters{}), ""},
		{"a run that goes on", begins(0, checkpoint.Counters{DocsRead: 1}), ""},
	})
}
