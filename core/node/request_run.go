package node

import (
	"errors"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// Claim asks for the right to run as a replication.
type Claim struct {
	Held
	RepID, BaseID string
}

// Claimed tells whether the run may go on. If it is Refused, Reason names the job that has the replication,
// and Passing reports that this job will be gone one day: it was made by a request, or its database was
// deleted.
type Claimed struct {
	Refused bool
	Reason  string
	Passing bool
	Waits   bool // the job is to wait for the other one's end; see StandBy
}

func (q Claim) String() string { return "claim " + q.RepID + " for " + q.Held.String() }

func (q Claim) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	err := q.owned(tx, s, now).Claim(q.RepID, q.BaseID)
	var dup *jobstore.Duplicate
	if errors.As(err, &dup) {
		return Claimed{Refused: true, Reason: dup.Error(), Passing: dup.Passing, Waits: dup.Waits}, nil
	}
	return Claimed{}, err
}

func (q Claim) answered(n *Node, c *call, e Done) {
	n.claimed(c.run, q, e.Result.(Claimed))
	n.write(c.run)
}

func (Claimed) result() {}

// StandBy ends a run whose job has to wait for the end of another one that has its replication.
type StandBy struct {
	Held
	RepID, BaseID string
	Turn          jobstore.Turn
}

func (q StandBy) String() string { return "stand by " + q.Held.String() + " for " + q.RepID }

// EndedTurn is the turn of the run, which copied nothing.
func (q StandBy) EndedTurn() jobstore.Turn { return q.Turn }

func (q StandBy) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, q.owned(tx, s, now).StandBy(q.RepID, q.BaseID, q.Turn)
}

func (q StandBy) answered(n *Node, c *call, _ Done) { n.free(c.run) }

// Record stores the progress of a run.
type Record struct {
	Held
	Stats jobstore.Stats
	Reset instant.Time // see jobstore.Owned.Reset
}

func (q Record) String() string { return "record " + q.Held.String() }

func (q Record) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, q.resetting(tx, s, now, q.Reset).Progress(q.Stats)
}

func (q Record) answered(n *Node, c *call, _ Done) { n.write(c.run) }

// Complete ends a job that copied everything.
type Complete struct {
	Held
	End   replication.End
	Turn  jobstore.Turn
	Reset instant.Time
}

func (q Complete) String() string { return "complete " + q.Held.String() }

// EndedTurn is the turn of the run that completed.
func (q Complete) EndedTurn() jobstore.Turn { return q.Turn }

func (q Complete) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, q.resetting(tx, s, now, q.Reset).Complete(q.End, q.Turn)
}

func (q Complete) answered(n *Node, c *call, _ Done) { n.free(c.run) }

// Crash ends a run that could not go on, or that never began: then it has no Stats.
type Crash struct {
	Held
	Trouble replication.Trouble
	Stats   *jobstore.Stats
	Turn    jobstore.Turn
	Seed    uint64 // of the jitter of the wait, so that every attempt waits equally long
	Reset   instant.Time
}

func (q Crash) String() string { return "crash " + q.Held.String() + ": " + q.Trouble.String() }

// EndedTurn is the turn of the run that crashed.
func (q Crash) EndedTurn() jobstore.Turn { return q.Turn }

func (q Crash) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, q.resetting(tx, s, now, q.Reset).Crash(q.Trouble, q.Stats, q.Turn, q.Seed)
}

func (q Crash) answered(n *Node, c *call, _ Done) { n.free(c.run) }

// Fail ends a job for good.
type Fail struct {
	Held
	Trouble replication.Trouble
	Turn    jobstore.Turn
	Stats   *jobstore.Stats      // nil without Refused
	Refused *replication.Finding // the document for whose sake it fails; nil if it fails for another reason
}

func (q Fail) String() string { return "fail " + q.Held.String() + ": " + q.Trouble.String() }

// EndedTurn is the turn of the last run of the job.
func (q Fail) EndedTurn() jobstore.Turn { return q.Turn }

func (q Fail) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	if q.Refused != nil {
		return Ok{}, q.owned(tx, s, now).FailRefused(q.Trouble, *q.Stats, *q.Refused, q.Turn)
	}
	return Ok{}, q.owned(tx, s, now).Fail(q.Trouble, q.Turn)
}

func (q Fail) answered(n *Node, c *call, _ Done) { n.free(c.run) }

// Requeue ends a run that was stopped.
type Requeue struct {
	Held
	Stats *jobstore.Stats // nil if the run told nothing at its end
	Turn  jobstore.Turn
	Reset instant.Time
}

func (q Requeue) String() string { return "requeue " + q.Held.String() }

// EndedTurn is the turn of the run that was stopped.
func (q Requeue) EndedTurn() jobstore.Turn { return q.Turn }

func (q Requeue) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, q.resetting(tx, s, now, q.Reset).Requeue(q.Stats, q.Turn)
}

func (q Requeue) answered(n *Node, c *call, _ Done) { n.free(c.run) }
