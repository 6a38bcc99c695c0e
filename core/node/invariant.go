package node

import "couchrelay/core/invariant"

// What a node relies on. A breach ends the process, since a node that is wrong about its lease or its runs
// could work on jobs of others; the lease expires and other nodes take the jobs.
const (
	steadyClock invariant.ID = "node.clock: the steady clock does not go back"
	leaseEnds   invariant.ID = "node.lease: a live lease ends within the announced activity timeout from now"
	oneRun      invariant.ID = "node.runs: no two runs have the same job"
	oneEnd      invariant.ID = "node.end: a run ends once"
	oneRequest  invariant.ID = "node.busy: the request of a run that is answered is the one that it waits for"
	oneAccept   invariant.ID = "node.accepting: accepting is set while an Accept or a Resume is in flight"
	owesTime    invariant.ID = "node.owed: a run owes no more time than it ran"
)
