package oracle

import (
	"fmt"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// along is a subject whose checker reads the state of others, which hear of facts in this order.
func along(subjects ...*subject) *subject {
	return &subject{begin: func(c *chronicle) {
		for _, s := range subjects {
			s.begin(c)
		}
	}}
}

// does has a run send a request that is answered at once.
func (r *rig) does(run *world.Run, op peer.Op, result peer.Result, effects ...replication.Effect) {
	r.answer(run, r.call(run, op), op, peer.Reply{Result: result}, effects...)
}

// fails has a run send a request that fails at once.
func (r *rig) fails(run *world.Run, op peer.Op, f *peer.Failure, effects ...replication.Effect) {
	r.answer(run, r.call(run, op), op, peer.Reply{Failure: f}, effects...)
}

// crashes has a run end because of the answer to a request.
func (r *rig) crashes(run *world.Run, op peer.Op, reply peer.Reply, t replication.Trouble) {
	r.see(world.RunReplied{Run: run, Op: op, Reply: reply})
	r.see(world.RunSaidEnd{
		Run: run, Asked: op, Event: replication.Reply{Reply: reply},
		End: replication.End{Cause: replication.Crashed, Trouble: t},
	})
}

// ends has a run end by itself.
func (r *rig) ends(run *world.Run, cause replication.Cause, info replication.Info) {
	end := replication.End{Cause: cause, Info: info}
	r.see(world.RunSaidEnd{Run: run, Event: replication.Wake{}, End: end})
}

// tells has a run tell of itself, by the answer to a request or by none.
func (r *rig) tells(run *world.Run, asked peer.Op, info replication.Info) {
	r.see(world.RunProgressed{Run: run, Asked: asked, Info: info})
}

// steps has a run make a step without an answer.
func (r *rig) steps(run *world.Run) {
	r.see(world.RunStepped{Run: run, Event: replication.Wake{}})
}

// edit writes documents, and answers the sequence after them.
func (r *rig) edit(db *peers.DB, ids ...string) peer.Seq {
	for _, id := range ids {
		db.Write([]docs.Edit{{Document: docs.Document{ID: id, Body: []byte(`{}`)}}})
	}
	return db.Last()
}

// status is an answer that is a failure.
func status(code int) *peer.Failure { return &peer.Failure{Kind: peer.Status, Status: code} }

// kind is a failure without an answer.
func kind(k peer.Kind) *peer.Failure { return &peer.Failure{Kind: k} }

// rows are changes of documents in their first revision, the last of them at a sequence.
func rows(seq peer.Seq, ids ...string) peer.Changes {
	var c peer.Changes
	for _, id := range ids {
		c.Rows = append(c.Rows, peer.Change{Seq: seq, ID: id, Revs: []string{"1-a"}})
	}
	return c
}

// ended are the last changes of a feed.
func ended(seq peer.Seq, ids ...string) peer.Changes {
	c := rows(seq, ids...)
	c.End, c.LastSeq = true, seq
	return c
}

// asked are documents in their first revision, as a target is asked about them.
func asked(ids ...string) (op peer.DiffRevs) {
	for _, id := range ids {
		op.Docs = append(op.Docs, peer.DocRevs{ID: id, Revs: []string{"1-a"}})
	}
	return op
}

// lacks is a target that lacks documents, of which it has no other revision.
func lacks(ids ...string) (d peer.Diff) {
	for _, id := range ids {
		d.Docs = append(d.Docs, peer.DocMissing{ID: id, Missing: []string{"1-a"}})
	}
	return d
}

// reads is a bulk read of documents.
func reads(ids ...string) (op peer.FetchDocs) {
	for _, id := range ids {
		op.Docs = append(op.Docs, peer.DocRev{ID: id, Rev: "1-a"})
	}
	return op
}

// came are documents that a bulk read brought, and left those for which it had no room.
func came(n, left int) (f peer.Fetched) {
	for range n {
		f.Docs = append(f.Docs, peer.FetchedDoc{Fate: peer.Taken, Rev: "1-a"})
	}
	for range left {
		f.Docs = append(f.Docs, peer.FetchedDoc{Fate: peer.Left})
	}
	return f
}

// copyOf is a copy of a document's first revision.
func copyOf(id string) peer.CopyDoc { return peer.CopyDoc{ID: id, Revs: []string{"1-a"}} }

// Outcomes of such a copy.
var (
	copied      = peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}}
	lackingCopy = peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Missing: true}}}
)

// refused is a copy that the target refused with a status.
func refused(code int) peer.Copied {
	refusal := &peer.Refusal{ID: "a", Rev: "1-a", Status: code}
	return peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: refusal}}}
}

// ids are names of documents.
func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("d", i))
	}
	return all
}

// from is where runs of tests begin to read.
const from = peer.Zero

// poll is a long poll, read a read of all there is.
var (
	poll = peer.ReadChanges{Since: from, Limit: 10, Wait: true}
	read = peer.ReadChanges{Since: from, Limit: 10}
)
