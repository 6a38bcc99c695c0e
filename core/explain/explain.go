package explain

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/ratelimit"
	"couchrelay/core/schedule"
)

// Cause is a reason why a job runs or does not.
type Cause string

// Causes, in the order in which they are told.
const (
	Completed Cause = "completed"          // it has copied everything that the target takes
	Failed    Cause = "failed"             // it does not run again
	Running   Cause = "running"            // a node runs it
	Lost      Cause = "worker_lost"        // its node was given up, and the job is about to be queued again
	Slowed    Cause = "slowed_down"        // a server has asked the node that runs it for fewer requests (429)
	Stopping  Cause = "stopping"           // its run was asked to stop
	Paused    Cause = "paused"             // by an operator
	ByDoc     Cause = "paused_by_document" // its document says so
	Held      Cause = "held"               // by a hold in force
	Lifted    Cause = "hold_lifted"        // it comes back from a hold
	Waits     Cause = "waits_for_job"      // another job has its replication
	Backoff   Cause = "backoff"            // it waits after a crash
	Returning Cause = "returning"          // it comes back from a lifted hold at a moment of its own
	Queued    Cause = "queued"             // other ready jobs stand before it
	Next      Cause = "next"               // no ready job stands before it
	NoNode    Cause = "no_node"            // no node takes jobs
	AllInUse  Cause = "slots_in_use"       // all slots of the nodes that take jobs are in use
	Throttled Cause = "throttled"          // its last crash came of answers 429
	Crashed   Cause = "crashed_before"     // its last crash is not forgotten yet
	Refused   Cause = "documents_refused"  // the target refused some and has not got them since
)

// MaxAhead bounds the ready jobs that are counted before a job.
const MaxAhead = 10_000

// Explanation is what is known of why a job runs or does not. Fields that do not apply are nil or empty; those that
// apply and are not known are, too, and stand in Unknown.
type Explanation struct {
	JobID string
	At    instant.Time // when it was asked for
	View  jobstore.View
	Why   []Cause

	Position *Position      // of a ready job
	Wait     *time.Duration // until it gets a slot, by estimate
	Account  Account
	Priority *schedule.Place // its place in the queue, or the one that it comes back to
	Due      instant.Time    // before which it does not run; 0 for none
	Problem  *Problem        // that it crashed or failed with last
	Holds    []jobstore.Hold
	Behind   *Behind
	Node     *Node // that runs it
	Slots    Slots
	Endpoint [2]Endpoint // source and target
	// Checkpoint has the sequence up to which a run may continue; empty when none was told.
	Checkpoint jobstore.SeqText
	Pending    *int64 // changes
	Told       instant.Time

	Unknown []Unknown
}

// Position is a place among the ready jobs.
type Position struct {
	Ahead int  // ready jobs before it, MaxAhead at most
	More  bool // there are more than MaxAhead
}

// Account is what the job's account has.
type Account struct {
	Name   string
	Shares int64
	Jobs   int64          // that are not over and not parked
	Usage  *time.Duration // of slots, where the policy goes by that
	Policy schedule.Policy
}

// Problem is an error with what it means.
type Problem struct {
	Error, Reason string
	Class, Advice string // see ErrorClass
	Count         int    // crashes in a row
}

// Behind is the job that has the replication of one that waits for it. Of a job that the asking user does not see it
// has the state alone.
type Behind struct {
	RepID, JobID    string
	Database, DocID string // of its document, empty if a request made it
	State           jobstore.State
}

// Node is the node that runs a job.
type Node struct {
	Name, Worker, Status string
	Seen                 instant.Time // when it sent its last heartbeat, by its own clock
	Expired              bool         // others have given it up
	Running, MaxJobs     int
	Stop                 bool // it was asked to stop the run
}

// Slots are those of the nodes that take jobs, as of their last heartbeats.
type Slots struct {
	Nodes, MaxJobs, Running int
	Free                    int // of each node together; a node whose max_jobs was lowered may run more
}

// Endpoint is a source or target.
type Endpoint struct {
	URL, Server string
	Holds       []string // ids of those in force for its server
	Checkpoints *bool    // whether it stores the checkpoints of the job
	// Limiter is which requests the node that runs the job holds back, since the server has asked for fewer; nil if
	// that is not known.
	Limiter []ratelimit.Kept
}

// Unknown is a field that applies and that the store does not tell, with the reason.
type Unknown struct{ Field, Reason string }

func (e *Explanation) unknown(field, reason string) {
	e.Unknown = append(e.Unknown, Unknown{field, reason})
}

// Is reports whether a cause is among the reasons.
func (e *Explanation) Is(c Cause) bool {
	for _, why := range e.Why {
		if why == c {
			return true
		}
	}
	return false
}
