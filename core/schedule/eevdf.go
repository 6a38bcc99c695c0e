package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// eevdf is earliest eligible virtual deadline first (Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline
// First", Old Dominion University TR-95-22, 1995; Linux since 6.6). A request is eligible when its account has
// received no more than it should have, and has a deadline a slice over its shares later, in virtual time; of the
// eligible ones the earliest deadline is next. What an account got differs from what it should have got by a turn
// at most.
//
// Whether a job is eligible changes while it waits, but here its key does not. So:
//   - eligibility is decided in windows of virtual time: jobs whose windows are earlier go first, and within a
//     window deadlines decide, up to its end. The error is a turn and a window at most;
//   - virtual time is where the first waiting job stands, not the average over all accounts;
//   - the slice is an interval, and a turn costs what it lasted; what the account was behind when its last job
//     ended is lost, and what it was ahead stays. (Linux keeps both for a while.)
type eevdf struct{}

// window is the length of a window of eligibility: ten slices at 100 shares, so that the deadlines of accounts
// from 10 shares on differ.
func (eevdf) window(o Order) int64 { return max(10*Cost(o.growth(), DefaultShares), 1) }

func (eevdf) Needs() State { return NeedsTail }

func (r eevdf) Enter(o Order, _ instant.Time, a Account) (int64, Account) {
	return r.request(o, o.entering(a), a, o.growth())
}

func (r eevdf) Next(o Order, t Turn, _ time.Duration, _ instant.Time, a Account) int64 {
	key, _ := r.request(o, t, a, 0)
	return key
}

func (r eevdf) Settle(o Order, t Turn, _ instant.Time, a Account) (int64, Account) {
	return r.request(o, t, a, t.Owed)
}

// request queues a job of which a turn of d is paid.
func (r eevdf) request(o Order, t Turn, a Account, d time.Duration) (int64, Account) {
	window, tag := r.window(o), o.spaced(t, a, a.Tail)
	begin := tag / window * window // the window in which it is eligible
	deadline := tag + Cost(o.growth(), a.Shares)
	a.Tail += Cost(d, a.Shares)
	return min(deadline, begin+window-1), a
}

// GivesWay has the longest turn end first. By deadlines, an account whose jobs all run would keep its slots: it
// pays when turns end, so that its deadlines would stay the earliest.
func (eevdf) GivesWay(_, _ Running) int { return 0 }
