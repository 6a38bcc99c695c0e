package oracle

import (
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

func TestSavings(t *testing.T) {
	filtered := map[string]any{"continuous": true, "filter": "app/f"}
	// last has a run save twice, the second time after a pause and something else, and then do nothing more.
	last := func(pause time.Duration, between func(*saver)) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			s.has(r.edit(r.db("s1", "a1"), "a"))
			s.saves("one")
			between(s)
			s.pass(pause)
			s.saves("two")
		}
	}
	// paced has the run go on.
	paced := func(pause time.Duration, between func(*saver)) func(*rig) {
		return func(r *rig) {
			var run *saver
			last(pause, func(s *saver) { between(s); run = s })(r)
			run.call(run.run, peer.DiffRevs{})
		}
	}
	// relisting has a run that goes on save two logs that rely on a list, and list something before the second.
	relisting := func(effects ...replication.Effect) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			list := func(_, newest map[string]any) { newest["list"] = list{"j", 1} }
			s.has(r.edit(r.db("s1", "a1"), "a"))
			s.commits()
			body := s.log("one", s.run.Info().ThroughSeq, list)
			s.puts(peer.Target, body)
			s.puts(peer.Source, body)
			s.has(r.edit(r.db("s1", "a1"), "b"))
			s.pass(time.Second)
			s.commits()
			r.see(world.RunStepped{Run: s.run, Event: replication.Wake{}, Effects: effects})
			s.puts(peer.Target, s.log("two", s.run.Info().ThroughSeq, list))
			s.call(s.run, peer.DiffRevs{})
		}
	}
	more := func(s *saver) { s.has(s.edit(s.db("s1", "a1"), "b"), "b") }
	stop := func(r *rig, s *saver) { r.step(node.Wake{}, node.StopRun{Run: s.run.ID()}) }
	// first has a run write its first checkpoint after the test's own steps.
	first := func(members map[string]any, before func(*saver)) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(members)
			s.has(r.edit(r.db("s1", "a1"), "a"))
			before(s)
			s.call(s.run, peer.PutLocal{Side: peer.Target, ID: logID,
				Body: s.log("one", s.run.Info().ThroughSeq, nil)})
		}
	}
	look := func(s *saver, rev string) { s.does(s.run, peer.GetFilter{}, peer.Filter{Rev: rev}) }
	// tells has a run that wrote a checkpoint to some sides tell of it.
	tells := func(sides ...peer.Side) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			s.has(r.edit(r.db("s1", "a1"), "a"))
			s.commits()
			at := s.run.Info().ThroughSeq
			body := s.log("one", at, nil)
			for _, side := range sides {
				s.puts(side, body)
			}
			if len(sides) == 1 { // the other request is lost on the way
				s.call(s.run, peer.PutLocal{Side: 1 - sides[0], ID: logID, Body: body})
			}
			s.tells(s.run, nil, replication.Info{CheckpointedSeq: at})
		}
	}
	// stopped has a run be stopped with more done than saved, after something went wrong.
	stopped := func(wrong func(*rig, *saver)) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			at := r.edit(r.db("s1", "a1"), "a")
			wrong(r, s)
			r.ends(s.run, replication.Stopped, replication.Info{ThroughSeq: at, CheckpointedSeq: from})
		}
	}
	// lacks has the source be asked for a change that it does not have any more.
	lacks := func(purged bool) func(*rig, *saver) {
		return func(r *rig, s *saver) {
			db := r.db("s1", "a1")
			r.edit(db, "gone")
			offers := db.OffersAfter(0, spec.Filter{}, false)
			rev := offers[len(offers)-1].Revs[0]
			if purged {
				peers.Purge(db, "gone")
			}
			stop(r, s)
			s.does(s.run, peer.FindRev{ID: "gone", Revs: []string{rev}}, peer.RevFound{})
		}
	}
	// nameless has a run be stopped so whose target answered its empty log with a status.
	nameless := func(code int) func(*rig) {
		return func(r *rig) {
			s := r.looksIn(nil)
			s.fails(s.run, peer.PutLocal{Side: peer.Target, ID: logID}, status(code))
			s.does(s.run, peer.ReadChanges{Since: from}, rows(from))
			at := r.edit(r.db("s1", "a1"), "a")
			r.ends(s.run, replication.Stopped, replication.Info{ThroughSeq: at, CheckpointedSeq: from})
		}
	}
	// rests has a one-shot that has read all make steps with a pause in between.
	rests := func(pause time.Duration, info replication.Info, end bool) func(*rig) {
		return func(r *rig) {
			run := r.run(map[string]any{})
			run.SetInfo(info)
			changes := rows(from)
			changes.End = end
			r.does(run, read, changes)
			r.pass(pause)
			r.steps(run)
		}
	}
	check(t, along(&savingSubject, &feedSubject), []case_{
		{"made durable", first(nil, (*saver).commits), ""},
		{"not made durable", first(nil, func(*saver) {}), "S11c"},
		{"one side made durable", first(nil, func(s *saver) {
			s.does(s.run, peer.Commit{Side: peer.Source}, peer.Committed{})
		}), "S11c"},
		{"filter not looked at", first(filtered, (*saver).commits), "S11d"},
		{"filter the same", first(filtered, func(s *saver) { look(s, "1-a"); s.commits() }), ""},
		{"filter another one", first(filtered, func(s *saver) {
			look(s, "1-a")
			look(s, "2-b")
			s.commits()
		}), "S11d"},
		{"more done since", first(nil, func(s *saver) {
			s.commits()
			s.has(s.edit(s.db("s1", "a1"), "b"))
		}), "S11e"},
		{"more done between two questions to the target of a source that is read only", first(nil, func(s *saver) {
			asks := peer.Commit{Side: peer.Source}
			no := peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 403}}
			s.answer(s.run, s.call(s.run, asks), asks, no)
			s.does(s.run, peer.Commit{Side: peer.Target}, peer.Committed{})
			s.has(s.edit(s.db("s1", "a1"), "b"), "b")
			s.does(s.run, peer.Commit{Side: peer.Target}, peer.Committed{})
		}), ""},
		{"saved after the interval", paced(10*time.Second, more), ""},
		{"saved too soon", paced(9*time.Second, more), "S21d"},
		{"saved soon, with a list", relisting(), "S21d"},
		{"saved soon, and something was taken off the list",
			relisting(replication.Refused{Findings: []replication.Finding{{Over: true}}}), ""},
		{"saved soon, since the list was empty for a moment",
			relisting(replication.Refused{Findings: []replication.Finding{{Failed: true}}}), ""},
		{"saved soon after an older log", func(r *rig) {
			s := r.looksIn(nil)
			older := s.log("older", r.edit(r.db("s1", "a1"), "a"), nil)
			s.does(s.run, peer.GetLocal{Side: peer.Source, ID: "older id"}, peer.Local{Found: true, Body: older})
			s.puts(peer.Source, older)
			s.does(s.run, peer.ReadChanges{Since: from}, rows(from))
			more(s)
			s.pass(time.Second)
			s.saves("one")
		}, ""},
		{"saved soon by a run that is stopped", last(time.Second, func(s *saver) {
			more(s)
			stop(s.rig, s)
		}), ""},
		{"saved soon by a run that gives up", last(time.Second, more), ""},
		{"saved soon by a run that still asks", last(time.Second, func(s *saver) {
			more(s)
			s.call(s.run, poll)
		}), "S21d"},
		{"saved soon though nothing was read", paced(20*time.Second, func(s *saver) {}), "S21d"},
		{"saved late though nothing was read", paced(100*time.Second, func(s *saver) {}), ""},
		{"due for a second", paced(11*time.Second, more), ""},
		{"due for two seconds", paced(12*time.Second, more), "S21e"},
		{"due for two seconds on a node that stood still", paced(12*time.Second, func(s *saver) {
			more(s)
			s.node(1).StandStill(time.Second)
		}), ""},
		{"two seconds at the end", rests(missingPause, replication.Info{}, true), ""},
		{"three seconds at the end", rests(3*time.Second, replication.Info{}, true), "S21f"},
		{"three seconds before the end", rests(3*time.Second, replication.Info{}, false), ""},
		{"three seconds with something to repeat",
			rests(3*time.Second, replication.Info{Waiting: "x"}, true), ""},
		{"told of both sides", tells(peer.Target, peer.Source), ""},
		{"told of one side", tells(peer.Target), "S21g"},
		{"told of none", tells(), "S21g"},
		{"told again when the source is gone", func(r *rig) {
			s := r.savesIn(nil)
			s.has(r.edit(r.db("s1", "a1"), "a"))
			s.commits()
			at := s.run.Info().ThroughSeq
			body := s.log("one", at, nil)
			s.puts(peer.Target, body)
			s.call(s.run, peer.PutLocal{Side: peer.Source, ID: logID, Body: body}) // whose answer is lost
			peers.PutLog(r.db("s1", "a1"), logID, s.log("of another run that went on from it", at, nil))
			s.tells(s.run, nil, replication.Info{CheckpointedSeq: at})
			r.w.Servers()[0].Delete("a1")
			s.tells(s.run, nil, replication.Info{CheckpointedSeq: at})
		}, ""},
		{"stopped and not saved", stopped(func(*rig, *saver) {}), "S21h"},
		{"stopped and refused", stopped(func(r *rig, s *saver) {
			stop(r, s)
			s.fails(s.run, peer.Commit{}, status(500))
		}), ""},
		{"stopped and not saved where no empty log was stored", nameless(418), ""},
		{"stopped and not saved where an empty log was redirected", nameless(302), ""},
		{"stopped and not saved where an empty log was slow", nameless(503), "S21h"},
		{"stopped and met by another run's log", stopped(func(r *rig, s *saver) {
			stop(r, s)
			got := peer.Local{Found: true, Body: s.log("another run's", from, nil)}
			s.does(s.run, peer.GetLocal{Side: peer.Target, ID: logID}, got)
		}), ""},
		{"stopped, and a change is gone that was purged", stopped(lacks(true)), ""},
		{"stopped, and a change is gone", stopped(lacks(false)), "S21h"},
		{"stopped and met by an empty log", stopped(func(r *rig, s *saver) {
			stop(r, s)
			got := peer.Local{Found: true, Body: checkpoint.Log{}.Encode(false)}
			s.does(s.run, peer.GetLocal{Side: peer.Target, ID: logID}, got)
		}), ""},
		{"a checkpoint given up", func(r *rig) {
			s := r.savesIn(nil)
			r.see(world.RunCancels{Run: s.run, ID: 1, Event: replication.Stop{}, Op: peer.PutLocal{}})
		}, "S21i"},
		{"a poll given up", func(r *rig) {
			s := r.savesIn(nil)
			r.see(world.RunCancels{Run: s.run, ID: 1, Event: replication.Stop{}, Op: poll})
		}, ""},
		{"nothing given up", func(r *rig) {
			r.see(world.RunCancels{Run: r.run(nil), ID: 1, Event: replication.Wake{}})
		}, "P1d"},
	})
}
