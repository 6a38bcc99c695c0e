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
// row that fits no job, which only a damaged store has, goes alone. All records take one round trip, and all claims.
func (s *Store) expireTransient(tx kv.Tx, now instant.Time, limit int, without ...string) (looked int, err error) {
	list, err := overdue(s, tx, now, limit, without)
	if err != nil {
		return 0, err
	}
	records, claims := foreseen{s: s}, foreseen{s: s}
	for _, e := range list {
		records.job(e.jobID, false)
	}
	tx.Prefetch(nil, records.ranges)
	var over []string
	for _, e := range list {
		tx.Clear(s.Keys.Expire.Pack(int64(e.at), e.jobID))
		rec, err := s.Record(tx, e.jobID)
		if err != nil {
			return 0, jobs.OfJob(e.jobID, err)
		}
		if rec != nil && rec.Expires == e.at {
			over = append(over, e.jobID)
			claims.claim(rec.RepID)
		}
	}
	tx.Prefetch(claims.keys, nil)
	for _, jobID := range over {
		if err := s.remove(tx, jobID); err != nil {
			return 0, jobs.OfJob(jobID, err)
		}
	}
	return len(list), nil
}

// expiry is a row of the index of finished jobs of requests.
type expiry struct {
	at    instant.Time
	jobID string
}

// overdue reads up to limit rows for expireTransient, and none of the jobs in without.
func overdue(s *Store, tx kv.Tx, now instant.Time, limit int, without []string) (list []expiry, err error) {
	due, ahead := s.Keys.Expire.Range(), s.Keys.Expire.Range()
	due.End = s.Keys.Expire.Pack(int64(now) + 1)
	ahead.Begin = s.Keys.Expire.Pack(int64(now.Add(s.Config.TransientMaxAge).Add(wrongClock)))
	ranges, rows := []kv.Range{due, ahead}, []kv.KeyValue{}
	tx.Prefetch(nil, ranges)
	for _, in := range ranges {
		if most := limit + len(without) - len(rows); most > 0 {
			some, err := tx.GetRange(in, kv.RangeOptions{Limit: most})
			if err != nil {
				return nil, err
			}
			rows = append(rows, some...)
		}
	}
	for _, row := range rows {
		var at int64
		var jobID string
		if err := s.Keys.Expire.Scan(row.Key, &at, &jobID); err != nil {
			return nil, err
		}
		if !slices.Contains(without, jobID) {
			list = append(list, expiry{instant.Time(at), jobID})
		}
	}
	return list, nil
}

// uploadAge is how long an attachment's upload may make no progress before it counts as abandoned. Its progress has the
// time of the node that writes it, and a node whose clock is ahead of that must not take an upload under way.
const uploadAge = time.Hour + wrongClock

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
