package cluster

import (
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// bringing says whether an answer brought something that was asked for to its end: it was written, or is too large.
func bringing(op peer.CopyDoc, got peer.Copied) bool {
	return slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return !rev.Missing && (rev.Refused == nil || rev.Refused.Status == 413) && slices.Contains(op.Revs, rev.Rev)
	})
}

// fruitless are attempts of copies that brought nothing.
type fruitless struct {
	n           int
	since, last instant.Time
}

// noteCopy is a part of S30: a copy that brings nothing of what it asks for ends within its retries. Many batches may want
// the same at once, but not for longer than one of them retries.
func (o *oracle) noteCopy(r *run, op peer.CopyDoc, reply peer.Reply) {
	got, _ := reply.Result.(peer.Copied)
	fails := reply.Failure != nil && passes(reply.Failure) || reply.Failure == nil && inTheWay(got)
	if !fails || bringing(op, got) {
		delete(r.fruitless, op.String())
		return
	}
	if r.fruitless == nil {
		r.fruitless = map[string]fruitless{}
	}
	now := o.w.Engine.Now()
	tried, again := r.fruitless[op.String()]
	if !again || now.Sub(tried.last) > retriesLast { // later batches may want it again
		tried = fruitless{since: now}
	}
	tried.n++
	tried.last = now
	r.fruitless[op.String()] = tried
	if tried.n > 3*(r.work.Work.Replication.Source.Retries+1) && now.Sub(tried.since) > 3*retriesLast {
		o.w.fail("S30", "run %d of %s goes on after %d attempts in %s that brought nothing: %s", r.id, r.p.Name, tried.n, now.Sub(tried.since), op)
	}
}

// checkCopyGivenUp is a part of S30: a copy that still brings something is not given up.
func (o *oracle) checkCopyGivenUp(r *run, op peer.CopyDoc, reply peer.Reply, e replication.End) {
	f := reply.Failure
	if got, is := reply.Result.(peer.Copied); is && f != nil && passes(f) && bringing(op, got) {
		o.w.fail("S30", "run %d of %s gave up, though revisions came still: %s: %s", r.id, r.p.Name, op, e.Trouble)
	}
}

// checkBlames is a part of S29: a run that says that its source lacks what it announced was told so.
func (o *oracle) checkBlames(r *run, reply peer.Reply, e replication.End) {
	if e.Cause != replication.Crashed || e.Trouble.Error != "missing_doc" {
		return
	}
	copied, _ := reply.Result.(peer.Copied)
	if f := reply.Failure; f != nil && f.Reason == databaseGone ||
		f == nil && !slices.ContainsFunc(copied.Revs, func(rev peer.CopiedRev) bool { return rev.Missing }) {
		o.w.fail("S29", "run %d of %s was answered %+v, and ended with %s", r.id, r.p.Name, reply, e.Trouble)
	}
}

// databaseGone is what servers answer about a database that is not there.
const databaseGone = "Database does not exist."
