package oracle

import (
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/protocol"
)

// copies judge how a run copies documents one by one.
type copies struct{ *chronicle }

var copySubject = subject{
	invariants: []Invariant{
		{"S28c", "A source that lacks a revision which it announced is not asked for it again at once."},
		{"S28d", "A copy of several revisions that breaks off each time before any of them is tried with fewer."},
		{"S29p", "Only a run whose source lacks a revision ends with missing_doc."},
		{"S30j", "A copy that brings nothing of what it asks for is given up after its retries."},
		{"S30k", "A run does not give up a copy that still brings something."},
		{"S30l", "When a target refuses a document over credentials, the run asks the target whether it " +
			"knows them."},
		{"S30m", "A document that can be read and written in bulk is not copied alone."},
	},
	begin: func(c *chronicle) {
		cs := &copies{c}
		c.on.runCalls.add(func(c call) {
			if op, is := c.op.(peer.CopyDoc); is {
				cs.checkAlone(c.run, op)
				cs.checkNarrows(c.run, op)
			}
		})
		c.on.runReplied.add(func(a reply) {
			if op, is := a.op.(peer.CopyDoc); is {
				cs.checkFruitless(a.run, op, a.Reply)
				a.noteBroken(op, a.Reply)
			}
			if changes, is := a.Result.(peer.Changes); is {
				a.wantedAgain(changes.Rows)
			}
		})
		c.on.runSaidEnd.add(cs.checkEnd)
		c.on.runStepped.add(func(s runStep) {
			if op, is := s.asked.(peer.CopyDoc); is {
				cs.checkStep(s, op, s.ev.(replication.Reply).Reply)
			}
		})
	},
}

// fruitless are attempts in a row of a copy that brought nothing. Only copies change it.
type fruitless struct {
	id          string // of the document
	n           int
	since, last instant.Time // when the first and the last attempt were answered
}

// brings reports whether an answer settles a revision that was asked for: it was written, or is too large to
// be.
func brings(op peer.CopyDoc, got peer.Copied) bool {
	return slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		settled := !rev.Missing && (rev.Refused == nil || rev.Refused.Status == 413)
		return settled && slices.Contains(op.Revs, rev.Rev)
	})
}

// manyBatches is how many batches at once may want the same copy. Each has retries of its own, so the bounds
// on attempts in a row are as many times higher.
const manyBatches = 3

// checkFruitless is S30j: a copy that is repeated for ever would hold its batch, and all checkpoints behind
// that. A document that the feed brings again is excused from its earlier copies, since later batches want it
// too.
func (cs *copies) checkFruitless(r *run, op peer.CopyDoc, reply peer.Reply) {
	got, _ := reply.Result.(peer.Copied)
	fails := reply.Failure != nil && protocol.Passes(reply.Failure) || reply.Failure == nil && inTheWay(got)
	if !fails || brings(op, got) {
		delete(r.fruitless, op.String())
		return
	}
	if r.fruitless == nil {
		r.fruitless = map[string]fruitless{}
	}
	now := cs.w.Now()
	tried, again := r.fruitless[op.String()]
	if !again || now.Sub(tried.last) > retriesLast { // these are the attempts of a later batch
		tried = fruitless{id: op.ID, since: now}
	}
	tried.n++
	tried.last = now
	r.fruitless[op.String()] = tried
	most := manyBatches * (r.Replication().Source.Retries + 1)
	if lasted := now.Sub(tried.since); tried.n > most && lasted > manyBatches*retriesLast {
		cs.Fail("S30j", "%s goes on after %d attempts in %s that brought nothing: %s", r, tried.n, lasted, op)
	}
}

// unbroken are copies in a row of the same revisions of a document that broke off before any of them.
type unbroken struct {
	revs []string
	n    int
}

// checkNarrows is S28d: one revision that its source cannot read must not keep the others from being copied. A host
// that cannot be reached, or is busy, fails for each of them. Several batches may want the same copy.
func (cs *copies) checkNarrows(r *run, op peer.CopyDoc) {
	switch tried := r.unbroken[op.ID]; {
	case !slices.Equal(tried.revs, op.Revs):
		delete(r.unbroken, op.ID)
	case tried.n > max(manyBatches, r.told[op.ID]):
		cs.Fail("S28d", "%s copies all of %v of %s again, of which none came %d times", r, op.Revs, op.ID, tried.n)
	}
}

// noteBroken notes how a copy broke off.
func (r *run) noteBroken(op peer.CopyDoc, reply peer.Reply) {
	got, _ := reply.Result.(peer.Copied)
	came := slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool { return slices.Contains(op.Revs, rev.Rev) })
	f := reply.Failure
	broke := f != nil && protocol.Passes(f) && f.Kind != peer.Unreachable && f.Kind != peer.Unresolvable
	if broke && len(op.Revs) > 1 && !came {
		if r.unbroken == nil {
			r.unbroken = map[string]unbroken{}
		}
		r.unbroken[op.ID] = unbroken{op.Revs, r.unbroken[op.ID].n + 1}
	}
}

// wantedAgain forgets the attempts for documents that the feed has brought once more, and counts the batches that may
// want to copy several leaves of a document at once.
func (r *run) wantedAgain(rows []peer.Change) {
	for _, row := range rows {
		if len(row.Revs) > 1 {
			if r.told == nil {
				r.told = map[string]int{}
			}
			r.told[row.ID]++
		}
	}
	for name, f := range r.fruitless { // in any order
		if slices.ContainsFunc(rows, func(row peer.Change) bool { return row.ID == f.id }) {
			delete(r.fruitless, name)
		}
	}
}

// databaseGone is the reason that servers give when a database is not there.
const databaseGone = "Database does not exist."

// checkEnd is S29p and S30k. A run that crashed with missing_doc tells its user that the source is damaged,
// so there must be an answer that says so; that the whole database is gone is another matter. And progress
// begins retries and patience anew, so a copy that brings something is no reason to end.
func (cs *copies) checkEnd(e ending) {
	if e.end.Cause != replication.Crashed {
		return
	}
	answer, _ := e.ev.(replication.Reply)
	got, copied := answer.Result.(peer.Copied)
	f := answer.Failure
	lacks := slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool { return rev.Missing })
	if e.end.Trouble.Error == "missing_doc" && (f != nil && f.Reason == databaseGone || f == nil && !lacks) {
		cs.Fail("S29p", "%s was answered %+v, and ended with %s", e.run, answer.Reply, e.end.Trouble)
	}
	op, copies := e.asked.(peer.CopyDoc)
	if copies && copied && f != nil && (protocol.Passes(f) || protocol.Throttles(f)) && brings(op, got) {
		cs.Fail("S30k", "%s gave up, though revisions still came: %s: %s", e.run, op, e.end.Trouble)
	}
}

// checkStep judges the requests of a run after the answer to a copy.
func (cs *copies) checkStep(s runStep, op peer.CopyDoc, reply peer.Reply) {
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
	var opens [2]bool // by side
	for _, e := range s.effects {
		call, _ := e.(replication.Call)
		switch next := call.Op.(type) {
		case peer.Open:
			opens[next.Side] = true
		case peer.CopyDoc:
			// A cluster finds a revision within seconds. A copy that is repeated because of a refusal may
			// name the same revisions.
			onlyLacks := reply.Failure == nil && !refused && len(lacking) > 0
			if onlyLacks && next.ID == op.ID && slices.Equal(next.Revs, lacking) {
				cs.Fail("S28c", "%s asks its source again at once for what that lacks: %s", s.run, next)
			}
		}
	}
	if shut && opens[peer.Source] && !opens[peer.Target] { // S30l: the refusal is not the source's
		cs.Fail("S30l", "%s was refused %s by its target, and asks its source whether that knows it",
			s.run, op.ID)
	}
}

// checkAlone is S30m: a request for each document is slow. Design documents are always copied alone, since
// only an admin may write them. A run is excused for good once anything went wrong in bulk, a failed read, a
// document with attachments or a refusal: documents may need to be copied alone long after that.
func (cs *copies) checkAlone(r *run, op peer.CopyDoc) {
	listed := slices.Contains(r.counts.triable, op.ID) // it was refused, and is tried again
	if r.Replication().UseBulkGet && !r.bulk.excused && !listed && !strings.HasPrefix(op.ID, "_design/") {
		cs.Fail("S30m", "%s copies %s alone, and nothing was wrong with reading and writing in bulk",
			r, op.ID)
	}
}
