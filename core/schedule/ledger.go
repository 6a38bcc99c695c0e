package schedule

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"couchrelay/core/instant"
)

// Ledger is what a worker's jobs used, by account and interval, until that is stored and its interval long
// over. Numbers only grow. So the store keeps the greatest one that it was given, and charges may be
// repeated, reordered and late.
type Ledger struct {
	entries []entry // in the order of accounts and times; at most one for each
}

type entry struct {
	Charge       // Worker is empty here
	stored int64 // the greatest Used that is known to be stored
}

// Add notes that a job of the account held a slot for ran, until now by the wall clock, in intervals of the
// given length. The time is divided between the intervals that it touches.
func (l *Ledger) Add(account string, ran time.Duration, now instant.Time, interval time.Duration) {
	f := Forgetting{Interval: interval}
	for from := now.Add(-ran); from < now; {
		begin := f.begin(from)
		to := min(now, begin+instant.Time(max(interval.Microseconds(), 1)))
		l.entry(account, begin).Used += int64(to - from)
		from = to
	}
}

func (l *Ledger) entry(account string, at instant.Time) *entry {
	e := entry{Charge: Charge{Account: account, At: at}}
	i := sort.Search(len(l.entries), func(i int) bool { return compareEntries(&l.entries[i], &e) >= 0 })
	if i == len(l.entries) || l.entries[i].Account != account || l.entries[i].At != at {
		l.entries = slices.Insert(l.entries, i, e)
	}
	return &l.entries[i]
}

// compareEntries orders entries. It is called for every run in every interval, and most names are equal.
func compareEntries(a, b *entry) int {
	if a.Account != b.Account {
		return strings.Compare(a.Account, b.Account)
	}
	return cmp.Compare(a.At, b.At)
}

// Due returns the charges that have grown since they were stored, in the name of the worker.
func (l *Ledger) Due(worker string) (due []Charge) {
	for _, e := range l.entries {
		if e.Used > e.stored {
			e.Worker = worker
			due = append(due, e.Charge)
		}
	}
	return due
}

// Stored notes that charges were stored, and forgets those of intervals that began before the given time.
func (l *Ledger) Stored(charges []Charge, before instant.Time) {
	for _, c := range charges {
		e := l.entry(c.Account, c.At)
		e.stored = max(e.stored, c.Used)
	}
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return e.At < before && e.Used <= e.stored })
}
