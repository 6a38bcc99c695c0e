package jobstore

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// Work is an accepted job with all that a run needs.
type Work struct {
	JobID       string
	Lock        jobs.Lock
	Record      *Record
	Replication *spec.Replication // with its credentials
	Lost        int               // how many workers vanished with it; see jobs.Job.Lost
	Stop        bool              // its run is to be stopped; see jobs.Queue.Stop
	Place       schedule.Place    // in the queue, where it was accepted
	// Claimed reports that the job had the right to run as the replication of its record (see Owned.Claim)
	// when it was accepted.
	Claimed bool
}

// String is the work as traces have it: the same for the same work, and without credentials.
func (w Work) String() string {
	return fmt.Sprintf("{%s of %s/%d lost %d stop %t claimed %t at %+v}", w.JobID, w.Lock.Worker, w.Lock.Batch, w.Lost,
		w.Stop, w.Claimed, w.Place)
}

// acceptBytes is about how many bytes of records and replications one accept takes, if that is more than
// one job: 50 large records are more than a transaction may write, and 50 large replications more than it
// can read in its time.
const acceptBytes = 2 << 20

// keyBytes is how many bytes an accepted job writes for each byte of its id, at most: the id is in many keys with their
// conflict ranges, and a zero byte takes two there.
const keyBytes = 50

// Taken is the result of an accept; see jobs.Taken.
type Taken struct {
	Work   []Work
	Left   string
	Parked int
	Passed string
}

// Accept gives the worker jobs, which are running from then on; see jobs.Queue.Accept for how they are
// chosen, and what it conflicts with. It parks those that are paused or under a hold, and conflicts with every
// new hold, so no job is accepted once a hold has committed that matches it. It passes over jobs of databases that had
// been deleted when it read, and leaves them to the sweep; see SweepDropped. So it does over the jobs in without, which
// an accept before it could not read; see jobs.UnreadableError. An accept that is repeated after it
// committed returns the same jobs.
func (s *Store) Accept(
	tx kv.Tx, worker, node string, d jobs.Demand, now instant.Time, without ...string,
) (Taken, error) {
	q := s.Keys.Jobs
	tx.Prefetch(append(q.Signals(d.Part), q.Worker.Pack(worker), s.Keys.Order, s.Keys.Reindex),
		[]kv.Range{q.Owned.Sub(worker, d.Batch).Range(), s.Keys.Held.Range(), s.Keys.Dropped.Range()})
	holds, err := s.Keys.Holds(tx)
	if err != nil {
		return Taken{}, err
	}
	dropped, err := s.Keys.DroppedDBs(tx.Snapshot()) // each batch of a sweep writes there
	if err != nil {
		return Taken{}, err
	}
	t := taking{s: s, tx: tx, holding: HoldingOf(holds), dropped: dropped, without: without}
	taken, err := s.Jobs.Accept(tx, worker, d, &t)
	if err != nil {
		return Taken{}, err
	}
	for _, j := range taken.Jobs[len(t.list):] { // of an accept that is repeated
		if err := t.read(j); err != nil {
			return Taken{}, jobs.OfJob(j.ID, err)
		}
		t.list = append(t.list, *t.last)
	}
	if err := s.dispatched(tx, t.list); err != nil {
		return Taken{}, err
	}
	if err := s.Keys.claim(tx, t.list); err != nil {
		return Taken{}, err
	}
	return Taken{Work: t.list, Left: taken.Left, Parked: taken.Parked, Passed: taken.Passed}, t.begin(node, now)
}

// taking is an accept under way.
type taking struct {
	s       *Store
	tx      kv.Tx
	holding Holding
	dropped Dropped
	without []string // jobs that cannot be read
	list    []Work
	last    *Work // that was read
	size    int   // of what was read, in bytes
}

func (t *taking) read(j *jobs.Job) error {
	w, n, err := t.s.work(t.tx, j)
	t.last, t.size = w, t.size+n+keyBytes*len(j.ID)
	return err
}

// Passes passes over the jobs of deleted databases, and those that cannot be read.
func (t *taking) Passes(jobID string) bool {
	return t.dropped.Has(jobID) || slices.Contains(t.without, jobID)
}

// Judge takes a job, or parks it if it must not run.
func (t *taking) Judge(j *jobs.Job) (v jobs.Verdict, err error) {
	if err := t.read(j); err != nil {
		return v, err
	}
	v.Full = t.size >= acceptBytes
	switch hold := t.holding.Stops(t.last.Record); {
	case t.last.Record.paused():
		// Reached: a job that was given back is paused
		v.Lot = lotPaused
	case hold != "":
		// Reached: a job under a hold is parked when its turn comes
		v.Lot = lotHeld + hold
	default:
		t.list = append(t.list, *t.last)
		return v, nil
	}
	t.s.leave(t.tx, t.last.Record)
	return v, nil
}

// begin notes the start in the records.
func (t *taking) begin(node string, now instant.Time) error {
	for _, w := range t.list {
		rec := w.Record
		if rec.State == Running && rec.Node == node && rec.LastStart == now {
			continue
		}
		rec.State, rec.Node, rec.LastStart, rec.LastUpdated = Running, node, now, now
		if rec.Reset != 0 {
			rec.Stats = Stats{} // a run that was asked to stop may have told others since
		}
		rec.note(t.s.Config.MaxHistory, Event{Type: "started", At: now})
		if err := t.s.Jobs.Update(t.tx, w.JobID, w.Lock, rec.encode()); err != nil {
			return err
		}
	}
	return nil
}

// Reads fails with a jobs.UnreadableError if a job is there, and what its run needs cannot be read. A job that is over
// may have no replication.
func Reads(s *Store, r kv.Reader, jobID string) error {
	j, err := s.Jobs.Get(r, jobID)
	switch {
	case err != nil || j == nil:
	case j.State == jobs.Finished:
		_, err = decodeRecord(j)
	default:
		_, _, err = s.work(r, j)
	}
	return jobs.OfJob(jobID, err)
}

// work reads what a run needs, and returns how many bytes it read.
func (s *Store) work(r kv.Reader, j *jobs.Job) (w *Work, size int, err error) {
	rec, err := decodeRecord(j)
	if err != nil {
		return nil, 0, err
	}
	rep, size, err := s.spec(r, j.ID)
	if err != nil {
		return nil, 0, err
	}
	if rep == nil {
		return nil, 0, fmt.Errorf("%w: job %q has no replication", jobs.ErrCorrupt, j.ID)
	}
	place, err := placeOf(j.Priority)
	w = &Work{
		JobID: j.ID, Lock: j.Lock, Record: rec, Replication: rep, Lost: j.Lost, Stop: j.Stop, Place: place,
	}
	return w, size + len(j.Data), err
}

// wrongClock is by how much a due time must exceed the longest wait there is (Backoff.Max) before it is
// taken for the mistake of a node whose clock was ahead. It is generous: a node whose clock is minutes
// behind sees due times that are that much too far away, and must not end the waits that other nodes gave.
const wrongClock = 24 * time.Hour

// Promote makes up to limit jobs ready whose wait after a crash is over, and has jobs of lifted holds come back.
// It returns how many, and when the next one was due before. A job that crashed on a node whose clock was ahead
// could wait for years; see wrongClock. It leaves the jobs in without where they are, which one before it could not
// read; see jobs.UnreadableError.
func (s *Store) Promote(
	tx kv.Tx, now instant.Time, limit int, without ...string,
) (moved int, next instant.Time, err error) {
	moved, next, err = s.Jobs.Promote(tx, now, limit, without...)
	if err != nil || moved == limit {
		return moved, next, err
	}
	recalled, err := s.Jobs.Recall(tx, now.Add(s.Config.Backoff.Max).Add(wrongClock), limit-moved, without...)
	if err != nil {
		return moved, next, err
	}
	moved += recalled
	released, err := lots{s, tx}.release(now, limit-moved, without)
	return moved + released, next, err
}
