package jobstore

import (
	"fmt"

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
	return by + fmt.Sprintf(" already started, triggered by document `%s` from db `%s`", d.Other.DocID, d.Other.Database)
}

// Claim gives the job the right to run as a replication, for as long as the job is not over. When another
// job has that right, Claim returns a *Duplicate and leaves everything as it is.
func (h Hold) Claim(repID, baseID string) error {
	return h.change(func(rec *Record) error {
		other, err := h.s.claimedBy(h.tx, h.jobID, repID)
		if err != nil {
			return err
		}
		if other != nil {
			return h.duplicate(repID, rec, other)
		}
		if rec.RepID != repID {
			if err := h.s.dropClaim(h.tx, h.jobID, rec.RepID); err != nil {
				return err
			}
			if rec.RepID != "" { // another replication now: its numbers begin anew
				rec.Stats = Stats{}
			}
			rec.RepID, rec.BaseID = repID, baseID
		}
		h.tx.Set(h.s.Keys.Claim.Pack(repID), []byte(h.jobID))
		rec.LastUpdated = h.now
		return h.s.Jobs.Update(h.tx, h.jobID, h.lock, rec.encode())
	})
}

// claim gives jobs that are being accepted the right to run as the replications of their records, where that
// is free or theirs already. So most runs need no Claim of their own. Rows are read so that it conflicts with
// other claims; which jobs lose to another is for Hold.Claim to tell.
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
func (h Hold) duplicate(repID string, rec, other *Record) error {
	passing := other.Transient()
	if !passing {
		dropped, err := h.tx.Get(h.s.Keys.Dropped.Pack(other.Instance))
		if err != nil {
			return err
		}
		passing = dropped != nil
	}
	return &Duplicate{RepID: repID, DocID: rec.DocID, Other: other, Passing: passing}
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
		return nil, err
	}
	return other, nil
}

// dropClaim gives up a job's right to a replication, if it has it.
func (s *Store) dropClaim(tx kv.Tx, jobID, repID string) error {
	if repID == "" {
		return nil
	}
	owner, err := tx.Get(s.Keys.Claim.Pack(repID))
	if err != nil {
		return err
	}
	if string(owner) == jobID {
		tx.Clear(s.Keys.Claim.Pack(repID))
	}
	return nil
}

// JobOf finds the job that runs, or last ran, as a replication; empty when there is none.
func (s *Store) JobOf(r kv.Reader, repID string) (string, error) {
	owner, err := r.Get(s.Keys.Claim.Pack(repID))
	return string(owner), err
}
