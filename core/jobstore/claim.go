package jobstore

import (
	"errors"
	"fmt"
	"slices"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// Duplicate is the error of a job that may not run, since another job has its replication.
type Duplicate struct {
	RepID string
	DocID string  // of the job that may not run, empty for one made by a request
	Other *Record // of the job that has the replication
	// Passing reports that the conflict is temporary: the other job was made by a request, or its database
	// was deleted and the job is about to be swept.
	Passing bool
	// Waits reports that the job is to wait for the other one's end; see Owned.StandBy.
	Waits bool
}

// Error words it as CouchDB does.
func (d *Duplicate) Error() string {
	by := fmt.Sprintf("Replication `%s`", d.RepID)
	if d.DocID != "" {
		by += fmt.Sprintf(" specified by document `%s`", d.DocID)
	}
	if d.Other.Transient() {
		return by + " already running as a transient replication, started via `_replicate` API endpoint"
	}
	return by + fmt.Sprintf(" already started, triggered by document `%s` from db `%s`",
		d.Other.DocID, d.Other.Database)
}

// Claim gives the job the right to run as a replication, for as long as the job is not over. When another
// job has that right, Claim returns a *Duplicate and leaves everything as it is.
func (h Owned) Claim(repID, baseID string) error {
	return h.change(func(rec *Record) error {
		other, err := h.s.claimedBy(h.tx, h.jobID, repID)
		if err != nil {
			return err
		}
		if other != nil {
			return h.duplicate(repID, rec, other)
		}
		if err := h.become(rec, repID, baseID); err != nil {
			return err
		}
		h.tx.Set(h.s.Keys.Claim.Pack(repID), []byte(h.jobID))
		rec.LastUpdated = h.now
		return h.s.Jobs.Update(h.tx, h.jobID, h.lock, rec.encode())
	})
}

// become notes which replication the job is. One that it was before is another job's then.
func (h Owned) become(rec *Record, repID, baseID string) error {
	if rec.RepID == repID {
		return nil
	}
	if err := (lots{h.s, h.tx}).dropClaim(h.jobID, rec); err != nil {
		return err
	}
	if rec.RepID != "" { // another replication now: its numbers begin anew
		rec.Stats, rec.Stuck = rec.Stats.ofCheckpoints(), 0
	}
	if rec.Refused != nil && rec.Refused.Of != baseID {
		// Reached: refused documents of another replication are forgotten
		h.s.Keys.clearRefused(h.tx, h.jobID)
		rec.Refused, rec.Stats = rec.Refused.forgotten(), Stats{}
	}
	rec.RepID, rec.BaseID, rec.Awaited = repID, baseID, false
	return nil
}

// claim gives jobs that are being accepted the right to run as the replications of their records, where that
// is free or theirs already. So most runs need no Claim of their own. Rows are read so that it conflicts with
// other claims; which jobs lose to another is for Owned.Claim to tell.
func (k Keys) claim(tx kv.Tx, accepted []Work) error {
	keys := make([][]byte, len(accepted))
	for i := range accepted {
		keys[i] = k.Claim.Pack(accepted[i].Record.RepID)
	}
	owners, err := tx.GetAll(keys)
	if err != nil {
		return err
	}
	taken := map[string]bool{} // by a job of this accept
	for i := range accepted {
		w := &accepted[i]
		repID, owner := w.Record.RepID, string(owners[i])
		switch {
		case repID == "" || owner != "" && owner != w.JobID || taken[repID]:
			continue
		case owner == "":
			tx.Set(keys[i], []byte(w.JobID))
		}
		w.Claimed, taken[repID] = true, true
	}
	return nil
}

// duplicate is why the job must not run as a replication that another job has.
func (h Owned) duplicate(repID string, rec, other *Record) error {
	passing := other.Transient()
	if !passing {
		dropped, err := h.tx.Get(h.s.Keys.Dropped.Pack(other.Instance))
		if err != nil {
			return err
		}
		passing = dropped != nil
	}
	waits := h.s.Config.DuplicatesWait && !rec.Transient()
	return &Duplicate{RepID: repID, DocID: rec.DocID, Other: other, Passing: passing, Waits: waits}
}

// claimedBy returns the other job that has the right to a replication; nil when the right is free or this
// job's. A job that is over has no right any more. The row is read so that two jobs that claim at the same
// time conflict.
func (s *Store) claimedBy(tx kv.Tx, jobID, repID string) (*Record, error) {
	owner, err := tx.Get(s.Keys.Claim.Pack(repID))
	if err != nil || owner == nil || string(owner) == jobID {
		return nil, err
	}
	other, err := s.Record(tx, string(owner))
	if err != nil || other == nil || other.State.Terminal() || other.RepID != repID {
		return nil, jobs.OfJob(string(owner), err)
	}
	return other, nil
}

// dropClaim gives up a job's right to its replication, if it has it.
func (l lots) dropClaim(jobID string, rec *Record) error {
	if rec.RepID == "" {
		return nil
	}
	owner, err := l.tx.Get(l.s.Keys.Claim.Pack(rec.RepID))
	if err != nil || string(owner) != jobID {
		return err
	}
	l.tx.Clear(l.s.Keys.Claim.Pack(rec.RepID))
	if !rec.Awaited {
		return nil
	}
	return l.handOver(rec.RepID)
}

// await marks the job that has a replication: another one waits for its end, and has to be looked for then. It
// reads the record that the end writes, so that the one does not miss the other.
func (l lots) await(repID string) error {
	owner, err := l.s.JobOf(l.tx, repID)
	if err != nil {
		return err
	}
	j, rec, err := readJob(l.s, l.tx, owner)
	if err != nil || j == nil || rec.Awaited {
		return err
	}
	rec.Awaited = true
	return l.save(j, rec)
}

// handOver gives the right to a replication that no job has any more to the first that waits for it, if one does, and
// brings that job back into the queue. So the jobs with one replication have it one after the other, and one that is
// removed before it runs hands it on. A job that cannot be read must not keep the one before from its end: then it is
// noted that the replication is free, and the next Promote gives it to one that can be read.
func (l lots) handOver(repID string) error {
	waiting, err := l.s.Keys.Jobs.InLot(l.tx, lotBehind+repID, 1)
	if err != nil || len(waiting) == 0 {
		return err
	}
	j, rec, err := l.heir(waiting[0])
	if _, unreadable := errors.AsType[*jobs.UnreadableError](err); unreadable {
		// Reached: a job that waits for another one's end cannot be read
		l.tx.Set(l.s.Keys.Lifted.Pack(lotBehind+repID), nil)
		return nil
	}
	if err != nil {
		return err
	}
	return l.handTo(repID, j, rec)
}

// succeed gives the right to a replication that was noted to be free to one that waits for it. A job that came first in
// the meantime keeps it, and hands it on, too. Without a job that can be read the row stays; else it goes, and counts
// as a job that is moved, so that the next ones do not wait for another poll.
func (l lots) succeed(row []byte, repID string, without []string) (moved int, err error) {
	odd := func(id string) bool { return slices.Contains(without, id) }
	waiting, err := l.s.Keys.Jobs.InLot(l.tx, lotBehind+repID, 1+len(without))
	if err != nil {
		return 0, err
	}
	owner, err := l.s.JobOf(l.tx, repID)
	if err != nil || odd(owner) {
		return 0, err
	}
	other, err := l.s.claimedBy(l.tx, "", repID)
	if err != nil {
		return 0, err
	}
	heir := slices.IndexFunc(waiting, func(id string) bool { return !odd(id) })
	switch {
	case len(waiting) == 0:
	case other != nil:
		// Reached: another job got the replication before the jobs that had waited for it
		err = jobs.OfJob(owner, l.await(repID))
	case heir < 0:
		return 0, nil
	default:
		j, rec, err := l.heir(waiting[heir])
		if err != nil {
			return 0, err
		}
		if err := l.handTo(repID, j, rec); err != nil {
			return 0, err
		}
	}
	l.tx.Clear(row)
	return 1, err
}

// heir reads a job that waits. Its error is an UnreadableError unless the store has failed.
func (l lots) heir(id string) (j *jobs.Job, rec *Record, err error) {
	if j, rec, err = readJob(l.s, l.tx, id); err == nil && j == nil {
		err = fmt.Errorf("%w: parked row of job %q without the job", jobs.ErrCorrupt, id)
	}
	if err == nil {
		_, err = placeOf(j.Priority)
	}
	return j, rec, jobs.OfJob(id, err)
}

// handTo gives it to this job, which waits for it.
func (l lots) handTo(repID string, j *jobs.Job, rec *Record) error {
	// Reached: a job that waited has its replication
	l.tx.Set(l.s.Keys.Claim.Pack(repID), []byte(j.ID))
	rec.Awaited = true // by others, maybe
	return l.unpark(j, rec, 0)
}

// StandBy ends a run whose job may not run as a replication that another job has. The job waits for that job's
// end in a lot, or is pending if the right is free by now. The account pays for the run, but the job keeps its
// place: it still has its turn before it, for which it may have waited long.
func (h Owned) StandBy(repID, baseID string, turn Turn) error {
	h.foreseeTurn()
	return h.change(func(rec *Record) error {
		other, err := h.s.claimedBy(h.tx, h.jobID, repID)
		if err != nil {
			return err
		}
		if err := h.become(rec, repID, baseID); err != nil {
			return err
		}
		rec.State, rec.Node, rec.LastUpdated = Pending, "", h.now
		lot, event := "", Event{Type: "pending", At: h.now}
		if other != nil {
			dup := Duplicate{RepID: repID, DocID: rec.DocID, Other: other}
			lot, event.Type, event.Reason = lotBehind+repID, "waiting", dup.Error()
			if err := (lots{h.s, h.tx}).await(repID); err != nil {
				return err
			}
		}
		h.note(rec, event)
		if _, err := h.s.settle(h.tx, rec, turn, h.now); err != nil {
			return err
		}
		return h.queueAt(turn.Began, lot, rec, 0)
	})
}

// JobOf finds the job that runs, or last ran, as a replication; empty when there is none.
func (s *Store) JobOf(r kv.Reader, repID string) (string, error) {
	owner, err := r.Get(s.Keys.Claim.Pack(repID))
	return string(owner), err
}
