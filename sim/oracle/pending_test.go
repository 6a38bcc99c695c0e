package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestBacklogs(t *testing.T) {
	count := peer.CountPending{Since: from}
	// pending has a run of a source with three documents tell of some through a row.
	pending := func(through int, told int64) func(*rig) {
		return func(r *rig) {
			seqs := []peer.Seq{r.db("s1", "a1").Last()}
			for _, id := range ids(3) {
				seqs = append(seqs, r.edit(r.db("s1", "a1"), id))
			}
			run := r.run(nil)
			r.tells(run, nil, replication.Info{ThroughSeq: seqs[through], ChangesPending: told})
		}
	}
	// counted has a run be told a number, and tell that it knows none, after something else.
	counted := func(then func(*rig, *world.Run)) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.does(run, count, peer.Pending{Count: 3})
			then(r, run)
			r.pass(time.Second)
			r.tells(run, nil, replication.Info{ChangesPending: -1})
		}
	}
	// again has the source count twice.
	again := func(pause time.Duration, since peer.Seq) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.does(run, count, peer.Pending{Count: 3})
			r.pass(pause)
			r.call(run, peer.CountPending{Since: since})
		}
	}
	// untold has the source answer that it does not tell, and be asked once more.
	untold := func(between func(*rig, *world.Run)) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			id := r.call(run, count)
			between(r, run)
			r.answer(run, id, count, peer.Reply{Result: peer.Pending{Count: -1}})
			r.pass(countEvery)
			r.call(run, peer.CountPending{Since: "1"})
		}
	}
	// rest has a run of a source with a document, all of which is done, come to rest.
	rest := func(info replication.Info) func(*rig) {
		return func(r *rig) {
			info.ThroughSeq = r.edit(r.db("s1", "a1"), "a")
			r.run(nil).SetInfo(info)
			r.o.on.atRest.tell(struct{}{})
		}
	}
	check(t, &backlogSubject, []case_{
		{"a number forgotten", counted(func(*rig, *world.Run) {}), "S23a"},
		{"a number of no use", counted(func(r *rig, run *world.Run) { r.does(run, read, ended(from)) }), ""},
		{"a number unheard", counted(func(r *rig, _ *world.Run) { r.node(1).StandStill(time.Second) }), ""},
		{"all pending", pending(0, 3), ""},
		{"one left out", pending(0, 2), "S23b"},
		{"one done", pending(1, 2), ""},
		{"unknown", pending(0, -1), ""},
		{"some pending when all is done", rest(replication.Info{ChangesPending: 1}), "S23c"},
		{"some pending while something is repeated",
			rest(replication.Info{ChangesPending: 1, Waiting: "x"}), ""},
		{"none pending", rest(replication.Info{}), ""},
		{"counted again soon", again(countEvery-time.Second, "1"), "S30x"},
		{"counted again", again(countEvery, "1"), ""},
		{"the same question again", again(0, from), ""},
		{"asked in vain", untold(func(*rig, *world.Run) {}), "S23d"},
		{"an answer that came too late", untold(func(r *rig, run *world.Run) { r.does(run, read, ended(from)) }), ""},
	})
}
