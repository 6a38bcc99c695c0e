package replication

import (
	"time"

	"couchrelay/core/instant"
)

// Tally counts what a run has done. It only grows, and begins at 0 with each run.
type Tally struct {
	// Documents that were read from the source, that the target took, and that it refused; each revision counts.
	DocsRead, DocsWritten, DocsRefused int64
	// Bytes of documents with their attachments; those that were left out since they did not fit are not among them.
	BytesRead, BytesWritten int64
	// Checkpoints that were written, on all databases that take them, and that could not be.
	Checkpoints, CheckpointFailures int64
}

// read counts documents that came from the source.
func (t *Tally) read(docs, bytes int64) {
	t.DocsRead += docs
	t.BytesRead += bytes
}

// Add adds what another one counts.
func (t *Tally) Add(o Tally) { t.plus(o, 1) }

// Since returns what has been counted since an earlier moment.
func (t Tally) Since(earlier Tally) Tally {
	t.plus(earlier, -1)
	return t
}

func (t *Tally) plus(o Tally, times int64) {
	t.DocsRead += times * o.DocsRead
	t.DocsWritten += times * o.DocsWritten
	t.DocsRefused += times * o.DocsRefused
	t.BytesRead += times * o.BytesRead
	t.BytesWritten += times * o.BytesWritten
	t.Checkpoints += times * o.Checkpoints
	t.CheckpointFailures += times * o.CheckpointFailures
}

// Tally returns what the run has done so far.
func (r *Run) Tally() Tally {
	t := r.tally
	t.DocsWritten, t.DocsRefused, t.BytesWritten = r.info.Written, r.info.Refused, r.info.BytesWritten
	return t
}

// Lag is how far the run is behind its source, as far as it is known: how many changes it has not done, -1 if the
// source does not tell, and since when it has had changes to do, or not known whether there are any. A run that has
// all changes lags by nothing.
func (r *Run) Lag(now instant.Time) (changes int64, behind time.Duration) {
	if upToDate(r) {
		return 0, 0
	}
	changes = r.feed.pending
	for _, b := range r.work.batches {
		changes = max(0, changes) + int64(b.rows)
	}
	return changes, max(0, now.Sub(r.behind))
}

// noteLag notes that the run begins, or that it was up to date until this step.
func (r *Run) noteLag() {
	if r.phase == idle || upToDate(r) {
		r.behind = r.now
	}
}

// upToDate reports whether everything is done that the source has told.
func upToDate(r *Run) bool { return r.phase == copying && r.feed.caught && !r.work.open() }
