package jobstore

import (
	"cmp"
	"fmt"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// Counted is a value that jobs have, and how many of them have it.
type Counted struct {
	Value  string
	Active int64 // jobs that are not over
	Over   int64 // jobs of documents that are completed or failed
}

// Servers counts the jobs that touch each server, "host:port", in the order of these names. See counted.
func (s Lists) Servers(after string, limit int) (list []Counted, next string, err error) {
	return s.counted(byServer, after, limit)
}

// Errors counts the jobs that are crashing or failed with each error, in the order of the errors. See counted.
func (s Lists) Errors(after string, limit int) (list []Counted, next string, err error) {
	return s.counted(byError, after, limit)
}

// counted reads the tallies of a field behind a value, at most limit of each group. Next is where to go on, empty at
// the end: a page may have fewer rows than the limit, since a tally that fell to 0 keeps its row.
func (s Lists) counted(field, after string, limit int) (list []Counted, next string, err error) {
	complete, err := s.Store.Keys.complete(s.Reader)
	if err != nil {
		return nil, "", err
	}
	if !complete {
		return nil, "", ErrReindexing
	}
	for _, g := range []group{0, ofRequest, over} {
		space := s.Store.Keys.Tally.Sub("", int64(g), field)
		behind := space.Range()
		if after != "" {
			behind.Begin = append(space.Pack(after), 0)
		}
		rows, err := s.Reader.GetRange(behind, kv.RangeOptions{Limit: limit})
		if err != nil {
			return nil, "", err
		}
		for _, row := range rows {
			c := Counted{}
			if err := space.Scan(row.Key, &c.Value); err != nil {
				return nil, "", fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
			}
			list = append(list, c.with(g, kv.Counter(row.Value)))
		}
		if last := len(list) - 1; len(rows) == limit && (next == "" || list[last].Value < next) {
			next = list[last].Value
		}
	}
	list = slices.DeleteFunc(list, func(c Counted) bool { return next != "" && c.Value > next })
	slices.SortStableFunc(list, func(a, b Counted) int { return cmp.Compare(a.Value, b.Value) })
	list = merged(list)
	if err := s.withoutDropped(field, list); err != nil {
		return nil, "", err
	}
	return slices.DeleteFunc(list, func(c Counted) bool { return c.Active+c.Over <= 0 }), next, nil
}

// with adds jobs of a group.
func (c Counted) with(g group, n int64) Counted {
	if g&over != 0 {
		c.Over += n
	} else {
		c.Active += n
	}
	return c
}

// merged adds up those of one value, which follow each other.
func merged(list []Counted) (sums []Counted) {
	for _, c := range list {
		if last := len(sums) - 1; last >= 0 && sums[last].Value == c.Value {
			sums[last].Active, sums[last].Over = sums[last].Active+c.Active, sums[last].Over+c.Over
		} else {
			sums = append(sums, c)
		}
	}
	return sums
}

// withoutDropped takes the jobs of deleted databases out of numbers, in the order of their values. There may be as many
// databases as users, each with jobs of a few of the values: the rows that there are are read, in one round trip.
func (s Lists) withoutDropped(field string, list []Counted) error {
	dropped, err := s.Store.Keys.DroppedDBs(s.Reader)
	if err != nil || len(list) == 0 {
		return err
	}
	groups, tally := [2]group{0, over}, s.Store.Keys.Tally
	at := make(map[string]int, len(list))
	for i, c := range list {
		at[c.Value] = i
	}
	var ranges []kv.Range
	for _, instance := range dropped {
		for _, g := range groups {
			of := tally.Sub(instance, int64(g), field)
			ranges = append(ranges, kv.Range{
				Begin: of.Pack(list[0].Value), End: kv.KeyAfter(of.Pack(list[len(list)-1].Value)),
			})
		}
	}
	s.Reader.Prefetch(nil, ranges)
	for n, r := range ranges {
		rows, err := s.Reader.GetRange(r, kv.RangeOptions{})
		if err != nil {
			return err
		}
		g := groups[n%len(groups)]
		of := tally.Sub(dropped[n/len(groups)], int64(g), field)
		for _, row := range rows {
			var value string
			if err := of.Scan(row.Key, &value); err != nil {
				return fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
			}
			if i, is := at[value]; is {
				list[i] = list[i].with(g, -kv.Counter(row.Value))
			}
		}
	}
	return nil
}

// Count counts the jobs that a filter has, up to a limit, without reading them; more says that there may be more.
func (s Lists) Count(f Filter, limit int) (n int, more bool, err error) {
	source, err := s.source(&Listing{Filter: f, Limit: limit})
	for at := (Position{}); err == nil && n < limit; n++ {
		found, err := source.seek(at)
		if err != nil || found.none || found.unsure {
			return n, found.unsure, err
		}
		at = Position{ID: found.id, Past: true}
	}
	return n, true, err
}

// Use is an account with what its jobs used of late.
type Use struct {
	Account string
	Shares  int64
	Jobs    int64   // that are not over, paused or held
	Usage   int64   // in microseconds of slots; see schedule.Forgetting. 0 of policies that do not go by it
	Spent   []Spent // oldest first; intervals without use are left out
}

// Spent is what the jobs of an account used in an interval.
type Spent struct {
	At   instant.Time // the beginning of the interval
	Used int64        // in microseconds of slots
}

// Uses reads accounts that have jobs or have used slots of late, in the order of their names, behind a name. It looks
// at no more than limit of them; next is where to go on, empty at the end. Give a snapshot reader.
func Uses(r kv.Reader, s *Store, now instant.Time, after string, limit int) (list []Use, next string, err error) {
	order, err := s.Order(r)
	if err != nil {
		return nil, "", err
	}
	behind := s.Keys.Count.Range()
	if after != "" {
		behind.Begin = append(s.Keys.Count.Pack(after), 0)
	}
	rows, err := r.GetRange(behind, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, "", err
	}
	keys := make([][]byte, len(rows))
	list = make([]Use, len(rows))
	for i, row := range rows {
		if err := s.Keys.Count.Scan(row.Key, &list[i].Account); err != nil {
			return nil, "", fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
		}
		list[i].Jobs = kv.Counter(row.Value)
		keys[i] = s.Keys.Shares.Pack(list[i].Account)
	}
	if len(rows) == limit {
		next = list[limit-1].Account
	}
	shares, err := r.GetAll(keys)
	if err != nil {
		return nil, "", err
	}
	for i := range list {
		list[i].Shares = sharesOf(shares[i])
		if order.Needs() != schedule.NeedsUsage {
			continue
		}
		charges, err := s.Charges(r, list[i].Account)
		if err != nil {
			return nil, "", err
		}
		list[i].Usage, list[i].Spent = order.Forgetting.Usage(charges, now), spent(charges)
	}
	return slices.DeleteFunc(list, func(u Use) bool { return u.Jobs <= 0 && u.Usage == 0 }), next, nil
}

// spent adds up the charges of all workers for each interval.
func spent(charges []schedule.Charge) (list []Spent) {
	for _, c := range charges {
		if last := len(list) - 1; last < 0 || list[last].At != c.At {
			list = append(list, Spent{At: c.At})
		}
		list[len(list)-1].Used += c.Used
	}
	return list
}
