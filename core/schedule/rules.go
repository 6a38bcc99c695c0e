package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// Rules are a policy: where jobs are queued, what a turn costs, and which jobs give way. All methods are pure
// functions of plain values and compute in integers; they keep nothing themselves. Keys are compared with keys
// of the same policy only, the lowest goes first, and a job keeps its key for as long as it waits.
type Rules interface {
	// Needs is the state of accounts that the other methods go by. Of an Account only what is needed is
	// filled in, besides Shares and Jobs.
	Needs() State
	// Enter is the key of a new job, which a.Jobs counts already, and what becomes of its account.
	Enter(o Order, now instant.Time, a Account) (key int64, after Account)
	// Next is the key of a running job if it stopped now. t is its turn until now, with the place at the last call of
	// Next, or when it started, and ran is the time since then.
	Next(o Order, t Turn, ran time.Duration, now instant.Time, a Account) (key int64)
	// Settle is the key of a job that is queued again after a turn, and what becomes of its account. Under a
	// policy that needs no tails the account is empty: the job's place in the turn, which Next kept up to
	// date, says all. Under one that needs them, all but Usage is known, and Settle is called for turns that
	// cost something only (Order.Pays).
	Settle(o Order, t Turn, now instant.Time, a Account) (key int64, after Account)
	// GivesWay compares two continuous jobs that run: it is negative if a stops before b when another job
	// waits for a slot, and 0 if the one stops first that ran longer.
	GivesWay(a, b Running) int
}

// State is what must be known of accounts.
type State uint8

// States.
const (
	NeedsNothing State = iota
	NeedsUsage         // Account.Usage, which is forgotten over time
	NeedsTail          // Account.Tail, which Enter and Settle move on
	NeedsTime          // nothing of accounts: keys are times by wall clocks, which may be ahead
)

// Turn is how a run counts against its account when it ends. The node that ran the job computes it.
type Turn struct {
	Place Place // the job's place by the node's last survey; see Order.Next
	// Owed is how long it ran while others waited, not negative and not longer than the run.
	Owed time.Duration
	// Began is the job's place when it got its slot.
	Began Place
}

// Enter is the place of a new job, and what becomes of its account, of which only the tail may change. a.Jobs
// counts the job already.
func (o Order) Enter(now instant.Time, a Account) (Place, Account) {
	key, after := o.Policy.rules().Enter(o, now, a)
	return o.place(key), after
}

// Next is the place of a running job if it stopped now. t is its turn until now, with the place at the last call of
// Next, or when it started, and ran is the time since then. Of a longer time than Periods.Growth only that counts.
func (o Order) Next(t Turn, ran time.Duration, now instant.Time, a Account) Place {
	return o.place(o.Policy.rules().Next(o, t, ran, now, a))
}

// Pays reports whether the end of a turn moves the tail of its account. Otherwise Settle needs no account.
func (o Order) Pays(t Turn) bool {
	return o.Needs() == NeedsTail && (t.Owed > 0 || t.Place.Epoch != o.Epoch)
}

// Settle is the place of a job that is queued again after a turn, and what becomes of its account, of which
// only the tail may change. A place of another epoch is of another policy, and the job starts anew.
func (o Order) Settle(t Turn, now instant.Time, a Account) (Place, Account) {
	if o.Needs() == NeedsTail && !o.Pays(t) {
		return t.Place, a
	}
	key, after := o.Policy.rules().Settle(o, t, now, a)
	return o.place(key), after
}

// Needs is the state of accounts that the policy in force goes by.
func (o Order) Needs() State { return o.Policy.rules().Needs() }

func (o Order) place(key int64) Place { return Place{Epoch: o.Epoch, Key: key} }

// Tail is the tag that an account's next job gets if it has their mean weight: its stored tail, but none that is less
// than Floor. So an account that had no jobs cannot save up turns, and one whose jobs wait loses none.
func (o Order) Tail(stored, first int64) int64 { return max(stored, o.Floor(first)) }

// Floor is the least tag that is given out. first is the tag of the first waiting job or, when none waits, the greatest
// tag that got a slot. See also Round.
func (o Order) Floor(first int64) int64 { return max(first, o.Round.Base) }
