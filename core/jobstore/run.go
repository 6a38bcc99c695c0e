package jobstore

import (
	"fmt"
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
	Place       schedule.Place    // in the queue, where it was accepted
	// Claimed reports that the job had the right to run as the replication of its record (see Hold.Claim)
	// when it was accepted.
	Claimed bool
}

// acceptBytes is about how many bytes of records and replications one accept takes, if that is more than
// one job: 50 large records are more than a transaction may write, and 50 large replications more than it
// can read in its time.
const acceptBytes = 2 << 20

// Accept gives the worker jobs, which are running from then on; see jobs.Queue.Accept for how they are
// chosen, what it conflicts with, and which job it says was left. An accept that is repeated after it
// committed returns the same jobs.
func (s *Store) Accept(
	tx kv.Tx, worker, node string, d jobs.Demand, now instant.Time,
) (list []Work, left string, err error) {
	q := s.Keys.Jobs
	tx.Prefetch(append(q.Signals(d.Part), q.Worker.Pack(worker), s.Keys.Order),
		[]kv.Range{q.Owned.Sub(worker, d.Batch).Range()})
	list, size := make([]Work, 0, d.Max), 0
	read := func(j *jobs.Job) (v jobs.Verdict, err error) {
		w, n, err := s.work(tx, j)
		if err != nil {
			return v, err
		}
		list, size = append(list, *w), size+n
		return jobs.Verdict{Full: size >= acceptBytes}, nil
	}
	taken, err := s.Jobs.Accept(tx, worker, d, read)
	if err != nil {
		return nil, "", err
	}
	for _, j := range taken.Jobs[len(list):] { // of an accept that is repeated
		if _, err := read(j); err != nil {
			return nil, "", err
		}
	}
	if err := s.dispatched(tx, list); err != nil {
		return nil, "", err
	}
	if err := s.Keys.claim(tx, list); err != nil {
		return nil, "", err
	}
	for _, w := range list {
		rec := w.Record
		if rec.State != Running || rec.Node != node || rec.LastStart != now {
			rec.State, rec.Node, rec.LastStart, rec.LastUpdated = Running, node, now, now
			rec.note(s.Config.MaxHistory, Event{Type: "started", At: now})
			if err := s.Jobs.Update(tx, w.JobID, w.Lock, rec.encode()); err != nil {
				return nil, "", err
			}
		}
	}
	return list, taken.Left, nil
}

// work reads what a run needs, and returns how many bytes it read.
func (s *Store) work(tx kv.Tx, j *jobs.Job) (w *Work, size int, err error) {
	rec, err := decodeRecord(j)
	if err != nil {
		return nil, 0, err
	}
	rep, size, err := s.spec(tx, j.ID)
	if err != nil {
		return nil, 0, err
	}
	if rep == nil {
		return nil, 0, fmt.Errorf("%w: job %q has no replication", jobs.ErrCorrupt, j.ID)
	}
	place, err := placeOf(j.Priority)
	return &Work{JobID: j.ID, Lock: j.Lock, Record: rec, Replication: rep, Lost: j.Lost, Place: place}, size + len(j.Data), err
}

// wrongClock is by how much a due time must exceed the longest wait there is (Backoff.Max) before it is
// taken for the mistake of a node whose clock was ahead. It is generous: a node whose clock is minutes
// behind sees due times that are that much too far away, and must not end the waits that other nodes gave.
const wrongClock = 24 * time.Hour

// Promote makes up to limit jobs ready whose wait after a crash is over. It returns how many, and when the
// next one is due. A job that crashed on a node whose clock was ahead could wait for years; see wrongClock.
func (s *Store) Promote(tx kv.Tx, now instant.Time, limit int) (moved int, next instant.Time, err error) {
	moved, next, err = s.Jobs.Promote(tx, now, limit)
	if err != nil || moved == limit {
		return moved, next, err
	}
	recalled, err := s.Jobs.Recall(tx, now.Add(s.Config.Backoff.Max+wrongClock), limit-moved)
	return moved + recalled, next, err
}
