package jobstore

import (
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// Owned is a job in the hands of the worker that runs it, for one transaction. Every write of an Owned
// compares the job's lock in the same transaction and fails with jobs.ErrHalt when the worker does not hold
// the job any more, so that a worker that stood still cannot overwrite what its successor wrote (fencing).
type Owned struct {
	s     *Store
	tx    kv.Tx
	jobID string
	lock  jobs.Lock
	now   instant.Time // by the worker's wall clock, when the request was begun
	// Reset is the order to start over (Control.Reset) that the run has carried out, 0 for none.
	Reset instant.Time
}

// Owned returns the job that a worker holds under lock, to write to it in tx.
func (s *Store) Owned(tx kv.Tx, jobID string, lock jobs.Lock, now instant.Time) Owned {
	return Owned{s: s, tx: tx, jobID: jobID, lock: lock, now: now}
}

// Work reads the job as Accept would have returned it.
func (h Owned) Work() (*Work, error) {
	j, err := h.s.Jobs.GetHeld(h.tx, h.jobID, h.lock)
	if err != nil {
		return nil, err
	}
	w, _, err := h.s.work(h.tx, j)
	if err != nil {
		return nil, err
	}
	owner, err := h.s.JobOf(h.tx, w.Record.RepID)
	w.Claimed = owner == h.jobID
	return w, err
}

// Progress stores the numbers of a run under way. A run that is healthy for long enough makes up for
// earlier crashes, and for workers that vanished with the job.
func (h Owned) Progress(stats Stats) error {
	return h.change(func(rec *Record) error {
		rec.tell(stats)
		rec.LastUpdated = h.now
		if h.now.Sub(rec.LastStart) > h.s.Config.Backoff.Health {
			rec.heal()
			if err := h.s.Jobs.Absolve(h.tx, h.jobID, h.lock); err != nil {
				return err
			}
		}
		return h.s.Jobs.Update(h.tx, h.jobID, h.lock, rec.encode())
	})
}

// Complete ends a one-shot that copied everything; its document says so from the same moment.
func (h Owned) Complete(end replication.End, turn Turn) error {
	h.foreseeEnd()
	return h.change(func(rec *Record) error {
		rec.Stats, rec.Result = StatsOf(end.Info), end.Result
		rec.Stuck = 0
		rec.heal()
		h.stopped(rec)
		if rec.Reset != 0 {
			// Reached: a one-shot is over before it hears that it is to start over
			return h.again(rec, turn)
		}
		return h.finish(rec, Completed, turn)
	})
}

// Fail ends a job for good; its document says why from the same moment.
func (h Owned) Fail(t replication.Trouble, turn Turn) error {
	return h.fail(t, turn, func(*Record) error { return nil })
}

// FailRefused is Fail for the sake of a document that the target refused, which is listed.
func (h Owned) FailRefused(t replication.Trouble, stats Stats, f replication.Finding, turn Turn) error {
	return h.fail(t, turn, func(rec *Record) error {
		rec.Stats = stats
		return h.list(rec, byEnd, []replication.Finding{f})
	})
}

func (h Owned) fail(t replication.Trouble, turn Turn, more func(*Record) error) error {
	h.foreseeEnd()
	return h.change(func(rec *Record) error {
		if err := more(rec); err != nil {
			return err
		}
		rec.Error, rec.Reason = t.Error, t.Reason
		h.note(rec, crashed(h.now, t))
		return h.finish(rec, Failed, turn)
	})
}

// Crash ends a run that could not go on. The job waits, longer after every crash in a row (RFC 016,
// exponential backoff), and runs again. The job of a request fails at once instead, unless its endpoints
// only asked to slow down. Without stats the job keeps the numbers that it had. seed draws the jitter of
// the wait, so that every attempt of the transaction stores the same due time.
func (h Owned) Crash(t replication.Trouble, stats *Stats, turn Turn, seed uint64) error {
	h.foreseeTurn()
	return h.change(func(rec *Record) error {
		if stats != nil {
			rec.tell(*stats)
			rec.Stuck++
		}
		if rec.Transient() && !t.Throttled {
			rec.Error, rec.Reason = t.Error, t.Reason
			h.note(rec, crashed(h.now, t))
			return h.finish(rec, Failed, turn)
		}
		rng := prng.New(seed)
		backoff := h.s.Config.Backoff
		rec.ErrorCount = backoff.Errors(rec.ErrorCount, h.now.Sub(rec.LastStart))
		due := h.now.Add(backoff.Jittered(rec.ErrorCount, &rng))
		rec.State, rec.Node, rec.Error, rec.Reason, rec.Throttled = Crashing, "", t.Error, t.Reason, t.Throttled
		rec.LastUpdated = h.now
		h.note(rec, crashed(h.now, t))
		return h.queue(rec, turn, due)
	})
}

// crashed is the event of a run that could not go on. One that got nowhere has a type of its own.
func crashed(at instant.Time, t replication.Trouble) Event {
	e := Event{Type: "crashed", At: at, Reason: t.String()}
	if t.Error == "stalled" {
		e.Type = "stalled"
	}
	return e
}

// Requeue ends a run that was stopped in order; the job is pending and may run again at once.
func (h Owned) Requeue(stats *Stats, turn Turn) error {
	h.foreseeTurn()
	return h.change(func(rec *Record) error {
		if stats != nil {
			rec.tell(*stats)
		}
		h.stopped(rec)
		return h.again(rec, turn)
	})
}

// again makes the job pending, to run again at once.
func (h Owned) again(rec *Record, turn Turn) error {
	rec.State, rec.Node, rec.LastUpdated = Pending, "", h.now
	h.note(rec, Event{Type: "pending", At: h.now})
	return h.queue(rec, turn, 0)
}

// foreseeTurn prefetches what the end of a turn reads.
func (h Owned) foreseeTurn() {
	f := foreseen{s: h.s}
	f.turn()
	f.job(h.jobID, false)
	h.tx.Prefetch(f.keys, f.ranges)
}

// foreseeEnd prefetches what the transaction reads that ends a job and writes that into its document.
func (h Owned) foreseeEnd() {
	f := foreseen{s: h.s}
	f.turn()
	f.job(h.jobID, false)
	f.document(h.jobID)
	h.tx.Prefetch(f.keys, f.ranges)
}

// change reads the record and hands it on; the caller stores it under the lock.
func (h Owned) change(f func(*Record) error) error {
	rec, err := h.s.Record(h.tx, h.jobID)
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("job %q: %w", h.jobID, jobs.ErrCanceled)
	}
	if rec.Reset == h.Reset { // else another one came since
		rec.Reset = 0
	}
	return f(rec)
}

// finish ends the job and, if it is a document's, writes the document's terminal state. A job that was
// resubmitted while it ran is pending again, and still counts as one of its account.
func (h Owned) finish(rec *Record, state State, turn Turn) error {
	invariant.Check(state.Terminal(), terminal)
	rec.State, rec.Node, rec.LastUpdated = state, "", h.now
	if rec.Transient() {
		rec.Expires = h.now.Add(h.s.Config.TransientMaxAge)
		h.tx.Set(h.s.Keys.Expire.Pack(int64(rec.Expires), h.jobID), nil)
	}
	left, err := h.s.Jobs.Finish(h.tx, h.jobID, h.lock, rec.encode())
	if err != nil {
		return err
	}
	if left == jobs.Finished {
		h.s.leave(h.tx, rec)
		marks{h.s.Keys, h.tx, h.jobID}.conclude(rec)
		if err := h.bequeath(rec); err != nil {
			return err
		}
	}
	if _, err := h.s.settle(h.tx, rec, turn, h.now); err != nil {
		return err
	}
	if rec.Transient() {
		return nil
	}
	return h.s.writeTerminal(h.tx, rec, nil, h.now)
}

// bequeath hands the replication of a job that is over to one that waits for it. Without one the row of the claim
// stays, so that the job is found by its replication id.
func (h Owned) bequeath(rec *Record) error {
	if !rec.Awaited {
		return nil
	}
	owner, err := h.s.JobOf(h.tx, rec.RepID)
	if err != nil || owner != h.jobID {
		return err
	}
	return lots{h.s, h.tx}.handOver(rec.RepID)
}

// queue makes the job pending at the place that its turn has earned it, or parks it if it is to be paused. It may
// not run before due; 0 means at once.
func (h Owned) queue(rec *Record, turn Turn, due instant.Time) error {
	place, err := h.s.settle(h.tx, rec, turn, h.now)
	if err != nil {
		return err
	}
	return h.queueAt(place, "", rec, due)
}

// queueAt is queue for a job with a place, and for one that has to wait in a lot, if that is not empty.
func (h Owned) queueAt(place schedule.Place, lot string, rec *Record, due instant.Time) error {
	schedule := jobs.Schedule{Priority: rec.priority(place), Due: due, Lot: lot}
	if rec.State == Crashing && h.s.Keys.indexed(h.tx, h.jobID) { // earlier releases know no labels
		schedule.Label = crashing + rec.Error
	}
	if rec.paused() {
		schedule.Lot = lotPaused
	}
	if schedule.Lot != "" {
		h.s.leave(h.tx, rec)
	}
	return h.s.Jobs.Requeue(h.tx, h.jobID, h.lock, schedule, rec.encode())
}

// note adds an event to the history.
func (h Owned) note(rec *Record, e Event) { rec.note(h.s.Config.MaxHistory, e) }

// stopped adds the end of a run to the history.
func (h Owned) stopped(rec *Record) { h.note(rec, Event{Type: "stopped", At: h.now}) }
