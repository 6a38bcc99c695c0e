package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

func TestCheckpoints(t *testing.T) {
	// saved has a run save changes that have arrived on its target or not, before something else happens
	// there.
	saved := func(arrives bool, before func(*saver)) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			s.has(r.edit(r.db("s1", "a1"), "new"))
			if arrives {
				for _, offer := range r.db("s1", "a1").OffersAfter(0, s.run.Replication().Filter, false) {
					for _, rev := range offer.Revs {
						r.see(world.Refused{DB: r.db("s2", "b1"), ID: offer.ID, Rev: rev})
					}
				}
			}
			if before != nil {
				before(s)
			}
			s.saves("one")
		}
	}
	// begins has a run find logs that agree, and begin.
	begins := func(found bool, then func(r *rig, run *world.Run, agreed peer.Seq)) func(*rig) {
		return func(r *rig) {
			at := r.edit(r.db("s1", "a1"), "a")
			r.pass(time.Second)
			log := fmt.Appendf(nil, `{"session_id":"s","source_last_seq":%s,"history":[`+
				`{"session_id":"s","recorded_seq":%s,"docs_read":5}]}`, at, at)
			if found {
				peers.PutLog(r.db("s1", "a1"), logID, log)
				peers.PutLog(r.db("s2", "b1"), logID, log)
			}
			run := r.run(map[string]any{"continuous": true})
			run.Identify(logID)
			run.SetInfo(replication.Info{Counters: checkpoint.Counters{DocsRead: 5}})
			r.does(run, peer.GetLocal{ID: logID}, peer.Local{})
			then(r, run, at)
		}
	}
	// alone has a run find a log on the target that knows a source which stores none. The source may refuse to tell
	// whether it has the newest change.
	alone := func(known string, start func(at peer.Seq) peer.Seq, refused ...int) func(*rig) {
		return func(r *rig) {
			source := r.db("s1", "a1")
			at := r.edit(source, "a")
			r.pass(time.Second)
			log := fmt.Sprintf(`{"session_id":"s","source_last_seq":%s,"source_read_only":{"session_id":"",`+
				`"instance_start_time":%q,"last_id":"a","last_rev":%[3]q,"last_seq":%[1]s,`+
				`"newest_id":"a","newest_rev":%[3]q}}`,
				at, source.Start(), source.Latest("a").Rev)
			peers.PutLog(r.db("s2", "b1"), logID, []byte(strings.Replace(log, known, known[:len(known)-1]+"7", 1)))
			run := r.run(map[string]any{"continuous": true})
			run.Identify(logID)
			r.does(run, peer.GetLocal{ID: logID}, peer.Local{})
			for _, status := range refused {
				op := peer.FindRev{ID: "a", Revs: []string{"7-x"}}
				refusal := &peer.Failure{Kind: peer.Status, Status: status}
				r.answer(run, r.call(run, op), op, peer.Reply{Failure: refusal})
			}
			r.call(run, peer.ReadChanges{Since: start(at)})
		}
	}
	// asks has a run ask for the last change of a source that stores none, which gave a document a leaf that loses, or
	// was another document. restore says when the source is put back to before that, and whether it is to after it once
	// more; "noticed" is that the answer tells so.
	asks := func(options map[string]any, leaf bool, restore ...string) func(*rig) {
		return func(r *rig) {
			source := r.db("s1", "a1")
			r.edit(source, "a")
			before, winner := source.Snapshot(), source.Latest("a").Rev.String()
			if leaf {
				doc := docs.Document{ID: "a", Rev: revtree.Rev{Gen: 1, ID: fmt.Sprintf("%032x", 1)}, Body: []byte(`{}`)}
				source.Write([]docs.Edit{{Document: doc, Replicated: true}})
			} else {
				r.edit(source, "b")
			}
			peers.PutLog(r.db("s2", "b1"), logID, fmt.Appendf(nil, `{"session_id":"s","source_last_seq":0,`+
				`"source_read_only":{"last_id":"a","last_rev":%q,"last_seq":%s}}`, winner, source.Last()))
			after := source.Snapshot()
			put := func(when string) {
				if slices.Contains(restore, when) {
					source.Restore(before)
				}
				if slices.Contains(restore, "again") {
					source.Restore(after)
				}
			}
			put("before")
			run := r.run(options)
			run.Identify(logID)
			op := peer.FindRev{ID: "a", Revs: []string{winner}}
			if slices.Contains(restore, "later") {
				r.call(run, peer.ReadChanges{Since: peer.Zero})
			}
			if slices.Contains(restore, "other") {
				op.Revs = []string{"1-other"}
			}
			id := r.call(run, op)
			put("meanwhile")
			r.answer(run, id, op, peer.Reply{Result: peer.RevFound{Found: !slices.Contains(restore, "noticed")}})
		}
	}
	// movesLog has a run move the source's log from an older id, or fail to, and complete without a checkpoint.
	movesLog := func(refusal *peer.Failure) func(*rig) {
		return func(r *rig) {
			run := r.run(map[string]any{})
			run.Identify(logID)
			op := peer.PutLocal{Side: peer.Source, ID: logID, Body: []byte(`{"session_id":"s","source_last_seq":0}`)}
			r.answer(run, r.call(run, op), op, peer.Reply{Result: peer.LocalWritten{}, Failure: refusal})
			r.edit(r.db("s1", "a1"), "later")
			r.ends(run, replication.Completed, replication.Info{})
		}
	}
	// knows has a run complete whose target knows the source, which stores none, by a session.
	knows := func(session string) func(*rig) {
		return func(r *rig) {
			source := r.db("s1", "a1")
			r.edit(source, "later")
			peers.PutLog(r.db("s2", "b1"), logID, fmt.Appendf(nil, `{"session_id":"s","source_last_seq":0,`+
				`"source_read_only":{"session_id":%q,"last_id":"later","last_rev":%q,"last_seq":0}}`,
				session, source.Latest("later").Rev))
			run := r.run(map[string]any{})
			run.Identify(logID)
			r.ends(run, replication.Completed, replication.Info{})
		}
	}
	there := func(at peer.Seq) peer.Seq { return at }
	zero := func(peer.Seq) peer.Seq { return peer.Zero }
	start := func(r *rig, run *world.Run, at peer.Seq) { r.call(run, peer.ReadChanges{Since: at}) }
	check(t, along(&counterSubject, &checkpointSubject, &savingKept, &feedSubject), []case_{
		{"on the target, or refused there", saved(true, nil), ""},
		{"not on the target", saved(false, nil), "S11a"},
		{"not a log", saved(true, func(s *saver) { s.puts(peer.Source, []byte(`[]`)) }), "S11b"},
		{"begun where the logs agree", begins(true, start), ""},
		{"begun at zero", begins(true, func(r *rig, run *world.Run, _ peer.Seq) {
			start(r, run, peer.Zero)
		}), "S27"},
		{"begun at zero, with no logs", begins(false, func(r *rig, run *world.Run, _ peer.Seq) {
			start(r, run, peer.Zero)
		}), ""},
		{"begun at zero when the logs changed", begins(true, func(r *rig, run *world.Run, at peer.Seq) {
			peers.PutLog(r.db("s1", "a1"), logID, []byte(`{}`))
			start(r, run, peer.Zero)
		}), ""},
		{"begun by the target's log alone", alone("nothing", there), ""},
		{"begun at zero, with the target's log", alone("nothing", zero), "S27"},
		{"begun by the target's log, whose newest change is gone", alone(`"newest_rev":"1`, there), "S27"},
		{"begun at zero, as the newest change is gone", alone(`"newest_rev":"1`, zero), ""},
		{"begun by the target's log, whose newest change is hidden", alone(`"newest_rev":"1`, there, 500, 403), ""},
		{"begun by the target's log, and asked once more", alone(`"newest_rev":"1`, there, 503, 429), "S27"},
		{"begun by the log of another source", alone("1800000000000000", there), "S27"},
		{"begun at zero, with the log of another source", alone("1800000000000000", zero), ""},
		{"begun behind a change that is gone", alone(`"last_rev":"1`, there), "S27"},
		{"known by its last change", asks(nil, true), ""},
		{"known, and its last change is gone", asks(nil, true, "before"), "S27a"},
		{"known by one document, and its last change is gone",
			asks(map[string]any{"doc_ids": []string{"a"}}, true, "before"), "S27a"},
		{"known by a revision less, and its last change is gone", asks(nil, true, "before", "other"), "S27a"},
		{"still known, and its last change is gone", asks(nil, true, "before", "later"), "S27a"},
		{"still known by what it has read since", asks(nil, true, "before", "later", "other"), ""},
		{"not known, as its last change is gone", asks(nil, true, "before", "noticed"), ""},
		{"known, and its last change is gone when the answer comes", asks(nil, true, "meanwhile"), ""},
		{"known, and its last change is there again", asks(nil, true, "before", "again"), ""},
		{"known by a document that has lost nothing", asks(nil, false, "before"), ""},
		{"known by what a filter shows", asks(map[string]any{"selector": map[string]any{"n": 1}}, true, "before"), ""},
		{"known by the winner", asks(map[string]any{"winning_revs_only": true}, true, "before"), ""},
		{"counters begun anew", begins(true, func(r *rig, run *world.Run, at peer.Seq) {
			run.SetInfo(replication.Info{})
			start(r, run, at)
		}), "S16i"},
		{"done and not covered", func(r *rig) {
			run := r.run(map[string]any{})
			run.Identify(logID)
			r.edit(r.db("s1", "a1"), "later")
			r.ends(run, replication.Completed, replication.Info{})
		}, "S21j"},
		{"done, and the list that covers it is the job's no more",
			reliesOn(func(rec *jobstore.Record) { rec.Created++ }), ""},
		{"done, and the list that covers it is forgotten", reliesOn(func(*jobstore.Record) {}), "S21j"},
		{"done, and the list that covers it had no room for all", reliesOn(func(rec *jobstore.Record) {
			rec.Refused = &jobstore.RefusedDocs{Beyond: 1}
		}), ""},
		{"done and not covered, with a log that was moved from an older id", movesLog(nil), "S21j"},
		{"done and not covered, since its source refused to have its log moved", movesLog(status(401)), "S21j"},
		{"done, and the source is known by a log under an older id", knows("older"), ""},
		{"done, and the source is known by no log", knows(""), "S21j"},
		{"done, and not covered since another run wrote over its log", writtenOver(false), ""},
		{"done, and not covered though it wrote its log again", writtenOver(true), "S21j"},
		{"done, and its source, which stores no log, has another run's", besideOther(false), ""},
		{"done, and the run saw that log", besideOther(true), "S21j"},
		{"stopped and not covered", func(r *rig) {
			r.ends(r.run(map[string]any{}), replication.Stopped, replication.Info{})
		}, ""},
		{"30 times to one side", func(r *rig) { oneSide(r, maxOneSided) }, ""},
		{"31 times to one side", func(r *rig) { oneSide(r, maxOneSided+1) }, "S21k"},
		{"31 times, and the source stores none for the run", func(r *rig) {
			oneSide(r, maxOneSided+1, func(run *world.Run) {
				r.fails(run, peer.Commit{Side: peer.Source}, status(401))
			})
		}, ""},
		{"at rest, a log that is ahead", func(r *rig) { rests(r, true) }, "S12"},
		{"at rest, no log", func(r *rig) { rests(r, false) }, ""},
	})
}

// reliesOn has a run end whose checkpoint relies on a list that its job, whose record is as change leaves it, does not
// have.
func reliesOn(change func(*jobstore.Record)) func(*rig) {
	return func(r *rig) {
		run := r.run(map[string]any{})
		run.Identify(logID)
		at := r.edit(r.db("s1", "a1"), "later")
		log := fmt.Appendf(nil, `{"session_id":"s","source_last_seq":%s,"history":[{"session_id":"s",`+
			`"recorded_seq":%s,"list":{"job":"x","changes":1}}]}`, at, at)
		for side, db := range [2]*peers.DB{peer.Source: r.db("s1", "a1"), peer.Target: r.db("s2", "b1")} {
			r.call(run, peer.PutLocal{Side: peer.Side(side), ID: logID, Body: log})
			peers.PutLog(db, logID, log)
		}
		rec := *run.Record()
		change(&rec)
		r.store(nil, jobs.Job{ID: "job", State: jobs.Pending}, rec)
		r.ends(run, replication.Completed, replication.Info{})
	}
}

// writtenOver has another run write its log over a run's, which then sends its log once more, and ends.
func writtenOver(again bool) func(*rig) {
	return func(r *rig) {
		run := r.run(map[string]any{})
		run.Identify(logID)
		r.edit(r.db("s1", "a1"), "later")
		own := []byte(`{"session_id":"own"}`)
		r.call(run, peer.PutLocal{Side: peer.Target, ID: logID, Body: own})
		peers.PutLog(r.db("s2", "b1"), logID, []byte(`{"session_id":"other"}`))
		if r.call(run, peer.PutLocal{Side: peer.Target, ID: logID, Body: own}); again {
			peers.PutLog(r.db("s2", "b1"), logID, own)
		}
		r.ends(run, replication.Completed, replication.Info{})
	}
}

// oneSide has a run write its log to the target only.
func oneSide(r *rig, n int, before ...func(*world.Run)) {
	run := r.run(map[string]any{"continuous": true})
	run.Identify(logID)
	for _, do := range before {
		do(run)
	}
	for i := range n {
		peers.PutLog(r.db("s2", "b1"), logID, fmt.Appendf(nil, `{"session_id":"%d"}`, i))
	}
}

// rests has a job come to rest that would begin behind changes that never arrived, if there are logs.
func rests(r *rig, logs bool) {
	at := r.edit(r.db("s1", "a1"), "a")
	if log := fmt.Appendf(nil, `{"session_id":"s","source_last_seq":%s}`, at); logs {
		peers.PutLog(r.db("s1", "a1"), logID, log)
		peers.PutLog(r.db("s2", "b1"), logID, log)
	}
	r.storeSpec("job", r.replication(nil))
	r.store(nil, jobs.Job{ID: "job", State: jobs.Pending}, jobstore.Record{BaseID: logID})
	r.o.on.atRest.tell(struct{}{})
}

// storeSpec has the store hold the replication of a job.
func (r *rig) storeSpec(jobID string, rep *spec.Replication) {
	raw, err := spec.Encode(rep)
	if err != nil {
		r.t.Fatal(err)
	}
	r.commit(nil, func(tx kv.Tx) error {
		tx.Set(r.w.View().Store().Keys.Spec.Pack(jobID, int64(0)), raw)
		return nil
	})
}

// besideOther has another run write its log to a source that stores none for a run, which may see it before it writes
// its own to the target, and ends.
func besideOther(sees bool) func(*rig) {
	return func(r *rig) {
		run := r.run(map[string]any{})
		run.Identify(logID)
		source, own := r.db("s1", "a1"), []byte(`{"session_id":"own"}`)
		r.edit(source, "later")
		r.does(run, peer.ReadChanges{Since: peer.Zero}, peer.Changes{})
		r.fails(run, peer.Commit{Side: peer.Source}, status(403))
		peers.PutLog(source, logID, []byte(`{"session_id":"other"}`))
		if sees {
			got := peer.Local{Found: true, Body: source.Log(logID)}
			r.does(run, peer.GetLocal{Side: peer.Source, ID: logID}, got)
		}
		r.call(run, peer.PutLocal{Side: peer.Target, ID: logID, Body: own})
		peers.PutLog(r.db("s2", "b1"), logID, own)
		r.ends(run, replication.Completed, replication.Info{})
	}
}

// TestFirstSender: a run that moves a log is not the one that made its checkpoint.
func TestFirstSender(t *testing.T) {
	s, first, second := senders{}, &world.Run{}, &world.Run{}
	put := peer.PutLocal{Body: []byte(`{"session_id":"s","source_last_seq":1,"history":[]}`)}
	for _, run := range []*world.Run{first, second} {
		s.note(world.RunCalls{Run: run, Op: put}, logs{})
	}
	if s["s"] != first {
		t.Error("the checkpoint is the second run's")
	}
}
