package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// stride is stride scheduling (Waldspurger and Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource
// Management", MIT/LCS/TM-528, 1995). An account is a client, whose pass moves on by its stride (time over shares)
// for each turn; the least pass is next. Of any two accounts whose jobs wait, neither is ever more than a turn
// from its share of what both got.
//
// A job is queued once, under its account's pass after the turn that it had, so:
//   - each of several jobs of an account waits under a pass of its own;
//   - an account that comes back begins at the first pass that waits, not at the global one (an average that moves
//     with each tick), and what it was behind is lost, as under tags, while what it was ahead stays and is not
//     carried along with the global pass;
//   - a change of shares holds for the next turns; the paper scales what a client is ahead or behind;
//   - time that was used while no job waited costs nothing.
type stride struct{}

func (stride) Needs() State { return NeedsTail }

func (r stride) Enter(o Order, _ instant.Time, a Account) (int64, Account) {
	return r.advance(o, o.entering(a), a, o.growth())
}

func (stride) Next(o Order, t Turn, _ time.Duration, _ instant.Time, a Account) int64 {
	return o.spaced(t, a, a.Tail)
}

func (r stride) Settle(o Order, t Turn, _ instant.Time, a Account) (int64, Account) {
	return r.advance(o, t, a, t.Owed)
}

// advance moves the pass on, and queues the job there.
func (stride) advance(o Order, t Turn, a Account, d time.Duration) (int64, Account) {
	a.Tail += Cost(d, a.Shares)
	return o.spaced(t, a, a.Tail), a
}

func (stride) GivesWay(_, _ Running) int { return 0 }
