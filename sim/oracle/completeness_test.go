package oracle

import (
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

func TestCompleteness(t *testing.T) {
	refusals := func(ids ...string) (all []peer.Refusal) {
		for _, id := range ids {
			all = append(all, peer.Refusal{ID: id, Rev: "1-a"})
		}
		return all
	}
	// tells has a run whose target answered as in a tally tell of itself.
	tells := func(tally peers.Tally, info replication.Info) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			*run.Told() = tally
			r.tells(run, nil, info)
		}
	}
	// done has it be done.
	done := func(tally peers.Tally, info replication.Info) func(*rig) {
		return func(r *rig) {
			empty := map[string]any{"doc_ids": []string{"none"}}
			run := r.run(empty)
			*run.Told() = tally
			r.ends(run, replication.Completed, info)
		}
	}
	// oneShot has a run end when a document was written, at first on the source alone.
	oneShot := func(then func(*rig), cause replication.Cause) func(*rig) {
		return func(r *rig) {
			r.edit(r.db("s1", "a1"), "lost")
			run := r.run(map[string]any{"doc_ids": []string{"lost"}})
			then(r)
			r.ends(run, cause, replication.Info{})
		}
	}
	// through has a run that read all be done, and tell how far it has come.
	through := func(behind bool) func(*rig) {
		return func(r *rig) {
			old := r.db("s1", "a1").Last()
			end := r.edit(r.db("s1", "a1"), "a")
			run := r.run(map[string]any{"doc_ids": []string{"none"}})
			r.does(run, read, ended(end))
			if !behind {
				old = end
			}
			r.ends(run, replication.Completed, replication.Info{ThroughSeq: old})
		}
	}
	check(t, along(&completenessSubject, &feedSubject), []case_{
		{"not arrived", oneShot(func(*rig) {}, replication.Completed), "S13"},
		{"not arrived, nor done", oneShot(func(*rig) {}, replication.Stopped), ""},
		{"not arrived, denied", oneShot(func(r *rig) {
			r.db("s2", "b1").Deny = map[string]*docs.Error{"lost": {}}
		}, replication.Completed), ""},
		{"more refusals than there were", tells(peers.Tally{},
			replication.Info{Refused: 1, Refusals: refusals("a")}), "S14d"},
		{"a refusal",
			tells(peers.Tally{Refused: 1}, replication.Info{Refused: 1, Refusals: refusals("a")}), ""},
		{"fewer refusals than there were", tells(peers.Tally{Refused: 1}, replication.Info{}), ""},
		{"a refusal left out", done(peers.Tally{Refused: 1, LeftOut: 1}, replication.Info{}), "S14d"},
		{"a document too many", done(peers.Tally{}, replication.Info{Written: 1}), "S14e"},
		{"a document too few", done(peers.Tally{Took: 1}, replication.Info{}), "S14e"},
		{"a document twice", done(peers.Tally{Took: 2, Again: 1}, replication.Info{Written: 1}), ""},
		{"bytes untold", done(peers.Tally{Bytes: 1}, replication.Info{}), "S14e"},
		{"a refusal not listed", tells(peers.Tally{Refused: 1}, replication.Info{Refused: 1}), "S14f"},
		{"another refusal listed", done(peers.Tally{Refused: 1, Newest: peers.Revision{ID: "b", Rev: "1-a"}},
			replication.Info{Refused: 1, Refusals: refusals("a")}), "S14f"},
		{"the refusal listed", done(peers.Tally{Refused: 1, Newest: peers.Revision{ID: "a", Rev: "1-a"}},
			replication.Info{Refused: 1, Refusals: refusals("a")}), ""},
		{"come to the end", through(false), ""},
		{"come not so far", through(true), "S14g"},
		{"altered", func(r *rig) { r.see(world.Altered{DB: r.db("s1", "a1"), What: "is another"}) }, "S15d"},
	})
}

func TestCompletenessAtRest(t *testing.T) {
	// rests has a run wait for changes at the end of all, behind what it tells.
	rests := func(effects ...replication.Effect) func(*rig) {
		return func(r *rig) {
			end := r.edit(r.db("s1", "a1"), "a")
			run := r.run(map[string]any{"continuous": true, "doc_ids": []string{"none"}})
			r.does(run, read, ended(end), effects...)
			r.call(run, poll)
			r.atRest()
		}
	}
	check(t, along(&completenessSubject, &feedSubject, &savingSubject), []case_{
		{"behind the end", rests(), "S14g"},
		{"waiting for the store", rests(replication.Refused{}), ""},
	})
}
