package oracle

import (
	"testing"

	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
)

// TestForsaken: L13b. A job is there that copies what another one copied, whose run met a revision.
func TestForsaken(t *testing.T) {
	first := 0 // the status of an earlier failure of the revision, if there was one
	met := func(was, is string, failed bool, after func(r *rig, id string, name peers.Revision)) func(*rig) {
		return func(r *rig) {
			r.edit(r.db("s1", "a1"), "a")
			name := peers.Revision{ID: "a", Rev: r.db("s1", "a1").Latest("a").Rev.String()}
			id := r.request(map[string]any{"continuous": true, "on_refusal": is})
			base := r.o.shadows[id].record.BaseID
			run := r.runOf(r.node(1), jobstore.Work{JobID: "gone", Lock: aLock, Record: r.o.shadows[id].record,
				Replication: r.replication(map[string]any{"continuous": true, "on_refusal": was})})
			refusal := peer.Refusal{Status: 413}
			op := peer.CopyDoc{ID: "a", Revs: []string{name.Rev}}
			found := replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: name.Rev}, Failed: failed}
			r.does(run, peer.GetLocal{ID: base}, peer.Local{}, replication.Identify{ID: base, Base: base})
			if first != 0 {
				early := replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: name.Rev, Status: first}, Failed: true}
				r.does(run, op, peer.Copied{}, replication.Refused{Findings: []replication.Finding{early}})
			}
			r.does(run, op, peer.Copied{Revs: []peer.CopiedRev{{Rev: name.Rev, Refused: &refusal}}},
				replication.Refused{Findings: []replication.Finding{found}})
			after(r, id, name)
			r.atRest()
		}
	}
	nothing := func(*rig, string, peers.Revision) {}
	check(t, along(&verdictSubject, &forsakenSubject), []case_{
		{"refused under retry", met("retry", "retry", false, nothing), "L13b"},
		{"failed under skip", met("skip", "skip", true, nothing), "L13b"},
		{"refused under skip", met("skip", "skip", false, nothing), ""},
		{"failed under skip, after a failure", func(r *rig) {
			first = 500
			met("skip", "skip", true, nothing)(r)
		}, "L13b"},
		{"refused under skip, after a failure", func(r *rig) {
			first = 500
			met("skip", "skip", false, nothing)(r)
			first = 0
		}, ""},
		{"failed under skip, and left out before", func(r *rig) {
			first = 400
			met("skip", "skip", true, nothing)(r)
			first = 0
		}, ""},
		{"refused under another policy", met("skip", "retry", false, nothing), ""},
		{"listed by now", met("retry", "retry", false, func(r *rig, id string, name peers.Revision) {
			r.o.lists[id] = refusedList{rows: map[peers.Revision]refusedRow{name: {Attempts: 1}}}
		}), ""},
		{"on the target by now", met("retry", "retry", false, func(r *rig, _ string, name peers.Revision) {
			r.edit(r.db("s2", "b1"), "a")
		}), ""},
	})
}
