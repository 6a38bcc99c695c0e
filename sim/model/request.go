package model

import "couchrelay/core/node"

// path is transitions that one commit makes of one job, in order.
type path []transition

func (p path) last() transition { return p[len(p)-1] }

// Paths of a commit.
var (
	ofUsers = []path{
		{adds}, {addsOver}, {removes}, {retells}, {comesBack}, {comesBack, hurries}, {parks}, {hurries}, {updates},
		{stops, updates}, {removes, adds}, {removes, addsOver}, {rewrites},
	}
	ofAccepts = []path{{accepts, updates}, {holds}, {updates}} // of a repetition, which tells when it was
	// ofPromotes end with what a job has that others wait for: it is told of them.
	ofPromotes  = []path{{promotes}, {comesBack}, {retells}, {updates}, {promotes, retells}}
	ofExpiry    = []path{{expires}}
	ofLeave     = []path{{returns}} // of a worker that gives its lease up
	ofSweeps    = []path{{removes}, {comesBack}, {labels}}
	ofReports   = []path{{updates}, {absolves, updates}}
	ofClaims    = []path{{updates}}
	ofEnds      = []path{{finishes}}
	ofCompletes = []path{{finishes}, {queues}}   // queued when it is to start over
	ofCrashes   = []path{{backsOff}, {finishes}} // finished when it is of a request
	ofTurns     = []path{{queues}}
	// ofHeirs are those of a job that waits for a replication which another job gives up, or that learns that another
	// one waits.
	ofHeirs = []path{{comesBack}, {retells}, {updates}}
)

// paths are those that a request allows for a job.
func paths(q node.Request, id string) []path {
	if held, is := q.(node.HeldRequest); is && held.HeldJob().JobID != id {
		return ofHeirs
	}
	switch q := q.(type) {
	case nil:
		return ofUsers
	case node.Accept:
		return ofAccepts
	case node.Promote:
		return ofPromotes
	case node.Expire:
		if q.Beat != nil {
			return ofExpiry
		}
		return ofLeave
	case node.Retire:
		return ofLeave
	case node.Sweep:
		return ofSweeps
	case node.Record:
		return ofReports
	case node.Claim, node.StoreRefused:
		return ofClaims
	case node.Complete:
		return ofCompletes
	case node.Fail:
		return ofEnds
	case node.Crash:
		return ofCrashes
	case node.Requeue, node.StandBy:
		return ofTurns
	}
	return nil
}
