package jobstore

import (
	"slices"
	"strings"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Drop notes that a replicator database is being deleted, in the transaction that deletes it. From then on no
// list shows its jobs, and no accept that reads the note takes one. SweepDropped removes them, in other transactions,
// since there may be many; any node does that if this process ends before.
func (s *Store) Drop(tx kv.Tx, instance tuple.UUID) {
	tx.Set(s.Keys.Dropped.Pack(instancePrefix(instance)), nil)
}

// Dropped are the prefixes of the ids of jobs that belong to deleted databases and have still to be removed, in their
// order.
type Dropped []string

// DroppedDBs reads the deleted databases that are still noted.
func (k Keys) DroppedDBs(r kv.Reader) (Dropped, error) {
	rows, err := r.GetRange(k.Dropped.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	list := make(Dropped, len(rows))
	for i, row := range rows {
		if err := k.Dropped.Scan(row.Key, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Has reports whether a job belongs to one of the databases, or a prefix of ids is that of one.
func (d Dropped) Has(jobID string) bool { return d.prefixOf(jobID) != "" }

// prefixOf returns the prefix of the deleted database that a job belongs to, empty for none. An accept asks for each of
// a thousand jobs, and there may be as many databases as users, so they are not compared one by one.
func (d Dropped) prefixOf(jobID string) string {
	prefix := jobID[:min(len(jobID), instanceSize)]
	if _, found := slices.BinarySearch(d, prefix); !found {
		return ""
	}
	return prefix
}

// behind returns an id that follows all ids with the prefix of an instance and precedes all others that do.
func behind(prefix string) string { return strings.TrimSuffix(prefix, "|") + "}" }

// Bounds of a batch of SweepDropped.
const (
	// DropLimit is the most jobs that a batch should remove: it has the five seconds of a transaction. On a
	// slow store even that is too much; see node.Sweep.
	DropLimit = 500
	// dropPage is how many jobs are read at once, and how many databases a batch empties at most.
	dropPage = 64
	// dropBytes is about how many bytes are read and written, if that is more than one page.
	dropBytes = 4 << 20
	// dropLook is the number of batches in the order of ids between two looks at the jobs that run.
	dropLook = 16
)

// The shortest and the longest pause between two sweeps.
const (
	minSweepPause = 5 * time.Millisecond
	maxSweepPause = time.Second
)

// SweepPause returns how long to leave the store to others after a sweep that took so long and left something: the
// same time, so that sweeps take half of the store at most, within bounds.
func SweepPause(took time.Duration) time.Duration {
	return min(max(took, minSweepPause), maxSweepPause)
}

// SweepDropped removes up to limit jobs of deleted databases. It begins with running jobs, so that their runs
// end soon, and goes on with those that stand first among ready jobs, which accepts have to pass over; in both it looks
// for all deleted databases, and then it empties the first ones, each of which counts as one job more. It fails with a
// jobs.UnreadableError if a job cannot be read. The jobs in without stay, and so do the notes of their databases, while
// others are emptied. It reports whether nothing is left that it could remove.
func (s *Store) SweepDropped(tx kv.Tx, limit int, without ...string) (done bool, err error) {
	most := dropPage + len(without)
	rows, err := tx.Snapshot().GetRange(s.Keys.Dropped.Range(), kv.RangeOptions{Limit: most})
	if err != nil || len(rows) == 0 {
		return err == nil, err
	}
	d := dropping{s: s, tx: tx, limit: limit, without: without}
	if d.all, err = s.Keys.DroppedDBs(tx.Snapshot()); err != nil {
		return false, err
	}
	batches := byte(0) // in the order of ids, since the last look
	if len(rows[0].Value) > 0 {
		batches = rows[0].Value[0]
	}
	if batches == 0 {
		if err := d.running(); err != nil {
			return false, err
		}
	}
	if d.full() {
		return false, nil
	}
	if err := d.first(); err != nil {
		return false, err
	}
	stays := len(rows) // the first row that does
	for i, row := range rows {
		var prefix string
		if err := s.Keys.Dropped.Scan(row.Key, &prefix); err != nil {
			return false, err
		}
		tx.AddReadConflict(kv.KeyRange(row.Key)) // not with the deletion of another database
		more, left, err := d.byID(prefix)
		if more || left {
			stays = min(stays, i)
		}
		switch {
		case err != nil:
			return false, err
		case more:
			tx.Set(rows[stays].Key, []byte{(batches + 1) % dropLook})
			return false, nil
		case !left:
			tx.Clear(row.Key)
			tx.ClearRange(s.Keys.Tally.Sub(prefix).Range())
			d.limit--
		default:
			// Reached: a job of a deleted database cannot be read
		}
	}
	return len(rows) < most, nil
}

// dropping is a batch of removals.
type dropping struct {
	s       *Store
	tx      kv.Tx
	all     Dropped
	limit   int      // of jobs that may still be removed
	size    int      // bytes read and written
	without []string // jobs that could not be read
}

// drops reports whether a job is to be removed.
func (d *dropping) drops(id string) bool { return d.all.Has(id) && !slices.Contains(d.without, id) }

func (d *dropping) full() bool { return d.limit <= 0 || d.size >= dropBytes }

// running removes jobs that run. It looks for them through a snapshot, so that it conflicts with no accept.
func (d *dropping) running() error {
	owned := d.s.Keys.Jobs.Owned
	rows, err := d.tx.Snapshot().GetRange(owned.Range(), kv.RangeOptions{})
	if err != nil {
		return err
	}
	var ids []string
	for _, row := range rows {
		var lock jobs.Lock
		var id string
		if err := owned.Scan(row.Key, &lock.Worker, &lock.Batch, &id); err != nil {
			return err
		}
		if d.drops(id) {
			ids = append(ids, id)
		}
	}
	return d.removeAll(ids)
}

// first removes ready jobs among the first ones, as far as accepts pass over jobs.
func (d *dropping) first() error {
	if d.full() {
		return nil
	}
	rows, err := d.tx.Snapshot().GetRange(d.s.Keys.Jobs.Ready.Range(), kv.RangeOptions{Limit: jobs.MaxPassed})
	if err != nil {
		return err
	}
	var ids []string
	for _, row := range rows {
		if id := string(row.Value); d.drops(id) {
			ids = append(ids, id)
		}
	}
	return d.removeAll(ids)
}

// removeAll removes jobs page by page.
func (d *dropping) removeAll(ids []string) error {
	for page := range slices.Chunk(ids, min(d.limit, dropPage)) {
		if d.full() {
			break
		}
		page = page[:min(len(page), d.limit)]
		data := make([]kv.Range, len(page))
		for i, id := range page {
			data[i] = d.s.Keys.Jobs.Job.Sub(id).Range()
		}
		d.tx.Prefetch(nil, data)
		var list []*jobs.Job
		for _, id := range page {
			j, err := d.s.Jobs.Get(d.tx, id)
			if err != nil {
				return jobs.OfJob(id, err)
			}
			list = append(list, j)
		}
		if err := d.remove(list); err != nil {
			return err
		}
	}
	return nil
}

// byID removes jobs of a database in the order of their ids. It reports whether there are more, or if not, whether any
// are left that could not be read. It reads no job that it does not remove: one more could be another that cannot be
// read.
func (d *dropping) byID(prefix string) (more, left bool, err error) {
	for at := (jobs.Page{Prefix: prefix, Without: d.without}); !d.full(); {
		at.Limit = min(d.limit, dropPage)
		list, err := d.s.Jobs.List(d.tx, at)
		if err != nil {
			return false, false, err
		}
		n := len(list)
		if n > 0 {
			at.After = list[n-1].ID
		}
		list = slices.DeleteFunc(list, func(j *jobs.Job) bool { return slices.Contains(d.without, j.ID) })
		left = left || len(list) < n
		if err := d.remove(list); err != nil || n < at.Limit {
			return false, left, err
		}
	}
	return true, false, nil
}

// remove removes jobs that were read, of which some may be nil. Their claims take one round trip.
func (d *dropping) remove(list []*jobs.Job) error {
	var claims [][]byte
	for _, j := range list {
		if j == nil {
			continue
		}
		rec, err := decodeRecord(j)
		if err != nil {
			return jobs.OfJob(j.ID, err)
		}
		claims = append(claims, d.s.Keys.Claim.Pack(rec.RepID))
	}
	d.tx.Prefetch(claims, nil)
	for _, j := range list {
		if j == nil {
			continue
		}
		// Reached: a job of a deleted database is removed
		if err := d.s.remove(d.tx, j.ID); err != nil {
			return jobs.OfJob(j.ID, err)
		}
		d.limit--
		d.size += 5<<10 + 160*len(j.ID) + len(j.Data) // the keys hold the id many times
	}
	return nil
}
