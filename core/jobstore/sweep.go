package jobstore

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// expireTransient removes up to limit finished jobs of requests whose time to be kept is over. It returns
// how many rows of the index it looked at. A row may be of an earlier end of a job that was made again
// since; then only the row goes.
func (s *Store) expireTransient(tx kv.Tx, now instant.Time, limit int) (int, error) {
	due := s.Keys.Expire.Range()
	due.End = s.Keys.Expire.Pack(int64(now) + 1)
	rows, err := tx.GetRange(due, kv.RangeOptions{Limit: limit})
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		var at int64
		var jobID string
		if err := s.Keys.Expire.Scan(row.Key, &at, &jobID); err != nil {
			return 0, err
		}
		tx.Clear(row.Key)
		rec, err := s.Record(tx, jobID)
		if err != nil {
			return 0, err
		}
		if rec != nil && rec.Expires == instant.Time(at) {
			if err := s.remove(tx, jobID); err != nil {
				return 0, err
			}
		}
	}
	return len(rows), nil
}

// uploadAge is how long an attachment's upload may make no progress before it counts as abandoned.
const uploadAge = time.Hour

// Sweep removes what is not needed any more, up to limit of each kind: finished jobs of requests that are
// old, jobs of deleted databases, abandoned uploads. It reports whether nothing is left to remove.
func (s *Store) Sweep(tx kv.Tx, now instant.Time, limit int) (done bool, err error) {
	expired, err := s.expireTransient(tx, now, limit)
	if err != nil {
		return false, err
	}
	uploads, err := s.Docs.SweepUploads(tx, now.Add(-uploadAge), limit)
	if err != nil {
		return false, err
	}
	done, err = s.SweepDropped(tx, limit)
	return done && expired < limit && uploads < limit, err
}

// Drop notes that a replicator database is being deleted, in the transaction that deletes it. Its jobs are
// removed by SweepDropped, in other transactions, since there may be many; any node does that if this
// process ends before.
func (s *Store) Drop(tx kv.Tx, instance tuple.UUID) {
	tx.Set(s.Keys.Dropped.Pack(instancePrefix(instance)), nil)
}

// SweepDropped removes up to limit jobs of deleted databases. It reports whether none is left.
func (s *Store) SweepDropped(tx kv.Tx, limit int) (done bool, err error) {
	rows, err := tx.GetRange(s.Keys.Dropped.Range(), kv.RangeOptions{Limit: 1})
	if err != nil || len(rows) == 0 {
		return err == nil, err
	}
	var prefix string
	if err := s.Keys.Dropped.Scan(rows[0].Key, &prefix); err != nil {
		return false, err
	}
	list, err := s.Jobs.List(tx, jobs.Page{Prefix: prefix, Limit: limit})
	if err != nil {
		return false, err
	}
	for _, j := range list {
		// Reached: a job of a deleted database is removed
		if err := s.remove(tx, j.ID); err != nil {
			return false, err
		}
	}
	if len(list) < limit {
		tx.Clear(rows[0].Key)
	}
	return false, nil
}
