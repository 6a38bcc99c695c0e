package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// tags is start-time fair queueing between accounts (Goyal, Vin and Cheng, 1996): what an account gets follows
// its shares turn by turn. A job is queued under its account's tail, which moves on by the cost of the turn
// that the job had, or by an interval for a new one, a day at most. Time that was used while no job waited costs
// nothing.
type tags struct{}

func (tags) Needs() State { return NeedsTail }

// longestEntry bounds what a new job costs: with an interval of centuries, meant as no rotation, a thousand jobs would
// be more than the greatest tag.
const longestEntry = 24 * time.Hour

func (r tags) Enter(o Order, _ instant.Time, a Account) (int64, Account) {
	return r.pay(o, o.entering(a), a, min(o.growth(), longestEntry))
}

func (tags) Next(o Order, t Turn, _ time.Duration, _ instant.Time, a Account) int64 {
	return o.spaced(t, a, a.Tail)
}

func (r tags) Settle(o Order, t Turn, _ instant.Time, a Account) (int64, Account) {
	return r.pay(o, t, a, t.Owed)
}

// pay gives out the account's next tag.
func (tags) pay(o Order, t Turn, a Account, d time.Duration) (int64, Account) {
	tag := o.spaced(t, a, a.Tail)
	a.Tail += Cost(d, a.Shares)
	return tag, a
}

func (tags) GivesWay(_, _ Running) int { return 0 }

// Cost is by how much the tags of an account advance for a turn of which d passed while others waited:
// microseconds for an account of 100 shares, half as many for one of 200.
func Cost(d time.Duration, shares int64) int64 {
	return mulDiv(max(d.Microseconds(), 0), DefaultShares, max(shares, 1))
}
