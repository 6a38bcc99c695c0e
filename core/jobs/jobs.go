// Package jobs is a durable queue of long-running background jobs on a transactional store, after
// CouchDB's RFC 007, for jobs of any type. A creator adds, replaces and removes jobs; workers accept
// them under a lock, update and finish them; monitors give the jobs of vanished workers to others. It
// knows nothing of replication, clocks or processes: due times and priorities come from the caller,
// and whether a worker still lives is told by versionstamps alone.
//
// # Life of a job
//
//	          Add                Accept              Finish
//	(absent) -----> pending ---------------> running ------> finished
//	                 |  ^ ^                   |  |             |
//	   ready <- waiting | +-- Finish when ----+  |             |
//	  (ordered)  (due)  |     resubmitted        |             |
//	                    +------- Expire ---------+             |
//	                    +--------------------------- Add, Resubmit
//
// A pending job stands in exactly one of three indexes: ready, ordered by the priority that its type
// chose; waiting, ordered by the time before which it may not run; or parked, in a lot, without any
// order. Promote moves it from the second to the first, so a reader of the ready queue never skips over
// sleeping jobs; a parked job stays where it is until it is resubmitted. A running job stands in the list
// of its worker.
//
// # Keys, below the root and the job type (type Keys)
//
//	("job", id)                     header: state, schedule, lock
//	("job", id, n)                  data, split over values
//	("ready") + priority + (id)     id
//	("waiting", due, id)            empty
//	("parked", lot, id)             empty
//	("owned", worker, batch, id)    empty, or "S" if the worker is asked to stop the job's run
//	("worker", worker)              lease: live with its timeout, or expired
//	("beat", worker)                versionstamp of the last heartbeat, and what the worker says of itself
//	("call", worker)                counter, raised when a job of the worker was taken from it or is to be stopped
//	("gone", name)                  a node that others gave up, for operators
//	("count", state, shard)         counter of jobs
//	("signal", bucket)              counter, raised whenever a job becomes ready
//	("changed", incarnation, version, id)
//	                                empty: the newest change of each job, in the order of changes
//	("incarnation")                 the store's incarnation, raised after it was restored into another cluster
//
// In RFC 007 they are "data" (job), "pending" (ready and waiting), "activity" (owned, with worker and beat),
// "activity_timeout" (worker) and "watches" (signal); its functions have their names here, resubmit of a worker
// is Requeue, get_job is Get, worker_conflict and canceled are errors, and subscribe and wait of couch_jobs are
// Subscribe.
//
// Every job that changes its state writes a counter. Each is spread over shards by the ids of jobs, and is
// the sum of its rows; a single row may be negative.
//
// # Locks and leases
//
// In RFC 007 every running job has a row that its worker has to renew ("Activity Monitor Implementation").
// Here liveness belongs to the worker: one heartbeat keeps any number of jobs, so that 100,000 running jobs
// do not take 10,000 transactions a second, and a worker whose versionstamp stands still for the activity
// timeout is expired as a whole.
//
// Mutual exclusion stays with the job ("Mutual Exclusion"). A worker that was expired may not know it yet,
// and no timeout can prevent that. So every write of a worker compares the job's lock, which is the worker
// and the number of the accept, in the same transaction, and fails once the job has another lock or none:
// with ErrWorkerConflict if others expired the worker, else with ErrCanceled.
// A worker name is used by one process only and a worker counts its accepts up as soon as one brought jobs,
// so no accept takes jobs under the lock of a run. One whose answer was lost may be repeated under its own lock
// after others removed all the jobs that it took; none of those had a run.
//
// # Repeated and late commits
//
// A commit with an unknown result may have happened, may still happen, or not, and the caller repeats it.
// Every function may be repeated so: it finds that its work is done, or does it again with the same result.
// And none lands late: each reads what it overwrites, so that a commit that arrives after a newer one
// conflicts with it and fails.
package jobs

import (
	"errors"
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Errors of the queue.
var (
	// ErrHalt tells a worker that it does not hold the job any more, and must write nothing for it. The queue
	// returns one of the two errors below, which say why; both match ErrHalt.
	ErrHalt = errors.New("job is not held by this worker any more")
	// ErrCanceled tells a worker that the job which it ran is over: it was removed, replaced, finished or
	// given back. No other worker was given it for the worker's silence.
	ErrCanceled = fmt.Errorf("%w: it was removed, replaced, finished or given back", ErrHalt)
	// ErrWorkerConflict tells a worker that it was expired and the job taken from it: the job is queued
	// again, or another worker runs it.
	ErrWorkerConflict = fmt.Errorf("%w: the worker was expired, and the job is queued again or runs elsewhere", ErrHalt)
	// ErrLeaseLost tells a worker that it was expired: none of its jobs is its own any more. Its process
	// may go on under a new name only.
	ErrLeaseLost = errors.New("worker's lease is lost")
	// ErrCorrupt means that rows of the store contradict each other.
	ErrCorrupt = errors.New("job queue is corrupt")
)

// UnreadableError tells of a job of which a row cannot be read, or contradicts others. Other jobs are not concerned.
type UnreadableError struct {
	Job string
	Err error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("job %q: %v", e.Job, e.Err) }

// Unwrap returns what is wrong.
func (e *UnreadableError) Unwrap() error { return e.Err }

// OfJob notes whose rows an error is about, unless that is known, or the store has failed.
func OfJob(id string, err error) error {
	if _, known := errors.AsType[*UnreadableError](err); known {
		return err
	}
	if errors.Is(err, ErrCorrupt) || errors.Is(err, kv.ErrUnreadable) {
		return &UnreadableError{id, err}
	}
	return err
}

// What the queue relies on. A breach rolls its transaction back.
const (
	headerFits invariant.ID = "jobs.header: a job has a lock exactly while it runs, and only then Resubmit or Stop"
	sameJob    invariant.ID = "jobs.move: a header replaces one of the same job"
)

// State is the state of a job in the queue. What the job's type calls its state is in its data.
type State uint8

// States of RFC 007.
const (
	Pending State = iota + 1
	Running
	Finished
)

func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Running:
		return "running"
	case Finished:
		return "finished"
	}
	return "unknown"
}

// Schedule determines when a pending job runs, and when a resubmitted one will.
type Schedule struct {
	// Priority orders ready jobs: a packed tuple, the lowest first. The job type chooses its shape, the
	// same for all its jobs.
	Priority []byte
	// Due is the moment before which the job may not run; 0 means at once.
	Due instant.Time
	// Lot, if not empty, parks the job: it stands in this lot, and in no order, until it is resubmitted without
	// one. The job type chooses the names of lots. Priority and Due are kept for it to come back to.
	Lot string
	// Label is what the job type's own indexes say of a pending job; see Queue.Moved. It is empty while the job
	// runs, and after a worker that ran it has vanished.
	Label string
}

// Lock is the right to run a job. It changes hands by Accept alone; Expire, Finish, Requeue and Remove end
// it. No two runs have the same.
type Lock struct {
	Worker string // name of a lease, never used by two processes
	Batch  uint64 // number of the worker's accept; see Demand.Batch
}

// Job is a job as stored.
type Job struct {
	ID    string
	State State
	Schedule
	// Resubmit marks a running job that is queued again, by Schedule, when it finishes. False in other
	// states.
	Resubmit bool
	// Stop marks a running job whose worker is asked to stop the run in order and to requeue the job. False in
	// other states.
	Stop bool
	// Lock is set exactly while the job runs.
	Lock Lock
	// Lost counts the workers that vanished while they ran the job, since a worker last finished, requeued or
	// absolved it. A job that brings its workers down is recognised by it. Not negative; a monitor's Expire adds to it.
	Lost int
	// Sequence is that of the last change of the header, and so of the state.
	Sequence Sequence
	// Data belongs to the job type.
	Data []byte
}

// coherent reports whether the parts of the header fit together: exactly the running jobs have a lock, only
// they can be resubmitted or stopped, and no number is negative.
func (j *Job) coherent() bool {
	running := j.State == Running
	known := j.State >= Pending && j.State <= Finished
	return known && running == (j.Lock != Lock{}) && (running || !j.Resubmit && !j.Stop) && j.Lost >= 0
}

// Ready reports whether a pending job stands in the ready queue.
func (j *Job) Ready() bool { return j.State == Pending && j.Due == 0 && j.Lot == "" }

// Keys says where a queue keeps its rows; the table in the package comment tells what they hold.
type Keys struct {
	Job, Ready, Waiting, Parked, Owned tuple.Subspace
	Worker, Beat, Call, Gone           tuple.Subspace
	Count, Signal, Changed             tuple.Subspace
	Incarnation                        []byte
}

// KeysBelow are the keys of the queue of jobType below root.
func KeysBelow(root tuple.Subspace, jobType string) Keys {
	space := root.Sub(jobType)
	return Keys{
		Job: space.Sub("job"), Ready: space.Sub("ready"), Waiting: space.Sub("waiting"),
		Parked: space.Sub("parked"), Owned: space.Sub("owned"), Worker: space.Sub("worker"), Beat: space.Sub("beat"),
		Call: space.Sub("call"), Gone: space.Sub("gone"), Count: space.Sub("count"), Signal: space.Sub("signal"),
		Changed: space.Sub("changed"), Incarnation: space.Pack("incarnation"),
	}
}

// Queue is the queue of one job type. It holds no state: everything is in the store.
type Queue struct {
	Keys Keys
	// Timeout is the activity timeout of the job type: how long a worker may be silent before monitors give its
	// jobs to others. Workers announce it in their leases. It is 0 for a type whose workers announce one of
	// their own in what they tell of themselves, as those of replications do: theirs is a setting that changes.
	Timeout time.Duration
	// Incarnation is that of the store, which Keys.Incarnate tells a process when it starts. While it is 0 changes
	// have no sequences, but of jobs that have one.
	Incarnation int64
	// Along, if set, is what the type of the jobs reads of a job that is accepted. It is prefetched.
	Along func(id string) kv.Range
	// Moved, if set, hears in the same transaction of every job whose header changes, for indexes of the jobs'
	// type. A new job has no old header, and one that goes away has no new one.
	Moved func(tx kv.Tx, old, to *Job)
}

// New returns the queue with these keys.
func New(k Keys) *Queue { return &Queue{Keys: k} }

// atOnce is how many jobs are prefetched together.
const atOnce = 100

// prefetch reads jobs that will be accepted, and for each the range that along names; along may be nil.
func (k Keys) prefetch(r kv.Reader, ids []string, along func(id string) kv.Range) {
	var ranges []kv.Range
	for _, id := range ids[:min(len(ids), atOnce)] {
		if ranges = append(ranges, k.Job.Sub(id).Range()); along != nil {
			ranges = append(ranges, along(id))
		}
	}
	r.Prefetch(nil, ranges)
}

// prefetchHeaders reads the headers of jobs that will be moved.
func (k Keys) prefetchHeaders(r kv.Reader, ids []string) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = k.Job.Pack(id)
	}
	r.Prefetch(keys, nil)
}

// WatchWorker fires when a job was taken from the worker, or is to be stopped.
func (q *Queue) WatchWorker(tx kv.Tx, worker string) kv.Watch {
	return tx.Watch(q.Keys.Call.Pack(worker))
}
