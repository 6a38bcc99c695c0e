package node

import (
	"errors"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// Perform carries a request out in a transaction. now is the wall clock when the request was begun, the
// same for every attempt.
func Perform(tx kv.Tx, s *jobstore.Store, q Request, now instant.Time) (Result, error) {
	result, err := q.perform(tx, s, now)
	if h, is := q.(HeldRequest); is {
		err = jobs.OfJob(h.HeldJob().JobID, err)
	}
	return result, err
}

// OutcomeOf translates the error of a request's transaction for the node; nil is Committed.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Committed
	case errors.Is(err, jobs.ErrCanceled):
		return Canceled
	case errors.Is(err, jobs.ErrHalt):
		return Halted
	case errors.Is(err, jobs.ErrLeaseLost):
		return LeaseLost
	}
	return StoreDown
}

// Arm sets a watch for an Await. It returns nil if the counter differs already. The counter is read in the
// transaction that sets the watch, so that no change between the two goes unnoticed.
func Arm(tx kv.Tx, s *jobstore.Store, a Await) (kv.Watch, error) {
	var counter int64
	var err error
	if a.Topic == ReadyJobs {
		counter, err = s.Jobs.Signal(tx.Snapshot(), a.Part)
	} else {
		counter, err = s.Jobs.Calls(tx.Snapshot(), a.Worker)
	}
	if err != nil || counter != a.Seen {
		return nil, err
	}
	if a.Topic == ReadyJobs {
		return s.Jobs.WatchReady(tx, a.Part), nil
	}
	return s.Jobs.WatchWorker(tx, a.Worker), nil
}

// Failed tells the node that the transaction of a request ended with an error.
func Failed(id uint64, err error) Done {
	done := Done{ID: id, Fault: OutcomeOf(err), Text: err.Error()}
	if e, is := errors.AsType[*jobs.UnreadableError](err); is {
		done.Unreadable = e.Job
	}
	return done
}
