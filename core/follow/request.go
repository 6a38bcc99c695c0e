package follow

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// Request is a transaction that a worker asks for. It is idempotent: it may be repeated, also after it committed.
type Request interface {
	fmt.Stringer
	perform(tx kv.Tx, s *Store, now instant.Time) (Result, error)
}

// Result is the answer to a request.
type Result interface{ result() }

// Perform carries a request out in a transaction. now is the wall clock when the request was begun.
func Perform(tx kv.Tx, s *Store, q Request, now instant.Time) (Result, error) {
	result, err := q.perform(tx, s, now)
	if q, is := q.(interface{ job() string }); is {
		err = jobs.OfJob(q.job(), err)
	}
	return result, err
}

// Failed tells the worker that the transaction of a request ended with an error.
func Failed(id uint64, err error) Answer {
	a := Answer{ID: id, Outcome: OutcomeOf(err), Text: err.Error()}
	if e, is := errors.AsType[*jobs.UnreadableError](err); is {
		a.Unreadable = e.Job
	}
	if e, is := errors.AsType[*oddDoc](err); is {
		a.Part, a.Doc = true, e.id
	}
	return a
}

// Outcome is how the transaction of a request ended.
type Outcome uint8

// Outcomes.
const (
	Committed Outcome = iota
	Halted            // the job is not this worker's any more
	LeaseLost         // nor is any other
	StoreDown         // any other error; the request is repeated
)

func (o Outcome) String() string {
	return [...]string{"committed", "halted", "lease lost", "store error"}[o]
}

// OutcomeOf translates the error of a transaction.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Committed
	case errors.Is(err, jobs.ErrHalt):
		return Halted
	case errors.Is(err, jobs.ErrLeaseLost):
		return LeaseLost
	}
	return StoreDown
}

type (
	// Join registers the worker.
	Join struct{ Worker string }
	// Beat shows that the worker lives.
	Beat struct{ Worker string }
	// Watch reads all leases. It answers Watched.
	Watch struct{}
	// Expire gives the jobs of a worker back that sent no heartbeat after Beat, or of one that is gone for sure
	// (nil). It answers Expired.
	Expire struct {
		Worker  string
		Beat    *[10]byte
		Without []string // jobs that the worker could not read
	}
	// Accept takes jobs of the databases that the worker follows (their ids, sorted). It answers Accepted.
	Accept struct {
		Worker  string
		Batch   uint64
		Max     int
		Known   []string
		Without []string // jobs that the worker could not read
	}
	// Release gives a job back, to run again after Wait. If its run ended with an Error, that is stored with Errors,
	// the number of failures in a row. If the run ended in order, Error is empty, and the stored error stays.
	Release struct {
		Held
		Errors        int
		Error, Reason string
		Wait          time.Duration
	}
)

type (
	// Done is the answer of requests that tell nothing else.
	Done struct{}
	// Watched are all leases.
	Watched struct{ Leases []jobs.Lease }
	// Expired reports whether the worker holds no job any more.
	Expired struct{ Whole bool }
	// Accepted are the jobs that were taken.
	Accepted struct{ Jobs []Taken }
)

// Taken is a job in the hands of a worker.
type Taken struct {
	Held
	Job Job
}

// Held names a job and the lock under which this worker runs it.
type Held struct {
	ID   string
	Lock jobs.Lock
}

func (h Held) String() string {
	return fmt.Sprintf("%s under %s/%d", h.ID, h.Lock.Worker, h.Lock.Batch)
}

func (h Held) job() string { return h.ID }

func (Done) result()     {}
func (Watched) result()  {}
func (Expired) result()  {}
func (Accepted) result() {}

func (q Join) String() string   { return "join as " + q.Worker }
func (q Beat) String() string   { return "beat of " + q.Worker }
func (Watch) String() string    { return "look at leases" }
func (q Expire) String() string { return "expire " + q.Worker }
func (q Accept) String() string { return fmt.Sprintf("accept %d as %s/%d", q.Max, q.Worker, q.Batch) }
func (q Release) String() string {
	return fmt.Sprintf("release %s for %s %s", q.Held, q.Wait, q.Error)
}

func (q Join) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	return Done{}, s.Queue.Register(tx, q.Worker, nil)
}

func (q Beat) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	_, err := s.Queue.Heartbeat(tx, q.Worker, nil)
	return Done{}, err
}

func (Watch) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	list, err := s.Queue.Leases(tx.Snapshot())
	return Watched{list}, err
}

func (q Expire) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	whole, err := s.Queue.Expire(tx, q.Worker, q.Beat, MaxDatabases, q.Without...)
	return Expired{whole}, err
}

// perform also makes jobs ready whose back-off is over.
func (q Accept) perform(tx kv.Tx, s *Store, now instant.Time) (Result, error) {
	if _, _, err := s.Queue.Promote(tx, now, MaxDatabases, q.Without...); err != nil {
		return nil, err
	}
	// Due times that are further away come of a clock that was wrong.
	if _, err := s.Queue.Recall(tx, now.Add(2*pauses.Max), MaxDatabases, q.Without...); err != nil {
		return nil, err
	}
	demand := jobs.Demand{Batch: q.Batch, Max: q.Max, Window: q.Max}
	taken, err := s.Queue.Accept(tx, q.Worker, demand, q)
	if err != nil {
		return nil, err
	}
	var got Accepted
	for _, j := range taken.Jobs {
		data, err := decodeJob(j)
		if err != nil {
			return nil, jobs.OfJob(j.ID, err)
		}
		got.Jobs = append(got.Jobs, Taken{Held{j.ID, j.Lock}, *data})
	}
	return got, nil
}

// Passes is jobs.Judge's.
func (q Accept) Passes(id string) bool {
	_, known := slices.BinarySearch(q.Known, id)
	return !known || slices.Contains(q.Without, id)
}

// Judge is jobs.Judge's.
func (Accept) Judge(*jobs.Job) (jobs.Verdict, error) { return jobs.Verdict{}, nil }

func (q Release) perform(tx kv.Tx, s *Store, now instant.Time) (Result, error) {
	_, data, err := q.read(tx, s)
	if err != nil {
		return nil, err
	}
	if q.Error != "" { // the end of a run in order does not prove that it reached the database
		data.Errors, data.Error, data.Reason = q.Errors, q.Error, q.Reason
	}
	schedule := ready
	if q.Wait > 0 {
		schedule.Due = now.Add(q.Wait)
	}
	return Done{}, s.Queue.Requeue(tx, q.ID, q.Lock, schedule, data.encode())
}

// read reads the job, if this worker holds it.
func (h Held) read(tx kv.Tx, s *Store) (*jobs.Job, *Job, error) {
	j, err := s.Queue.GetHeld(tx, h.ID, h.Lock)
	if err != nil {
		return nil, nil, err
	}
	data, err := decodeJob(j)
	return j, data, err
}
