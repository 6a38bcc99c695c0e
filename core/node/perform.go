package node

import (
	"errors"
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// Perform carries a request out in a transaction. now is the wall clock when the request was begun,
// the same for every attempt.
func Perform(tx kv.Tx, s *jobstore.Store, q Request, now instant.Time) (Result, error) {
	switch q := q.(type) {
	case Join:
		info, err := q.Info.encode()
		if err != nil {
			return nil, err
		}
		return Ok{}, s.Jobs.Register(tx, q.Worker, info)
	case Beat:
		info, err := q.Info.encode()
		if err != nil {
			return nil, err
		}
		calls, err := s.Jobs.Heartbeat(tx, q.Worker, info)
		return Beaten{calls}, err
	case ListOwned:
		return listOwned(tx, s, q)
	case Retire:
		done, err := s.Jobs.Expire(tx, q.Worker, nil, q.Limit)
		return Progressed{done}, err
	case ListLeases:
		list, err := Members(tx.Snapshot(), s)
		return Leases{list}, err
	case Expire:
		done, err := s.Jobs.Expire(tx, q.Worker, q.Beat, q.Limit)
		return Progressed{done}, err
	case Accept:
		return accept(tx, s, q, now)
	case Resume:
		w, err := s.Held(tx, q.JobID, q.Lock)
		if err != nil {
			return nil, err
		}
		return Accepted{Work: []jobstore.Work{*w}}, nil
	case Promote:
		moved, next, err := s.Promote(tx, now, q.Limit)
		return Promoted{moved, next}, err
	case Survey:
		return survey(tx.Snapshot(), s, q, now)
	case Charge:
		return Ok{}, s.Charge(tx, q.Charges, now)
	case Tune:
		return Ok{}, s.Tune(tx, q.Seen, q.HalfLife, now)
	case Sweep:
		done, err := s.Sweep(tx, now, q.Limit)
		return Progressed{done}, err
	case Claim:
		return claim(tx, s, q, now)
	case Record:
		return Ok{}, s.Progress(tx, q.JobID, q.Lock, q.Stats, now)
	case Complete:
		return Ok{}, s.Complete(tx, q.JobID, q.Lock, q.End, q.Turn, now)
	case Crash:
		return Ok{}, s.Crash(tx, q.JobID, q.Lock, q.Trouble, q.Stats, q.Turn, q.Seed, now)
	case Fail:
		return Ok{}, s.Fail(tx, q.JobID, q.Lock, q.Trouble, q.Turn, now)
	case Requeue:
		return Ok{}, s.Requeue(tx, q.JobID, q.Lock, q.Stats, q.Turn, now)
	}
	panic(fmt.Sprintf("node: unknown request %T", q))
}

func accept(tx kv.Tx, s *jobstore.Store, q Accept, now instant.Time) (Result, error) {
	signal, err := s.Jobs.Signal(tx.Snapshot())
	if err != nil {
		return nil, err
	}
	work, err := s.Accept(tx, q.Worker, q.Node, q.Demand, now)
	return Accepted{Work: work, Signal: signal}, err
}

func survey(r kv.Reader, s *jobstore.Store, q Survey, now instant.Time) (Result, error) {
	var seen Surveyed
	var err error
	if seen.Counts, err = s.Jobs.Counts(r); err != nil {
		return nil, err
	}
	if seen.First, err = s.Ready(r, q.First); err != nil {
		return nil, err
	}
	if seen.Order, err = s.Order(r); err != nil {
		return nil, err
	}
	seen.Accounts, err = s.Accounts(r, q.Accounts, seen.Order, now)
	return seen, err
}

func listOwned(tx kv.Tx, s *jobstore.Store, q ListOwned) (Result, error) {
	calls, err := s.Jobs.Calls(tx, q.Worker)
	if err != nil {
		return nil, err
	}
	list, err := s.Jobs.Owned(tx.Snapshot(), q.Worker)
	return Owned{Jobs: list, Calls: calls}, err
}

func claim(tx kv.Tx, s *jobstore.Store, q Claim, now instant.Time) (Result, error) {
	err := s.Claim(tx, q.JobID, q.Lock, q.RepID, q.BaseID, now)
	var dup *jobstore.Duplicate
	if errors.As(err, &dup) {
		return Claimed{Refused: true, Reason: dup.Error(), Passing: dup.Passing}, nil
	}
	return Claimed{}, err
}

// FaultOf tells a node why a request's transaction failed.
func FaultOf(err error) Fault {
	switch {
	case err == nil:
		return NoFault
	case errors.Is(err, jobs.ErrHalt):
		return Halted
	case errors.Is(err, jobs.ErrLeaseLost):
		return LeaseLost
	}
	return StoreDown
}

// Arm sets up an Await. It returns nil when the counter already differs.
func Arm(tx kv.Tx, s *jobstore.Store, a Await) (kv.Watch, error) {
	var counter int64
	var err error
	if a.Topic == ReadyJobs {
		counter, err = s.Jobs.Signal(tx.Snapshot())
	} else {
		counter, err = s.Jobs.Calls(tx.Snapshot(), a.Worker)
	}
	if err != nil || counter != a.Seen {
		return nil, err
	}
	if a.Topic == ReadyJobs {
		return s.Jobs.WatchReady(tx), nil
	}
	return s.Jobs.WatchWorker(tx, a.Worker), nil
}
