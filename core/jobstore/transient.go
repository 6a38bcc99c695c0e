package jobstore

import (
	"cmp"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// Replicate makes the job of a request to /_replicate, and returns its id. A request that is repeated while
// its job is not over joins that job; otherwise the job of the same request is replaced. While another job is known
// to have the replication, there is no job to make, and the error is a *Duplicate. rep.User.Admin says whether the user
// is an admin of the server.
func (s *Store) Replicate(tx kv.Tx, rep *spec.Replication, user string, now instant.Time) (string, error) {
	jobID := repid.JobID(s.Config.Server, rep, user)
	old, err := s.Record(tx, jobID)
	if err != nil {
		return "", err
	}
	rec := &Record{User: user}
	rep.User = spec.UserCtx{Admin: rep.User.Admin} // whatever the request says: rights depend on it
	if rep.User.Admin {
		rep.User.Name = user // others may have the name of an admin
	}
	if old != nil && !old.State.Terminal() {
		rec.Pause, rec.Reset = old.Pause, old.Reset
		running, err := s.Spec(tx, jobID)
		if err != nil {
			return "", err
		}
		if running != nil && spec.Equal(running, rep) {
			if err := retell(s, tx, jobID, user, rep.Unknown); err != nil {
				return "", err
			}
			return jobID, Operator{Store: s, Tx: tx, By: user, Now: now}.byDocument(jobID, rep)
		}
	}
	if rep.Filter.Kind != spec.FunctionFilter {
		id := repid.New(s.Config.Server, rep, "").String()
		if other, err := rival(s, tx, jobID, id); err != nil || other != nil {
			return "", cmp.Or(err, error(&Duplicate{RepID: id, Other: other}))
		}
	}
	return jobID, s.put(tx, jobID, rec, rep, now)
}

// maxSwept is how many jobs of deleted databases one request removes at most.
const maxSwept = 10

// rival is the other job that has a replication for which a request asks; nil if there is none. A job of a deleted
// database, which no list shows any more, is removed: the request could not wait until a sweep comes to it.
func rival(s *Store, tx kv.Tx, jobID, repID string) (other *Record, err error) {
	for range maxSwept {
		if other, err = s.claimedBy(tx, jobID, repID); err != nil || other == nil || other.Transient() {
			return other, err
		}
		dropped, err := tx.Snapshot().Get(s.Keys.Dropped.Pack(other.Instance)) // each batch of a sweep writes there
		if err != nil || dropped == nil {
			return other, err
		}
		// Reached: a request is for the replication of a job of a deleted database
		if err := s.remove(tx, other.Instance+other.DocID); err != nil {
			return other, err
		}
	}
	return other, nil
}

// Find looks a job up by a replication id or a job id, as users give them; the id is empty when there is
// none, or one of a deleted database.
func (s *Store) Find(r kv.Reader, id string) (string, *Record, error) {
	for _, candidate := range []string{repid.Parse(id).String(), id} {
		jobID, err := s.JobOf(r, candidate)
		if err != nil {
			return "", nil, err
		}
		if jobID == "" {
			jobID = candidate
		}
		rec, err := s.Record(r, jobID)
		if err != nil {
			return "", nil, err
		}
		if rec == nil {
			continue
		}
		if !rec.Transient() {
			dropped, err := r.Get(s.Keys.Dropped.Pack(rec.Instance))
			if err != nil || dropped != nil {
				return "", nil, err
			}
		}
		return jobID, rec, nil
	}
	return "", nil, nil
}

// Cancel removes the job of a request. The job of a document is stopped by deleting the document.
func (s *Store) Cancel(tx kv.Tx, jobID string) error { return s.remove(tx, jobID) }
