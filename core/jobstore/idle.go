package jobstore

import (
	"bytes"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// sweepAccounts looks at the next rows of accounts, up to limit of usage and of numbers of jobs, and removes what means
// nothing any more: accounts that run jobs have their old charges removed by Charge, and others keep theirs until then.
func sweepAccounts(s *Store, tx kv.Tx, now instant.Time, limit int) error {
	i := idle{s, tx, limit}
	if err := i.sweepUsage(now); err != nil {
		return err
	}
	return i.sweepAccounts()
}

// idle are accounts that run no more.
type idle struct {
	s     *Store
	tx    kv.Tx
	limit int
}

// sweepUsage removes charges that have not counted for long, or will not for long: a wrong clock of the node that
// sweeps must not take away what counts. A row that cannot be read stays, for check to report it: each sweep of the
// jobs that comes after would fail with it.
func (i idle) sweepUsage(now instant.Time) error {
	order, err := i.s.Order(i.tx.Snapshot())
	if err != nil {
		return err
	}
	rows, err := i.nextRows("usage", i.s.Keys.Usage)
	if err != nil {
		return err
	}
	counts := order.Forgetting.Memory() + wrongClock
	for _, row := range rows {
		c, ok := i.s.ChargeRow(row.Key, row.Value)
		if ok && (c.At < now.Add(-counts) || c.At > now.Add(counts)) {
			i.tx.Clear(row.Key)
		}
	}
	return nil
}

// sweepAccounts removes the rows of accounts that have no jobs, have used nothing of late, and whose next tag is that
// of a new account.
func (i idle) sweepAccounts() error {
	k := i.s.Keys
	rows, err := i.nextRows("count", k.Count)
	if err != nil {
		return err
	}
	accounts, ahead := []string{}, foreseen{keys: [][]byte{k.Floor}}
	for _, row := range rows {
		var account string
		if err := k.Count.Scan(row.Key, &account); err == nil && kv.Counter(row.Value) == 0 {
			accounts = append(accounts, account)
			ahead.keys = append(ahead.keys, k.ofIdle(account)...)
			ahead.ranges = append(ahead.ranges, k.Usage.Sub(account).Range())
		}
	}
	i.tx.Prefetch(ahead.keys, ahead.ranges)
	for _, account := range accounts {
		if err := i.forget(account); err != nil {
			return err
		}
	}
	return nil
}

// ofIdle are the rows that an account keeps when it has no jobs.
func (k Keys) ofIdle(account string) [][]byte {
	return [][]byte{k.Count.Pack(account), k.Weights.Pack(account), k.Tail.Pack(account)}
}

// forget removes the rows of an account unless they mean something. They are read so that it conflicts with whatever
// changes them.
func (i idle) forget(account string) error {
	charges, err := i.s.Charges(i.tx.Snapshot(), account)
	if err != nil {
		return err
	}
	floor, err := i.tx.Snapshot().Get(i.s.Keys.Floor)
	if err != nil {
		return err
	}
	keys := i.s.Keys.ofIdle(account)
	rows, err := i.tx.GetAll(keys)
	if err != nil {
		return err
	}
	count, excess, tail := kv.Counter(rows[0]), kv.Counter(rows[1]), kv.Counter(rows[2])
	if len(charges) > 0 || count != 0 || excess != 0 || tail > kv.Counter(floor) {
		return nil
	}
	// Reached: an account is forgotten
	for _, key := range keys {
		i.tx.Clear(key)
	}
	return nil
}

// nextRows reads rows of a space behind those that the call before it has read, be it of another process. After the
// last one it begins anew.
func (i idle) nextRows(name string, space tuple.Subspace) ([]kv.KeyValue, error) {
	place, at := i.s.Keys.Swept.Pack(name), space.Range()
	last, err := i.tx.Snapshot().Get(place)
	if err != nil {
		return nil, err
	}
	if begin := append(space.Begin(len(last)), last...); bytes.Compare(begin, at.End) < 0 && last != nil {
		at.Begin = kv.KeyAfter(begin)
	}
	rows, err := i.tx.Snapshot().GetRange(at, kv.RangeOptions{Limit: i.limit})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == i.limit:
		i.tx.Set(place, rows[i.limit-1].Key[len(space):])
	case last != nil:
		i.tx.Clear(place)
	}
	return rows, nil
}
