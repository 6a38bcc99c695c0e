package schedule

import (
	"slices"
	"sort"
	"time"

	"couchrelay/core/instant"
)

// Ledger is what a worker's jobs used, by account and interval, until that is stored and its interval long
// over. Numbers only grow. So the store keeps the greatest one that it was given, and charges may be
// repeated, reordered and late. An account has many intervals after the process has stood still for long.
type Ledger struct {
	accounts []used // in the order of their names; each has entries
}

// used is what an account used.
type used struct {
	name    string
	entries []entry // in the order of times; at most one for each
}

type entry struct {
	Charge       // Account and Worker are empty here
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
	i := sort.Search(len(l.accounts), func(i int) bool { return l.accounts[i].name >= account })
	if i == len(l.accounts) || l.accounts[i].name != account {
		l.accounts = slices.Insert(l.accounts, i, used{name: account})
	}
	u := &l.accounts[i]
	i = sort.Search(len(u.entries), func(i int) bool { return u.entries[i].At >= at })
	if i == len(u.entries) || u.entries[i].At != at {
		u.entries = slices.Insert(u.entries, i, entry{Charge: Charge{At: at}})
	}
	return &u.entries[i]
}

// Due returns charges that have grown since they were stored, most of them at most, in the name of the worker.
func (l *Ledger) Due(worker string, most int) (due []Charge) {
	for _, u := range l.accounts {
		for _, e := range u.entries {
			if len(due) == most {
				return due
			}
			if e.Used > e.stored {
				e.Account, e.Worker = u.name, worker
				due = append(due, e.Charge)
			}
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
	for i := range l.accounts {
		u := &l.accounts[i]
		u.entries = slices.DeleteFunc(u.entries, func(e entry) bool { return e.At < before && e.Used <= e.stored })
	}
	l.accounts = slices.DeleteFunc(l.accounts, func(u used) bool { return len(u.entries) == 0 })
}
