package jobstore

import (
	"fmt"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// Audit checks that the counters of accounts' jobs equal what they count, and that each label of each job has its row
// and counts once. It reads everything, so it is for tests and repair tools.
func (s *Store) Audit(r kv.Reader) error {
	if err := auditAccounts(r, s); err != nil {
		return err
	}
	return auditIndex(r, s)
}

func auditIndex(r kv.Reader, s *Store) error {
	reindexed, err := r.Get(s.Keys.Reindex)
	if err != nil {
		return err
	}
	labels, tallies := map[string]int64{}, map[string]int64{}
	err = eachRecord(r, s, func(id string, rec *Record) {
		if reindexed != nil && id > string(reindexed) {
			return
		}
		g := groupOf(id, rec.State.Terminal())
		for _, l := range rec.labels() {
			labels[string(s.Keys.labelRow(g, l, id))] = 0
			tallies[string(s.Keys.tallyRow("", g, l))]++
			if !rec.Transient() {
				tallies[string(s.Keys.tallyRow(rec.Instance, g, l))]++
			}
		}
	})
	if err != nil {
		return err
	}
	if err := audit(r, s.Keys.Index.Range(), labels); err != nil {
		return err
	}
	return audit(r, s.Keys.Tally.Range(), tallies)
}

func eachRecord(r kv.Reader, s *Store, fn func(id string, rec *Record)) error {
	list, err := s.Jobs.List(r, jobs.Page{Limit: 1 << 30})
	if err != nil {
		return err
	}
	for _, j := range list {
		rec, err := decodeRecord(j)
		if err != nil {
			return err
		}
		fn(j.ID, rec)
	}
	return nil
}

// labels are all labels that a record should have.
func (r *Record) labels() []label {
	state, class := r.View().State, ""
	if state == Crashing || state == Failed {
		class = r.Error
	}
	return append(stateLabels(state, class), r.lasting()...)
}

// audit compares numbers with the rows of a range. A row that is empty is a 0, and a 0 needs no row unless it is of
// an index.
func audit(r kv.Reader, at kv.Range, want map[string]int64) error {
	rows, err := r.GetRange(at, kv.RangeOptions{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		n, known := want[string(row.Key)]
		if got := kv.Counter(row.Value); got != n || !known && len(row.Value) == 0 {
			return fmt.Errorf("%w: row %q is %d, not %d", jobs.ErrCorrupt, row.Key, got, n)
		}
		delete(want, string(row.Key))
	}
	if len(want) > 0 {
		return fmt.Errorf("%w: there is no row for %v", jobs.ErrCorrupt, want)
	}
	return nil
}
