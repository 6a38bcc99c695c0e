package node

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// Request is a transaction that a node asks for; see Perform for what each does.
type Request interface {
	fmt.Stringer
	request()
}

// Held names a job and the lock under which this worker runs it.
type Held struct {
	JobID string
	Lock  jobs.Lock
}

func (h Held) String() string {
	return fmt.Sprintf("%s under %s/%d", h.JobID, h.Lock.Worker, h.Lock.Batch)
}

type (
	// Join registers the worker.
	Join struct {
		Worker string
		Info   Info
	}
	// Beat shows that the worker lives. It answers Beaten.
	Beat struct {
		Worker string
		Info   Info
	}
	// ListOwned reads the jobs that the store says this worker holds. It answers Owned.
	ListOwned struct{ Worker string }
	// Retire gives up the lease; jobs that are still held become ready. It answers Progressed.
	Retire struct {
		Worker string
		Limit  int
	}
	// ListLeases reads all leases. It answers Leases.
	ListLeases struct{}
	// Expire gives the jobs of another worker back; see jobs.Queue.Expire. It answers Progressed.
	Expire struct {
		Worker string
		Beat   *[10]byte
		Limit  int
	}
	// Accept takes jobs. It answers Accepted.
	Accept struct {
		Worker, Node string
		Demand       jobs.Demand
	}
	// Resume reads a job that this worker turns out to hold. It answers Accepted.
	Resume struct{ Held }
	// Promote makes due jobs ready. It answers Promoted.
	Promote struct{ Limit int }
	// Survey looks at the queue: the first jobs of it, so many, and what the accounts of this worker's jobs
	// stand at. It answers Surveyed.
	Survey struct {
		First    int
		Accounts []string
	}
	// Charge stores what this worker's jobs used.
	Charge struct{ Charges []schedule.Charge }
	// Tune changes the half-life of priorities; see jobstore.Store.Tune.
	Tune struct {
		Seen     schedule.Decay
		HalfLife time.Duration
	}
	// Sweep removes what nobody needs any more; see jobstore.Store.Sweep. It answers Progressed.
	Sweep struct{ Limit int }

	// Claim asks for the right to run as a replication. It answers Claimed.
	Claim struct {
		Held
		RepID, BaseID string
	}
	// Record stores the progress of a run.
	Record struct {
		Held
		Stats jobstore.Stats
	}
	// Complete ends a job that copied everything.
	Complete struct {
		Held
		End  replication.End
		Turn jobstore.Turn
	}
	// Crash ends a run that could not go on, or never began: then it has no Stats.
	Crash struct {
		Held
		Trouble replication.Trouble
		Stats   *jobstore.Stats
		Turn    jobstore.Turn
		Seed    uint64
	}
	// Fail ends a job for good.
	Fail struct {
		Held
		Trouble replication.Trouble
		Turn    jobstore.Turn
	}
	// Requeue ends a run that was stopped.
	Requeue struct {
		Held
		Stats *jobstore.Stats
		Turn  jobstore.Turn
	}
)

func (Join) request()       {}
func (Beat) request()       {}
func (ListOwned) request()  {}
func (Retire) request()     {}
func (ListLeases) request() {}
func (Expire) request()     {}
func (Accept) request()     {}
func (Resume) request()     {}
func (Promote) request()    {}
func (Survey) request()     {}
func (Charge) request()     {}
func (Tune) request()       {}
func (Sweep) request()      {}
func (Claim) request()      {}
func (Record) request()     {}
func (Complete) request()   {}
func (Crash) request()      {}
func (Fail) request()       {}
func (Requeue) request()    {}

func (q Join) String() string      { return "join as " + q.Worker }
func (q Beat) String() string      { return "beat of " + q.Worker }
func (q ListOwned) String() string { return "list jobs of " + q.Worker }
func (q Retire) String() string    { return "retire " + q.Worker }
func (ListLeases) String() string  { return "list leases" }
func (q Expire) String() string    { return "expire " + q.Worker }
func (q Accept) String() string {
	return fmt.Sprintf("accept %d as %s/%d", q.Demand.Max, q.Worker, q.Demand.Batch)
}
func (q Resume) String() string   { return "resume " + q.Held.String() }
func (Promote) String() string    { return "promote" }
func (Survey) String() string     { return "survey" }
func (q Charge) String() string   { return fmt.Sprintf("charge %v", q.Charges) }
func (q Tune) String() string     { return "tune half-life to " + q.HalfLife.String() }
func (Sweep) String() string      { return "sweep" }
func (q Claim) String() string    { return "claim " + q.RepID + " for " + q.Held.String() }
func (q Record) String() string   { return "record " + q.Held.String() }
func (q Complete) String() string { return "complete " + q.Held.String() }
func (q Crash) String() string    { return "crash " + q.Held.String() + ": " + q.Trouble.String() }
func (q Fail) String() string     { return "fail " + q.Held.String() + ": " + q.Trouble.String() }
func (q Requeue) String() string  { return "requeue " + q.Held.String() }

// Result is what a request answers.
type Result interface{ result() }

type (
	// Ok says that it happened.
	Ok struct{}
	// Beaten carries the worker's call counter.
	Beaten struct{ Calls int64 }
	// Owned lists what the worker holds, and its call counter at that moment.
	Owned struct {
		Jobs  []jobs.Held
		Calls int64
	}
	// Progressed says whether the work is done or has to be asked for again.
	Progressed struct{ Done bool }
	// Leases lists all workers.
	Leases struct{ List []Member }
	// Accepted are jobs to run, and the signal counter of the ready queue.
	Accepted struct {
		Work   []jobstore.Work
		Signal int64
	}
	// Promoted says how many jobs became ready and when, by the wall clock, the next one is due.
	Promoted struct {
		Moved int
		Next  instant.Time
	}
	// Surveyed is what a Survey saw. Accounts are in the order of the question.
	Surveyed struct {
		jobs.Counts
		First    []schedule.Place
		Order    schedule.Order
		Accounts []schedule.Account
	}
	// Claimed says whether the run may go on. Otherwise Reason says who is in the way, and Passing
	// whether that will be gone one day: the job of a request, or of a deleted database.
	Claimed struct {
		Refused bool
		Reason  string
		Passing bool
	}
)

func (Ok) result()         {}
func (Beaten) result()     {}
func (Owned) result()      {}
func (Progressed) result() {}
func (Leases) result()     {}
func (Accepted) result()   {}
func (Promoted) result()   {}
func (Surveyed) result()   {}
func (Claimed) result()    {}
