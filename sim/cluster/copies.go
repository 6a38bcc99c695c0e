package cluster

import (
	"slices"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// bringing says whether an answer brought something that was asked for to its end: it was written, or is too large.
func bringing(op peer.CopyDoc, got peer.Copied) bool {
	return slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return !rev.Missing && (rev.Refused == nil || rev.Refused.Status == 413) && slices.Contains(op.Revs, rev.Rev)
	})
}

// noteCopy is a part of S30: a copy that brings nothing of what it asks for ends within its retries. Several batches may
// want the same.
func (o *oracle) noteCopy(r *run, op peer.CopyDoc, reply peer.Reply) {
	got, _ := reply.Result.(peer.Copied)
	fails := reply.Failure != nil && passes(reply.Failure) || reply.Failure == nil && inTheWay(got)
	if !fails || bringing(op, got) {
		delete(r.fruitless, op.String())
		return
	}
	if r.fruitless == nil {
		r.fruitless = map[string]int{}
	}
	r.fruitless[op.String()]++
	if n, most := r.fruitless[op.String()], 3*(r.work.Work.Replication.Source.Retries+1); n > most {
		o.w.fail("S30", "run %d of %s goes on after %d attempts that brought nothing: %s", r.id, r.p.Name, n, op)
	}
}

// checkCopyGivenUp is a part of S30: a copy that still brings something is not given up.
func (o *oracle) checkCopyGivenUp(r *run, op peer.CopyDoc, reply peer.Reply, e replication.End) {
	f := reply.Failure
	if got, is := reply.Result.(peer.Copied); is && f != nil && passes(f) && bringing(op, got) {
		o.w.fail("S30", "run %d of %s gave up, though revisions came still: %s: %s", r.id, r.p.Name, op, e.Trouble)
	}
}
