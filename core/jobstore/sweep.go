package jobstore

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// expireTransient removes up to limit finished jobs of requests whose time to be kept is over, or so far away that
// only a clock which was ahead can have given it (wrongClock). It returns how many rows of the index it looked at. A
// row that fits no job, which only a damaged store has, goes alone.
func (s *Store) expireTransient(tx kv.Tx, now instant.Time, limit int, without ...string) (looked int, err error) {
	due, ahead := s.Keys.Expire.Range(), s.Keys.Expire.Range()
	due.End = s.Keys.Expire.Pack(int64(now) + 1)
	ahead.Begin = s.Keys.Expire.Pack(int64(now.Add(s.Config.TransientMaxAge).Add(wrongClock)))
	ranges, rows := []kv.Range{due, ahead}, []kv.KeyValue{}
	tx.Prefetch(nil, ranges)
	for _, in := range ranges {
		if most := limit + len(without) - len(rows); most > 0 {
			some, err := tx.GetRange(in, kv.RangeOptions{Limit: most})
			if err != nil {
				return 0, err
			}
			rows = append(rows, some...)
		}
	}
	for _, row := range rows {
		var at int64
		var jobID string
		if err := s.Keys.Expire.Scan(row.Key, &at, &jobID); err != nil {
			return 0, err
		}
		if slices.Contains(without, jobID) {
			continue
		}
		looked++
		tx.Clear(row.Key)
		rec, err := s.Record(tx, jobID)
		if err == nil && rec != nil && rec.Expires == instant.Time(at) {
			err = s.remove(tx, jobID)
		}
		if err != nil {
			return 0, jobs.OfJob(jobID, err)
		}
	}
	return looked, nil
}

// uploadAge is how long an attachment's upload may make no progress before it counts as abandoned.
const uploadAge = time.Hour

// accountRows is how many times as many rows of accounts as others a sweep looks at: most of them stay.
const accountRows = 10

// Sweep removes rows that nothing needs any more: finished jobs of old requests and abandoned uploads, up to
// limit of each, and up to drop jobs of deleted databases (SweepDropped). It reports whether nothing is left to
// remove; then it has looked at the end of the queue (outrun) and at some rows of accounts, too, which it does in turn
// (sweepAccounts). Of jobs that cannot be read it does as SweepDropped.
func (s *Store) Sweep(tx kv.Tx, now instant.Time, limit, drop int, without ...string) (done bool, err error) {
	expired, err := s.expireTransient(tx, now, limit, without...)
	if err != nil {
		return false, err
	}
	uploads, err := s.Docs.SweepUploads(tx, now.Add(-uploadAge), limit)
	if err != nil {
		return false, err
	}
	done, err = s.SweepDropped(tx, drop, without...)
	if done = done && expired < limit && uploads < limit; err != nil || !done {
		return false, err
	}
	if err := outrun(s, tx, now); err != nil {
		return false, err
	}
	return true, sweepAccounts(s, tx, now, accountRows*limit)
}
