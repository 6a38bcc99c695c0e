package jobs

import (
	"bytes"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Ahead counts the ready jobs that stand before a ready one, up to limit; more says that there are more than that.
// Give a snapshot reader, or each job that becomes ready before it conflicts.
func (k Keys) Ahead(r kv.Reader, j *Job, limit int) (n int, more bool, err error) {
	before := k.Ready.Range()
	before.End = tuple.AppendString(append(bytes.Clone(k.Ready), j.Priority...), j.ID)
	rows, err := r.GetRange(before, kv.RangeOptions{Limit: limit + 1})
	return min(len(rows), limit), len(rows) > limit, err
}
