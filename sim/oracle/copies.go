package oracle

import (
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// copies are the invariants of documents that are copied one by one.
type copies struct{ *chronicle }

var copySubject = subject{
	begin: func(c *chronicle) {
		o := &copies{c}
		c.on.runCalls.add(func(c call) {
			if op, is := c.op.(peer.CopyDoc); is {
				o.checkAlone(c.run, op)
			}
		})
		c.on.runReplied.add(func(a reply) {
			if op, is := a.op.(peer.CopyDoc); is {
				o.noteCopy(a.run, op, a.Reply)
			}
			if changes, is := a.Result.(peer.Changes); is {
				a.wantedAgain(changes.Rows)
			}
		})
		c.on.runSaidEnd.add(o.saidEnd)
		c.on.runStepped.add(func(s runStep) {
			switch op := s.asked.(type) {
			case peer.CopyDoc:
				o.checkCopyStep(s.run, op, s.ev.(replication.Reply).Reply, s.effects)
			case peer.WriteDocs:
				o.checkHalves(s.run, op, s.ev.(replication.Reply).Reply, s.effects)
			}
		})
	},
}

// saidEnd is told of what a run says at its end.
func (o *copies) saidEnd(e ending) {
	reply, is := e.ev.(replication.Reply)
	o.checkBlames(e.run, reply.Reply, e.end)
	if op, copies := e.asked.(peer.CopyDoc); copies && is && reply.Failure != nil && e.end.Cause == replication.Crashed {
		o.checkCopyGivenUp(e.run, op, reply.Reply, e.end)
	}
}

// bringing says whether an answer brought something that was asked for to its end: it was written, or is too large.
func bringing(op peer.CopyDoc, got peer.Copied) bool {
	return slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return !rev.Missing && (rev.Refused == nil || rev.Refused.Status == 413) && slices.Contains(op.Revs, rev.Rev)
	})
}

// fruitless are attempts of copies that brought nothing.
type fruitless struct {
	id          string // of the document
	n           int
	since, last instant.Time
}

// noteCopy is a part of S30: a copy that brings nothing of what it asks for ends within its retries. Many batches may want
// the same at once, but not for longer than one of them retries.
func (o *copies) noteCopy(r *run, op peer.CopyDoc, reply peer.Reply) {
	got, _ := reply.Result.(peer.Copied)
	fails := reply.Failure != nil && passes(reply.Failure) || reply.Failure == nil && inTheWay(got)
	if !fails || bringing(op, got) {
		delete(r.fruitless, op.String())
		return
	}
	if r.fruitless == nil {
		r.fruitless = map[string]fruitless{}
	}
	now := o.w.Now()
	tried, again := r.fruitless[op.String()]
	if !again || now.Sub(tried.last) > retriesLast { // later batches may want it again
		tried = fruitless{id: op.ID, since: now}
	}
	tried.n++
	tried.last = now
	r.fruitless[op.String()] = tried
	if tried.n > 3*(r.Replication().Source.Retries+1) && now.Sub(tried.since) > 3*retriesLast {
		o.Fail("S30", "run %d of %s goes on after %d attempts in %s that brought nothing: %s", r.ID(), r.p.Name, tried.n, now.Sub(tried.since), op)
	}
}

// wantedAgain forgives attempts for documents that the feed has brought once more: later batches want them too.
func (r *run) wantedAgain(rows []peer.Change) {
	for name, f := range r.fruitless { // in any order
		if slices.ContainsFunc(rows, func(row peer.Change) bool { return row.ID == f.id }) {
			delete(r.fruitless, name)
		}
	}
}

// checkCopyGivenUp is a part of S30: a copy that still brings something is not given up.
func (o *copies) checkCopyGivenUp(r *run, op peer.CopyDoc, reply peer.Reply, e replication.End) {
	f := reply.Failure
	if got, is := reply.Result.(peer.Copied); is && f != nil && (passes(f) || f.Kind == peer.Status && f.Status == 429) && bringing(op, got) {
		o.Fail("S30", "run %d of %s gave up, though revisions came still: %s: %s", r.ID(), r.p.Name, op, e.Trouble)
	}
}

// checkBlames is a part of S29: a run that says that its source lacks what it announced was told so.
func (o *copies) checkBlames(r *run, reply peer.Reply, e replication.End) {
	if e.Cause != replication.Crashed || e.Trouble.Error != "missing_doc" {
		return
	}
	copied, _ := reply.Result.(peer.Copied)
	if f := reply.Failure; f != nil && f.Reason == databaseGone ||
		f == nil && !slices.ContainsFunc(copied.Revs, func(rev peer.CopiedRev) bool { return rev.Missing }) {
		o.Fail("S29", "run %d of %s was answered %+v, and ended with %s", r.ID(), r.p.Name, reply, e.Trouble)
	}
}

// databaseGone is what servers answer about a database that is not there.
const databaseGone = "Database does not exist."

// checkCopyStep is a part of S28 and S30: a source that lacks what it announced is given time to find it, and who refuses a
// document for who we are is asked whether it knows us.
func (o *copies) checkCopyStep(r *run, op peer.CopyDoc, reply peer.Reply, effects []replication.Effect) {
	got, _ := reply.Result.(peer.Copied)
	var lacking []string
	shut, refused := false, false
	for _, rev := range got.Revs {
		if rev.Missing {
			lacking = append(lacking, rev.Rev)
		}
		refused = refused || rev.Refused != nil
		shut = shut || rev.Refused != nil && (rev.Refused.Status == 401 || rev.Refused.Status == 403)
	}
	var opens [2]bool
	for _, e := range effects {
		call, is := e.(replication.Call)
		if !is {
			continue
		}
		switch again := call.Op.(type) {
		case peer.Open:
			opens[again.Side] = true
		case peer.CopyDoc:
			if reply.Failure == nil && !refused && len(lacking) > 0 && again.ID == op.ID && slices.Equal(again.Revs, lacking) {
				o.Fail("S28", "run %d of %s asks its source again at once for what that lacks: %s", r.ID(), r.p.Name, again)
			}
		}
	}
	if shut && opens[peer.Source] && !opens[peer.Target] {
		o.Fail("S30", "run %d of %s was refused %s by its target, and asks its source whether that knows it", r.ID(), r.p.Name, op.ID)
	}
}

// checkHalves is a part of S30: of what is too large for a target a half is sent.
func (o *copies) checkHalves(r *run, op peer.WriteDocs, reply peer.Reply, effects []replication.Effect) {
	if f, n := reply.Failure, len(op.Docs); f == nil || f.Kind != peer.Status || f.Status != 413 || n == 1 {
		return
	}
	for _, e := range effects {
		call, _ := e.(replication.Call)
		if part, is := call.Op.(peer.WriteDocs); is && part.Docs[0].Fetch == op.Docs[0].Fetch && len(part.Docs) > (len(op.Docs)+1)/2 {
			o.Fail("S30", "run %d of %s sent %d documents, which is too much, and sends %d", r.ID(), r.p.Name, len(op.Docs), len(part.Docs))
		}
	}
}

// checkAlone is a part of S30: what can be read in bulk is not copied by itself.
func (o *copies) checkAlone(r *run, op peer.CopyDoc) {
	if r.Replication().UseBulkGet && !r.numbers.bulk.excused && !strings.HasPrefix(op.ID, "_design/") {
		o.Fail("S30", "run %d of %s copies %s by itself, and nothing was wrong with reading and writing in bulk", r.ID(), r.p.Name, op.ID)
	}
}
