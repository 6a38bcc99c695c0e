package loop

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
)

// Refused is the list of refused documents of a replication without a store. It holds as many as a job's list.
type Refused struct {
	// Told is called for every refusal; it may be nil.
	Told func(replication.Finding)

	rows []refused // ordered by document and revision
	// beyond counts the refusals that the list had no place for.
	beyond int
}

type refused struct {
	replication.Finding
	attempts int
	last     instant.Time
}

// Len is the number of documents that the target refused and has not got since.
func (l *Refused) Len() int { return len(l.rows) + l.beyond }

// find returns the place of a revision in the list, and whether it is there.
func (l *Refused) find(id, rev string) (int, bool) {
	return slices.BinarySearchFunc(l.rows, [2]string{id, rev}, func(r refused, at [2]string) int {
		return cmp.Or(cmp.Compare(r.ID, at[0]), cmp.Compare(r.Rev, at[1]))
	})
}

// change does what a run found out.
func (l *Refused) change(findings []replication.Finding, now instant.Time) {
	for _, f := range findings {
		if l.Told != nil && !f.Over {
			l.Told(f)
		}
		i, has := l.find(f.ID, f.Rev)
		switch {
		case f.Over && has:
			l.rows = slices.Delete(l.rows, i, i+1)
		case f.Over:
		case has:
			l.rows[i] = refused{f, l.rows[i].attempts + 1, now}
		case len(l.rows) < jobstore.MaxRefused:
			l.rows = slices.Insert(l.rows, i, refused{f, 1, now})
		default:
			l.beyond++
		}
	}
}

// page answers a run that reads the list.
func (l *Refused) page(e replication.ReadRefused, now instant.Time) (page replication.RefusedPage) {
	i, has := l.find(e.ID, e.Rev)
	if has {
		i++
	}
	rows := l.rows[i:]
	page.More = len(rows) > e.Limit
	for _, r := range rows[:min(len(rows), e.Limit)] {
		page.Docs = append(page.Docs, replication.Listed{
			ID: r.ID, Rev: r.Rev, Attempts: r.attempts, Age: max(time.Duration(0), now.Sub(r.last)), Failed: r.Failed,
			Refused: r.Refused,
		})
	}
	return page
}
