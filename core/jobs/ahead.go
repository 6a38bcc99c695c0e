package jobs

import "couchrelay/core/kv"

// Ahead counts the ready jobs that stand before a ready one, up to limit; more says that there are more than that.
// Give a snapshot reader, or each job that becomes ready conflicts.
func (q *Queue) Ahead(r kv.Reader, j *Job, limit int) (n int, more bool, err error) {
	before := q.Keys.Ready.Range()
	before.End, _ = q.index(j)
	rows, err := r.GetRange(before, kv.RangeOptions{Limit: limit + 1})
	return min(len(rows), limit), len(rows) > limit, err
}
