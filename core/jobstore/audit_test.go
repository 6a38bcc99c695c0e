package jobstore

import (
	"errors"
	"slices"
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestAudit: an audit, by which other tests judge, notices each row of lists and numbers that is wrong, missing, or one
// too many.
func TestAudit(t *testing.T) {
	b := newFullBench(t)
	try := func(what string, key []byte, damage func(tx kv.Tx)) {
		tx := b.db.Begin(t.Context(), kv.Options{})
		defer tx.Cancel()
		damage(tx)
		if err := errors.Join(b.s.Jobs.Audit(tx), b.s.Audit(tx)); !errors.Is(err, jobs.ErrCorrupt) {
			t.Errorf("%q is %s: %v", key, what, err)
		}
	}
	k := b.s.Keys
	numbers := []tuple.Subspace{k.Tally, k.Count, k.Weights, k.Jobs.Count}
	lists := []tuple.Subspace{k.Index, k.Jobs.Ready, k.Jobs.Waiting, k.Jobs.Parked, k.Jobs.Owned, k.Jobs.Changed}
	for _, space := range slices.Concat(numbers, lists) {
		counts := slices.ContainsFunc(numbers, func(n tuple.Subspace) bool { return string(n) == string(space) })
		rows := get(b, func(tx kv.Tx) ([]kv.KeyValue, error) { return tx.GetRange(space.Range(), kv.RangeOptions{}) })
		if len(rows) == 0 {
			t.Errorf("there is nothing in %q", space)
		}
		for _, row := range rows {
			n := kv.Counter(row.Value)
			if counts {
				try("wrong", row.Key, func(tx kv.Tx) { tx.Set(row.Key, encodeNumber(n+1)) })
			}
			if !counts || n != 0 {
				try("missing", row.Key, func(tx kv.Tx) { tx.Clear(row.Key) })
			}
			more := kv.KeyAfter(row.Key)
			if !counts {
				try("too many", more, func(tx kv.Tx) { tx.Set(more, row.Value) })
			}
		}
	}
}

// TestAuditOfWaiting: an audit notices a job that waits for another one's end and is not looked for then.
func TestAuditOfWaiting(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	b.accept()
	b.put("two", simple, admin)
	if b.shown(jobID("two")).WaitsFor == "" {
		t.Fatal("the second job does not wait")
	}
	audit := func(tx kv.Tx) error { return b.s.Audit(tx) }
	b.do(audit)
	tx := b.db.Begin(t.Context(), kv.Options{})
	defer tx.Cancel()
	tx.Clear(b.claimOf("one"))
	if err := audit(tx); !errors.Is(err, jobs.ErrCorrupt) {
		t.Errorf("without the row of the other one: %v", err)
	}
}
