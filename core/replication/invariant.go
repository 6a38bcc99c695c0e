package replication

import (
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
)

// What a run relies on. Most of these guard the promise: with wrong counters a batch may count as done too
// early, and a checkpoint would cover documents that the target never got.
const (
	memoryAgrees invariant.ID = "replication.memory: memory covers the fetches in flight, and is 0 without work"
	copiesAgree  invariant.ID = "replication.copies: copies counts the CopyDoc calls, and is within their slots"
	workAgrees   invariant.ID = "replication.pending: a batch's pending counts its calls"
	withinLimit  invariant.ID = "replication.workers: at most MaxWorkers batches are worked on at once"
	inOrder      invariant.ID = "replication.order: batches follow each other in the feed's order, without a gap"
	doneFirst    invariant.ID = "replication.done: a batch is done, with no work left, when it is passed"
	forward      invariant.ID = "replication.forward: committed <= writing <= through, in the order of the feed"
	rowsAgree    invariant.ID = "replication.rows: a checkpoint covers no more rows than were passed"
	commitsAgree invariant.ID = "replication.commits: a checkpoint or a look has calls exactly while it is under way"
	writesAgree  invariant.ID = "replication.writes: flying counts WriteDocs calls, plain and compressed, and no others"
	looksAgree   invariant.ID = "replication.looks: answers counts those that a look at the databases waits for"
)

// audit checks, at the end of a step, that the counters which change as calls begin and end agree with the
// calls that there are.
func (r *Run) audit() {
	var survivors, copies, work, memory int
	var writes [2]int
	for _, c := range r.calls {
		if c.survives {
			survivors++
		}
		switch op := c.op.(type) {
		case peer.CopyDoc:
			copies++
			work++
		case peer.FetchDocs:
			memory += op.Budget
			work++
		case peer.WriteDocs:
			writes[kind(op.Gzip)]++
			work++
		case peer.DiffRevs:
			work++
		}
	}
	k, w := &r.commits, &r.watch
	invariant.Check(survivors > 0 == (k.busy() || w.looking), commitsAgree, survivors, int(k.step))
	invariant.Check(w.answers == 0 || w.looking && w.answers == survivors, looksAgree, w.answers, survivors)
	if r.stopping {
		return // the work was given up, and its counters with it
	}
	flying := r.work.packing.flying
	agree := flying[0] <= writes[0] && flying[1] <= writes[1] // small ones do not count
	invariant.Check(agree, writesAgree, flying[0], writes[0], flying[1], writes[1])
	r.work.audit(work, copies, memory)
}

// audit checks the pipeline against the number of its calls, of CopyDoc calls among them, and the budgets of
// FetchDocs calls.
func (p *pipeline) audit(work, copies, budgets int) {
	invariant.Check(p.memory >= budgets && (work > 0 || p.memory == 0), memoryAgrees, p.memory, budgets, work)
	slots := p.copySlots()
	invariant.Check(p.copies == copies && copies <= slots, copiesAgree, p.copies, copies, slots)
	if p.refused.asking {
		work--
	}
	if b := p.refused.batch; b != nil {
		work -= b.pending
	}
	busy, before := 0, p.commits.throughNumber
	for _, b := range p.batches {
		invariant.Check(b.first == before+1 && b.number >= b.first, inOrder, int(b.first), int(b.number), int(before))
		invariant.Check(b.pending >= 0, workAgrees, b.pending)
		before, work = b.number, work-b.pending
		switch b.stage {
		case diffing:
			busy, work = busy+1, work-1
		case moving:
			busy++
		}
	}
	invariant.Check(before == p.numbered, inOrder, int(before), int(p.numbered))
	invariant.Check(work == 0, workAgrees, work)
	invariant.Check(busy <= p.plan.MaxWorkers, withinLimit, busy)
}
