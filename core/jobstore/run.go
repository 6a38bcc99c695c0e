package jobstore

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// Work is an accepted job with all that a run needs.
type Work struct {
	JobID       string
	Lock        jobs.Lock
	Record      *Record
	Replication *spec.Replication
	Lost        int // workers that vanished while they ran it
	Place       schedule.Place
}

// acceptBytes is about how much one accept reads and writes, if that is more than one job: 50 large records are more
// than a transaction may write, and 50 large replications more than it can read in its time.
const acceptBytes = 2 << 20

// Accept gives the worker jobs, which are running from then on. See jobs.Queue.Accept.
func (s *Store) Accept(tx kv.Tx, worker, node string, d jobs.Demand, now instant.Time) ([]Work, error) {
	list, size := make([]Work, 0, d.Max), 0
	read := func(j *jobs.Job) (enough bool, err error) {
		w, n, err := s.work(tx, j)
		if err != nil {
			return false, err
		}
		list, size = append(list, *w), size+n
		return size >= acceptBytes, nil
	}
	accepted, err := s.Jobs.Accept(tx, worker, d, read)
	if err != nil {
		return nil, err
	}
	for _, j := range accepted[len(list):] { // of an accept that is repeated
		if _, err := read(j); err != nil {
			return nil, err
		}
	}
	if err := s.dispatched(tx, list); err != nil {
		return nil, err
	}
	for _, w := range list {
		rec := w.Record
		if rec.State != Running || rec.Node != node || rec.LastStart != now {
			rec.State, rec.Node, rec.LastStart, rec.LastUpdated = Running, node, now, now
			rec.note(s.Config.MaxHistory, Event{Type: "started", At: now})
			if err := s.Jobs.Update(tx, w.JobID, w.Lock, rec.encode()); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// Held reads a job that the worker holds under lock, as Accept would have returned it.
func (s *Store) Held(tx kv.Tx, jobID string, lock jobs.Lock) (*Work, error) {
	j, err := s.Jobs.Get(tx, jobID)
	if err != nil {
		return nil, err
	}
	if j == nil || j.State != jobs.Running || j.Lock != lock {
		return nil, fmt.Errorf("job %q: %w", jobID, jobs.ErrHalt)
	}
	w, _, err := s.work(tx, j)
	return w, err
}

// work reads what a run needs, and says how many bytes that is.
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

// Progress stores the state of a run.
func (s *Store) Progress(tx kv.Tx, jobID string, lock jobs.Lock, stats Stats, now instant.Time) error {
	return s.change(tx, jobID, func(rec *Record) error {
		rec.Stats, rec.LastUpdated = stats, now
		if now.Sub(rec.LastStart) > s.Config.Backoff.Health {
			rec.heal()
			if err := s.Jobs.Absolve(tx, jobID, lock); err != nil {
				return err
			}
		}
		return s.Jobs.Update(tx, jobID, lock, rec.encode())
	})
}

// Complete ends a one-shot that copied everything; its document says so from the same moment.
func (s *Store) Complete(tx kv.Tx, jobID string, lock jobs.Lock, end replication.End, turn Turn, now instant.Time) error {
	return s.change(tx, jobID, func(rec *Record) error {
		rec.Stats, rec.Result = StatsOf(end.Info), end.Result
		rec.heal()
		rec.stop(s, now)
		return s.finish(tx, jobID, lock, rec, Completed, turn, now)
	})
}

// Fail ends a job for good; its document says why from the same moment.
func (s *Store) Fail(tx kv.Tx, jobID string, lock jobs.Lock, t replication.Trouble, turn Turn, now instant.Time) error {
	return s.change(tx, jobID, func(rec *Record) error {
		rec.Error, rec.Reason = t.Error, t.Reason
		rec.note(s.Config.MaxHistory, Event{Type: "crashed", At: now, Reason: t.String()})
		return s.finish(tx, jobID, lock, rec, Failed, turn, now)
	})
}

// finish ends the job and, with a document, writes its terminal state. A job that was resubmitted
// meanwhile is pending again.
func (s *Store) finish(tx kv.Tx, jobID string, lock jobs.Lock, rec *Record, state State, turn Turn, now instant.Time) error {
	rec.State, rec.Node, rec.LastUpdated = state, "", now
	if rec.Transient() {
		rec.Expires = now.Add(s.Config.TransientMaxAge)
		tx.Set(s.Keys.Expire.Pack(int64(rec.Expires), jobID), nil)
	}
	left, err := s.Jobs.Finish(tx, jobID, lock, rec.encode())
	if err != nil {
		return err
	}
	if left == jobs.Finished {
		s.leave(tx, rec)
	}
	if _, err := s.settle(tx, rec, turn, now); err != nil {
		return err
	}
	if rec.Transient() {
		return nil
	}
	return s.writeTerminal(tx, rec, now)
}

// Crash ends a run that could not go on. The job waits, longer after every crash in a row, and runs
// again; that of a request fails at once, unless its endpoints only asked to slow down. Without stats those
// that it had stay.
func (s *Store) Crash(tx kv.Tx, jobID string, lock jobs.Lock, t replication.Trouble, stats *Stats, turn Turn, seed uint64, now instant.Time) error {
	return s.change(tx, jobID, func(rec *Record) error {
		if stats != nil {
			rec.Stats = *stats
		}
		if rec.Transient() && !t.Throttled {
			rec.Error, rec.Reason = t.Error, t.Reason
			rec.note(s.Config.MaxHistory, Event{Type: "crashed", At: now, Reason: t.String()})
			return s.finish(tx, jobID, lock, rec, Failed, turn, now)
		}
		rng := prng.New(seed)
		rec.ErrorCount = s.Config.Backoff.Errors(rec.ErrorCount, now.Sub(rec.LastStart))
		due := now.Add(s.Config.Backoff.Jittered(rec.ErrorCount, &rng))
		rec.State, rec.Node, rec.Error, rec.Reason, rec.Throttled = Crashing, "", t.Error, t.Reason, t.Throttled
		rec.LastUpdated = now
		rec.note(s.Config.MaxHistory, Event{Type: "crashed", At: now, Reason: t.String()})
		return s.queue(tx, jobID, lock, rec, turn, due, now)
	})
}

// wrongClock is how far clocks of nodes may differ before times of one are taken for wrong. Nodes whose clocks are minutes
// behind must not end the waits that others gave.
const wrongClock = 24 * time.Hour

// Promote makes up to limit jobs ready whose wait after a crash is over, and says how many and when the next one is due.
// Those that wait for longer than anybody may crashed by a clock that was ahead: it would be years.
func (s *Store) Promote(tx kv.Tx, now instant.Time, limit int) (moved int, next instant.Time, err error) {
	moved, next, err = s.Jobs.Promote(tx, now, limit)
	if err != nil || moved == limit {
		return moved, next, err
	}
	recalled, err := s.Jobs.Recall(tx, now.Add(s.Config.Backoff.Max+wrongClock), limit-moved)
	return moved + recalled, next, err
}

// Requeue ends a run that was stopped in order; the job is pending and may run again at once.
func (s *Store) Requeue(tx kv.Tx, jobID string, lock jobs.Lock, stats *Stats, turn Turn, now instant.Time) error {
	return s.change(tx, jobID, func(rec *Record) error {
		if stats != nil {
			rec.Stats = *stats
		}
		rec.stop(s, now)
		rec.State, rec.Node, rec.LastUpdated = Pending, "", now
		rec.note(s.Config.MaxHistory, Event{Type: "pending", At: now})
		return s.queue(tx, jobID, lock, rec, turn, 0, now)
	})
}

// queue makes a job pending at the place that its turn has earned it.
func (s *Store) queue(tx kv.Tx, jobID string, lock jobs.Lock, rec *Record, turn Turn, due, now instant.Time) error {
	place, err := s.settle(tx, rec, turn, now)
	if err != nil {
		return err
	}
	return s.Jobs.Requeue(tx, jobID, lock, jobs.Schedule{Priority: rec.priority(place), Due: due}, rec.encode())
}

// change reads a record and hands it on; the caller stores it under the lock.
func (s *Store) change(tx kv.Tx, jobID string, f func(*Record) error) error {
	rec, err := s.Record(tx, jobID)
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("job %q: %w", jobID, jobs.ErrHalt)
	}
	return f(rec)
}

// heal forgets earlier crashes.
func (r *Record) heal() { r.ErrorCount, r.Error, r.Reason, r.Throttled = 0, "", "", false }

// stop notes the end of a run.
func (r *Record) stop(s *Store, now instant.Time) {
	r.note(s.Config.MaxHistory, Event{Type: "stopped", At: now})
}
