package oracle

import (
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

// lived is the record of a running job that a request has changed as it should.
func lived(r *rig, q node.Request) jobstore.Record {
	at := r.now()
	rec := jobstore.Record{
		Database: "a/_replicator", DocID: "doc", RepID: "rep",
		Created: at - 2, LastStart: at - 1, LastUpdated: at,
	}
	events := func(types ...string) {
		for _, t := range types {
			rec.History = append(rec.History, jobstore.Event{Type: t, At: at})
		}
	}
	switch q := q.(type) {
	case node.Accept:
		rec.State, rec.Node, rec.LastStart = jobstore.Running, q.Node, at
		events("started")
	case node.Record:
		rec.State, rec.Node = jobstore.Running, "n1"
	case node.Requeue:
		rec.State, rec.Stats = jobstore.Pending, *q.Stats
		events("pending", "stopped")
	case node.Complete:
		rec.State, rec.Result = jobstore.Completed, q.End.Result
		rec.Stats = jobstore.StatsOf(q.End.Info)
		events("stopped")
	case node.Fail:
		rec.State, rec.ErrorCount = jobstore.Failed, 1
		rec.Error, rec.Reason = q.Trouble.Error, q.Trouble.Reason
		events("crashed")
	case node.Crash:
		rec.State, rec.ErrorCount = jobstore.Crashing, 1
		rec.Error, rec.Reason = q.Trouble.Error, q.Trouble.Reason
		rec.Throttled = q.Trouble.Throttled
		events("crashed")
	}
	return rec
}

func TestLife(t *testing.T) {
	running := jobstore.Record{
		State: jobstore.Running, Node: "n1", RepID: "rep", Database: "a/_replicator", DocID: "doc",
	}
	stats := &jobstore.Stats{DocsRead: 3}
	trouble := replication.Trouble{Error: "db_not_found", Reason: "gone"}
	accept, record := node.Accept{Worker: "n2/1", Node: "n2"}, node.Record{Held: held}
	requeue := node.Requeue{Held: held, Stats: stats}
	end := replication.End{Cause: replication.Completed, Result: []byte(`{}`)}
	end.Info.Counters = checkpoint.Counters{DocsRead: 3}
	complete := node.Complete{Held: held, End: end}
	fail := node.Fail{Held: held, Trouble: trouble}
	crash := node.Crash{Held: held, Trouble: trouble, Stats: &jobstore.Stats{}}
	throttled := crash
	throttled.Trouble.Throttled = true

	// after tells of a request that changed a job as it should, but for the mistake that the case adds.
	after := func(q node.Request, wrong func(*jobstore.Record)) func(*rig) {
		return func(r *rig) {
			rec := lived(r, q)
			wrong(&rec)
			s := aJob(rec)
			if a, is := q.(node.Accept); is {
				s.header.Lock = jobs.Lock{Worker: a.Worker, Batch: 1}
			}
			r.change(q, aJob(running), s)
		}
	}
	right := func(*jobstore.Record) {}
	// ordered has a job that is to start over complete, whose run has carried out the order of a moment.
	ordered := func(by instant.Time) func(*rig) {
		return func(r *rig) {
			before, q := running, complete
			before.Reset, q.Reset = 7, by
			r.change(q, aJob(before), aJob(lived(r, q)))
		}
	}
	check(t, &lifeSubject, []case_{
		{"accepted", after(accept, right), ""},
		{"recorded", after(record, right), ""},
		{"queued again", after(requeue, right), ""},
		{"completed", after(complete, right), ""},
		{"completed, and started over as ordered", ordered(7), ""},
		{"completed, though it is to start over", ordered(3), "S29f"},
		{"failed", after(fail, right), ""},
		{"crashed", after(crash, right), ""},
		{"crashed, throttled", after(throttled, right), ""},
		{"of another job", func(r *rig) {
			r.change(node.Requeue{Held: node.Held{JobID: "another"}}, aJob(running), aJob(running))
		}, ""},

		{"stopped on a node", after(requeue, func(a *jobstore.Record) { a.Node = "n1" }), "S7j"},
		{"another replication with old numbers", after(record, func(a *jobstore.Record) {
			a.RepID, a.Stats.DocsRead = "another", 1
		}), "S16c"},
		{"another replication from the start", after(record, func(a *jobstore.Record) {
			a.RepID = "another"
		}), ""},
		{"over, edited, with old numbers", func(r *rig) {
			before := running
			before.State, before.Stats.DocsRead = jobstore.Completed, 1
			edited := before
			edited.RepID = ""
			r.change(nil, aJob(before), aJob(edited))
		}, ""},
		{"stopped with other numbers", after(requeue, func(a *jobstore.Record) {
			a.Stats.DocsRead = 2
		}), "S16e"},
		{"completed with other numbers", after(complete, func(a *jobstore.Record) {
			a.Stats.DocsRead = 2
		}), "S16e"},
		{"crashed before it began", after(node.Crash{Held: held, Trouble: trouble}, func(a *jobstore.Record) {
			a.Stats.DocsRead = 7
		}), ""},
		{"accepted by another node", after(accept, func(a *jobstore.Record) { a.Node = "n1" }), "S29e"},
		{"accepted at another time", after(accept, func(a *jobstore.Record) { a.LastStart++ }), "S29e"},
		{"accepted without history", after(accept, func(a *jobstore.Record) { a.History = nil }), "S29f"},
		{"a history that is too long", after(accept, func(a *jobstore.Record) {
			a.History = append(a.History, make([]jobstore.Event, 20)...)
		}), "S29f"},
		{"stopped, and not told", after(requeue, func(a *jobstore.Record) {
			a.History = a.History[:1]
		}), "S29f"},
		{"changed at another time", after(record, func(a *jobstore.Record) { a.LastUpdated-- }), "S29g"},
		{"an error without crashes", after(record, func(a *jobstore.Record) { a.Error = "oops" }), "S29h"},
		{"an error after a crash", after(record, func(a *jobstore.Record) {
			a.Error, a.ErrorCount = "oops", 1
		}), ""},
		{"completed with crashes", after(complete, func(a *jobstore.Record) { a.ErrorCount = 1 }), "S29h"},
		{"another reason", after(fail, func(a *jobstore.Record) { a.Reason = "who knows" }), "S29i"},
		{"another error", after(crash, func(a *jobstore.Record) { a.Error = "oops" }), "S29i"},
		{"throttled, and not told", after(throttled, func(a *jobstore.Record) {
			a.Throttled = false
		}), "S29i"},
		{"another result", after(complete, func(a *jobstore.Record) { a.Result = []byte(`[]`) }), "S29j"},
		{"a document's job that fails at once", after(crash, func(a *jobstore.Record) {
			a.State = jobstore.Failed
		}), "S29l"},
		{"a request's job that is tried again", after(crash, func(a *jobstore.Record) {
			a.Database = ""
		}), "S29l"},
		{"a request's job that was throttled", after(throttled, func(a *jobstore.Record) {
			a.Database = ""
		}), ""},
	})
}

// What users order or edit leaves what a job tells of its past, and its wait after a crash.
func TestLifeGoesOn(t *testing.T) {
	events := func(n int, types ...string) (all []jobstore.Event) {
		for _, name := range types {
			all = append(all, jobstore.Event{Type: name})
		}
		for i := range n {
			all = append(all, jobstore.Event{Type: "started", At: instant.Time(n - i)})
		}
		return all
	}
	// ordered has a user change a job that waits after a crash, with a history of so many events.
	ordered := func(had int, change func(*shadow)) func(*rig) {
		return func(r *rig) {
			job := func() *shadow {
				s := aJob(jobstore.Record{State: jobstore.Crashing, ErrorCount: 2, Error: "oops", History: events(had)})
				s.header.State, s.header.Due = jobs.Pending, 99
				return s
			}
			after := job()
			change(after)
			r.change(nil, job(), after)
		}
	}
	tells := func(told []jobstore.Event) func(*rig) {
		return ordered(20, func(s *shadow) { s.record.History = told })
	}
	check(t, &lifeSubject, []case_{
		{"nothing", ordered(3, func(*shadow) {}), ""},
		{"one event more", ordered(3, func(s *shadow) { s.record.History = events(3, "paused") }), ""},
		{"without those before", ordered(3, func(s *shadow) { s.record.History = events(0, "paused") }), "S29q"},
		{"in place of the last", ordered(3, func(s *shadow) { s.record.History = events(2, "paused") }), "S29q"},
		{"a history that is full", tells(append(events(0, "paused"), events(20)[:19]...)), ""},
		{"a full one, and more left out", tells(append(events(0, "paused"), events(20)[:18]...)), "S29q"},
		{"a crash less", ordered(3, func(s *shadow) { s.record.ErrorCount-- }), "S29r"},
		{"a crash more", ordered(3, func(s *shadow) { s.record.ErrorCount++ }), "S29r"},
		{"another reason", ordered(3, func(s *shadow) { s.record.Reason = "paused" }), "S29r"},
		{"a shorter wait", ordered(3, func(s *shadow) { s.header.Due = 98 }), "S29r"},
		{"a longer wait", ordered(3, func(s *shadow) { s.header.Due = 100 }), "S29r"},
		{"none any more", ordered(3, func(s *shadow) { s.header.Due = 0 }), "S29r"},
		{"none any more, as ordered", ordered(3, func(s *shadow) {
			s.header.Due, s.record.History = 0, events(3, "retried")
		}), ""},
	})
}

// A job forgets its vanished workers once it has run for the health threshold, and not before.
func TestLifeForgetsVanishedWorkers(t *testing.T) {
	after := func(ran time.Duration) func(*rig) {
		return func(r *rig) {
			rec := lived(r, node.Record{})
			rec.LastStart = r.now().Add(-ran)
			s := aJob(rec)
			s.header.Lost = 1
			r.change(node.Record{Held: held}, aJob(rec), s)
		}
	}
	check(t, &lifeSubject, []case_{
		{"at the threshold", after(2 * time.Minute), ""},
		{"beyond", after(2*time.Minute + time.Second), "S29m"},
	})
}

func TestLifeOfRuns(t *testing.T) {
	says := func(r *rig, run *world.Run, cause replication.Cause, result string) {
		r.see(world.RunSaidEnd{Run: run, End: replication.End{Cause: cause, Result: []byte(result)}})
	}
	fresh := func(written int64) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.o.of[run].lookup.fresh = true
			info := replication.Info{Written: 2}
			info.DocsWritten = written
			r.see(world.RunProgressed{Run: run, Info: info})
		}
	}
	wrote := func(r *rig) *world.Run {
		run := r.run(nil)
		known := r.o.of[run]
		known.saving.made.session, known.counts.rows = "a", 1
		return run
	}
	trouble := func(word, reason string) func(*rig) {
		return func(r *rig) {
			reply := peer.Reply{Failure: kind(peer.TimedOut)}
			r.crashes(r.run(nil), peer.DiffRevs{}, reply, replication.Trouble{Error: word, Reason: reason})
		}
	}
	check(t, along(&lifeSubject, &savingKept), []case_{
		{"counts its own", fresh(2), ""},
		{"counts another's too", fresh(5), "S16d"},
		{"goes on from a checkpoint", func(r *rig) {
			info := replication.Info{}
			info.DocsWritten = 5
			r.see(world.RunProgressed{Run: r.run(nil), Info: info})
		}, ""},
		{"had nothing to do", func(r *rig) {
			says(r, r.run(nil), replication.Completed, `{"no_changes":true,"session_id":"b"}`)
		}, ""},
		{"had nothing to do, and says otherwise", func(r *rig) {
			says(r, r.run(nil), replication.Completed, `{}`)
		}, "S29k"},
		{"answers with its log", func(r *rig) {
			says(r, wrote(r), replication.Completed, `{"session_id":"a"}`)
		}, ""},
		{"answers with another log", func(r *rig) {
			says(r, wrote(r), replication.Completed, `{"session_id":"b"}`)
		}, "S29k"},
		{"answers without the log that it found under an older id", func(r *rig) {
			s := r.looksIn(nil)
			s.puts(peer.Target, s.log("a", from, nil))
			r.o.of[s.run].counts.rows = 1
			says(r, s.run, replication.Completed, `{}`)
		}, ""},
		{"answers nothing", func(r *rig) { says(r, wrote(r), replication.Completed, ``) }, "S29k"},
		{"crashes for a reason", trouble("timeout", "GET http://s/: timeout"), ""},
		{"crashes for no error", trouble("", "GET http://s/: timeout"), "S29s"},
		{"crashes for an error of two words", trouble("timed out", "GET http://s/: timeout"), "S29s"},
		{"crashes for no reason", trouble("timeout", ""), "S29s"},
		{"is not completed", func(r *rig) { says(r, wrote(r), replication.Stopped, ``) }, ""},
	})
}
