package jobstore

import (
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// A store of an earlier release has no index. It is built in the order of jobs' ids, in many transactions, while
// the service works (Reindex); until then lists look at every job. The row ("reindex") says how far that is.
// Transactions that change a job behind that leave the index to Reindex, and conflict with the one that comes past
// the job at the same time, by ranges of "border", where no rows are. Without the row all jobs are indexed.

// complete reports whether all jobs are indexed.
func (k Keys) complete(r kv.Reader) (bool, error) {
	row, err := r.Get(k.Reindex)
	return row == nil, err
}

// indexed reports whether the labels of a job are kept. The error of the read is that of the commit.
func (k Keys) indexed(tx kv.Tx, jobID string) bool {
	row, err := tx.Snapshot().Get(k.Reindex)
	if err != nil || row == nil {
		return err == nil
	}
	tx.AddReadConflict(kv.KeyRange(k.Border.Pack(jobID)))
	return jobID <= string(row)
}

// reindexBytes is about how many bytes one transaction of Reindex reads and writes, if that is more than a page.
const reindexBytes = 2 << 20

// Reindex indexes up to limit jobs of a store that is older than the index, and reports whether that is complete. All
// processes that write jobs must be of a release that knows the index: see node.Info.Indexes. Older ones do not
// start any more once it has begun. It fails with a jobs.UnreadableError if a job cannot be read: one that was left out
// would stay out of all lists.
func Reindex(tx kv.Tx, s *Store, limit int) (done bool, err error) {
	row, err := tx.Get(s.Keys.Reindex)
	if err != nil || row == nil {
		return err == nil, err
	}
	tx.Max(s.Keys.Schema, schemaVersion)
	after, size := string(row), 0
	behind := s.Keys.Border.Range()
	behind.Begin = kv.KeyAfter(s.Keys.Border.Pack(after))
	for limit > 0 && size < reindexBytes {
		page := min(limit, dropPage)
		list, err := s.Jobs.List(tx, jobs.Page{After: after, Limit: page})
		if err != nil {
			return false, err
		}
		for _, j := range list {
			if err := index(tx, s, j); err != nil {
				return false, jobs.OfJob(j.ID, err)
			}
			after = j.ID
			size += 2<<10 + 60*len(j.ID) + len(j.Data)
		}
		if len(list) < page {
			tx.AddWriteConflict(behind)
			tx.Clear(s.Keys.Reindex)
			return true, nil
		}
		limit -= page
	}
	behind.End = kv.KeyAfter(s.Keys.Border.Pack(after))
	tx.AddWriteConflict(behind)
	tx.Set(s.Keys.Reindex, []byte(after))
	return false, nil
}

// index adds all labels of a job that has none.
func index(tx kv.Tx, s *Store, j *jobs.Job) error {
	rec, err := decodeRecord(j)
	if err != nil {
		return err
	}
	if j.State == jobs.Pending && rec.State == Crashing && j.Label == "" { // as earlier releases stored it
		j.Label = crashing + rec.Error
		if _, err := s.Jobs.Resubmit(tx, j.ID, j.Schedule); err != nil {
			return err
		}
	}
	g, m := groupOf(j.ID, rec.State.Terminal()), marks{s.Keys, tx, j.ID}
	for _, l := range append(current(j), rec.standing()...) {
		tx.Set(s.Keys.labelRow(g, l, j.ID), nil)
		m.tally(g, l, 1)
	}
	return nil
}
