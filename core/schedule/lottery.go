package schedule

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/prng"
)

// lottery is lottery scheduling (Waldspurger and Weihl, OSDI 1994): each turn goes to the holder of a ticket that
// is drawn, and shares are tickets. After n turns an account that should have had the part p of them is off by
// about the square root of n*p*(1-p), without a bound, and an account of any shares waits for ever with
// probability 0.
//
// The paper draws when a slot becomes free, from all that wait. Here a job is queued once, so the draw is a race:
// an account's tail moves on by an exponentially distributed number with a mean of the turn's cost. Its tags then
// are a Poisson process with its shares as rate, so that the next one of all is an account's with the
// probability of its part of the shares, independent of all before, as in a lottery. It also differs in that a
// turn costs what it lasted (instead of compensation tickets), that there are no currencies and transfers, and
// that the draw depends on Order.Seed, the account and its tail alone: the same seed draws the same.
type lottery struct{}

func (lottery) Needs() State { return NeedsTail }

func (r lottery) Enter(o Order, _ instant.Time, a Account) (int64, Account) {
	return r.draw(o, o.entering(a), a, o.growth())
}

func (lottery) Next(o Order, t Turn, _ time.Duration, _ instant.Time, a Account) int64 {
	return o.spaced(t, a, a.Tail)
}

func (r lottery) Settle(o Order, t Turn, _ instant.Time, a Account) (int64, Account) {
	return r.draw(o, t, a, t.Owed)
}

// draw moves the tail on, and queues the job there. The tail grows with every draw, so that no two are alike.
func (lottery) draw(o Order, t Turn, a Account, d time.Duration) (int64, Account) {
	rng := prng.Fork(o.Seed^uint64(a.Tail), a.Name)
	const bits, ln2 = 62, 2_977_044_471 // of which the latter has 32 bits behind the point
	exponential := mulDiv(bits<<fraction-Log2(int64(1+rng.Uint64n(1<<bits))), ln2, 1<<fraction)
	a.Tail += 1 + mulDiv(Cost(d, a.Shares), exponential, 1<<fraction)
	return o.spaced(t, a, a.Tail), a
}

func (lottery) GivesWay(_, _ Running) int { return 0 }
