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
	withinLimit  invariant.ID = "replication.workers: at most Workers batches are worked on at once"
	inOrder      invariant.ID = "replication.order: batches follow each other in the feed's order, without a gap"
	doneFirst    invariant.ID = "replication.done: a batch is done, with no work left, when it is passed"
	forward      invariant.ID = "replication.forward: committed <= writing <= through, in the order of the feed"
	rowsAgree    invariant.ID = "replication.rows: a checkpoint covers no more rows than were passed"
	commitsAgree invariant.ID = "replication.commits: the committer has calls exactly while it does not rest"
	looksAgree   invariant.ID = "replication.looks: looks counts the answers that a look at the databases waits for"
)

// audit checks, at the end of a step, that the counters which change as calls start and end agree with the
// calls that there are.
func (r *Run) audit() {
	var commits, copies, work, memory int
	for _, c := range r.calls {
		if c.commits {
			commits++
		}
		if c.batch != nil {
			work++
		}
		switch op := c.op.(type) {
		case peer.CopyDoc:
			copies++
		case peer.FetchDocs:
			memory += op.Budget
		}
	}
	k := &r.commits
	invariant.Check(commits > 0 == k.busy(), commitsAgree, commits, int(k.step))
	invariant.Check(k.looks == 0 || k.step == looking && k.looks == commits, looksAgree, k.looks, commits)
	if r.stopping {
		return // the work was given up, and its counters with it
	}
	invariant.Check(r.memory >= memory && (work > 0 || r.memory == 0), memoryAgrees, r.memory, memory, work)
	// Besides copies, each worker has a connection for its bulk requests, and the feed has one.
	slots := max(1, r.plan.Connections-r.plan.Workers-1)
	invariant.Check(r.copies == copies && copies <= slots, copiesAgree, r.copies, copies, slots)
	r.auditBatches(work)
}

// auditBatches checks the batches; work is the number of calls for them.
func (r *Run) auditBatches(work int) {
	busy, before := 0, r.commits.throughNumber
	for _, b := range r.batches {
		invariant.Check(b.first == before+1 && b.number >= b.first, inOrder, int(b.first), int(b.number), int(before))
		invariant.Check(b.pending >= 0, workAgrees, b.pending)
		before, work = b.number, work-b.calls()
		if b.stage == diffing || b.stage == moving {
			busy++
		}
	}
	invariant.Check(before == r.numbered, inOrder, int(before), int(r.numbered))
	invariant.Check(work == 0, workAgrees, work)
	invariant.Check(busy <= r.plan.Workers, withinLimit, busy)
}

// calls is how many calls the batch has: one that asks what the target lacks, then those that are pending.
func (b *batch) calls() int {
	if b.stage == diffing {
		return 1
	}
	return b.pending
}
