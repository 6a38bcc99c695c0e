package jobstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
)

// accountsIn lists the accounts that have rows in a space, each once.
func (b *bench) accountsIn(space tuple.Subspace) (list []string) {
	b.do1(func(tx kv.Tx) error {
		rows, err := tx.GetRange(space.Range(), kv.RangeOptions{})
		for _, row := range rows {
			elems, err := space.Unpack(row.Key)
			if err != nil {
				return err
			}
			list = append(list, elems[0].(string))
		}
		return err
	})
	return slices.Compact(list)
}

// TestIdleAccountsAreForgotten: rows of accounts go whose jobs are gone and whose use counts no more, be there more
// than a sweep looks at, and no other ones.
func TestIdleAccountsAreForgotten(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	for _, user := range []string{"a", "b", "c", "d"} {
		b.do1(func(tx kv.Tx) error { return b.s.remove(tx, b.replicate(user)) })
		b.charge(10, "user:"+user, "w1", b.now)
	}
	b.put("r", simple, admin)
	b.now = b.now.Add(100 * time.Hour)
	b.charge(10, "user:d", "w1", b.now)
	b.do(func(tx kv.Tx) error { tx.Max(b.s.Keys.Floor, uint64(time.Minute.Microseconds())); return nil })
	b.do(func(tx kv.Tx) error { tx.Max(b.s.Keys.Tail.Pack("user:c"), 1<<40); return nil })        // it is ahead
	b.do(func(tx kv.Tx) error { tx.Set(b.s.Keys.Swept.Pack("usage"), []byte{0xff}); return nil }) // no place
	for range 10 {
		b.do1(func(tx kv.Tx) error { return sweepAccounts(b.s, tx, b.now, 2) })
	}
	if got, want := b.accountsIn(b.s.Keys.Usage), []string{"user:d"}; !slices.Equal(got, want) {
		t.Errorf("usage of %q is left, want %q", got, want)
	}
	want := []string{"_replicator", "user:c", "user:d"}
	for _, space := range []tuple.Subspace{b.s.Keys.Count, b.s.Keys.Tail} {
		if got := b.accountsIn(space); !slices.Equal(got, want) {
			t.Errorf("rows of %q are left, want %q", got, want)
		}
	}
	if got := b.accountsIn(b.s.Keys.Swept); len(got) > 2 {
		t.Errorf("places %q", got)
	}
}

// TestSweepsBeginAnew: after the last account a sweep looks at the first ones again, and how far it is with charges is
// another matter.
func TestSweepsBeginAnew(t *testing.T) {
	b := newBench(t)
	users := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, user := range users {
		b.charge(10, "user:z"+user, "w1", b.now)
		b.replicate(user)
	}
	sweep := func(times int) {
		for range times {
			b.do1(func(tx kv.Tx) error { return sweepAccounts(b.s, tx, b.now, 2) })
		}
	}
	idle := func(user string) {
		b.do1(func(tx kv.Tx) error {
			ids, err := b.s.Jobs.List(tx, jobs.Page{Limit: 9})
			for _, j := range ids {
				if rec, _ := decodeRecord(j); rec.User == user {
					return b.s.remove(tx, j.ID)
				}
			}
			return err
		})
	}
	idle("a")
	sweep(1)
	if got := b.accountsIn(b.s.Keys.Count); slices.Contains(got, "user:a") || len(got) != 6 {
		t.Errorf("after the first sweep there are accounts %q", got)
	}
	sweep(3)
	idle("b")
	sweep(4)
	if got := b.accountsIn(b.s.Keys.Count); slices.Contains(got, "user:b") || len(got) != 5 {
		t.Errorf("when all were looked at there are accounts %q", got)
	}
	idle("g") // behind as many as two sweeps look at
	sweep(5)
	if got := b.accountsIn(b.s.Keys.Count); slices.Contains(got, "user:g") || len(got) != 4 {
		t.Errorf("when all were looked at again there are accounts %q", got)
	}
}

// TestOldChargesAreSwept: the sweep removes charges that no node counts, of the past and of the future, and leaves
// those that one counts whose clock differs from the sweeping node's by a day.
func TestOldChargesAreSwept(t *testing.T) {
	b := newBench(t)
	counts := b.order().Forgetting.Memory() + wrongClock
	for worker, at := range map[string]instant.Time{
		"old": b.now.Add(-counts) - 1, "past": b.now.Add(-counts),
		"next": b.now.Add(counts), "ahead": b.now.Add(counts) + 1,
	} {
		b.do1(func(tx kv.Tx) error { tx.Max(b.s.Keys.Usage.Pack("user:a", int64(at), worker), 10); return nil })
	}
	b.do1(func(tx kv.Tx) error { return sweepAccounts(b.s, tx, b.now, 9) })
	var left []string
	for _, c := range get(b, func(tx kv.Tx) ([]schedule.Charge, error) { return b.s.Charges(tx, "user:a") }) {
		left = append(left, c.Worker)
	}
	if want := []string{"past", "next"}; !slices.Equal(left, want) {
		t.Errorf("left are charges %q, want %q", left, want)
	}
}

// TestUnreadableRowsOfAccounts: a row of an account that cannot be read stays, and does not end the sweep, which does
// other work, too.
func TestUnreadableRowsOfAccounts(t *testing.T) {
	b := newBench(t)
	b.do1(func(tx kv.Tx) error { return b.s.remove(tx, b.replicate("b")) })
	b.charge(10, "user:b", "w1", b.now)
	odd := [][]byte{b.s.Keys.Usage.Pack("a", "b", "c", "d"), b.s.Keys.Count.Pack(int64(7))}
	b.do1(func(tx kv.Tx) error {
		for _, key := range odd {
			tx.Set(key, []byte{0xff})
		}
		return nil
	})
	later := b.now.Add(1000 * time.Hour)
	for range 5 {
		b.do1(func(tx kv.Tx) error { _, err := b.s.Sweep(tx, later, 9, 9); return err })
	}
	b.do1(func(tx kv.Tx) error {
		for _, key := range odd {
			if value, err := tx.Get(key); err != nil || value == nil {
				t.Errorf("row %x is gone: %v", key, err)
			}
		}
		for _, space := range []tuple.Subspace{b.s.Keys.Usage, b.s.Keys.Count} {
			rows, err := tx.GetRange(space.Range(), kv.RangeOptions{})
			if err != nil || len(rows) != 1 {
				t.Errorf("%d rows are left: %v", len(rows), err)
			}
		}
		return nil
	})
}

// TestIdleAccountThatComesBack: a sweep does not forget an account that has a job meanwhile.
func TestIdleAccountThatComesBack(t *testing.T) {
	b := newBench(t)
	b.do1(func(tx kv.Tx) error { return b.s.remove(tx, b.replicate("a")) })
	sweep := b.db.Begin(context.Background(), kv.Options{})
	if err := sweepAccounts(b.s, sweep, b.now, 2); err != nil {
		t.Fatal(err)
	}
	b.replicate("a")
	if err := sweep.Commit(); kv.CodeOf(err) != kv.NotCommitted {
		t.Error(err)
	}
	if got := b.account("user:a").Jobs; got != 1 {
		t.Errorf("%d jobs", got)
	}
}
