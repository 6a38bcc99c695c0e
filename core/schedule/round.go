package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// Round bounds waits under policies of services that need tails: an account with few shares for many jobs gives
// them tags that others reach after a hundred turns, or never if the others have enough to do. A waiting job is
// never touched, so it is not moved. Instead, when a job has waited for a whole round, new tags begin behind all
// that wait (Base): each of those gets a turn before any other job gets its next one.
//
// A round is TurnsPerRound full turns of the queue. A job that comes in a round is seen at its end (Last), found
// waiting at the end of the next, and then has its turn within a full turn: it waits for 2*TurnsPerRound + 1 at
// most. Turns that are brought forward are paid as all others are. They are those of jobs that waited for more
// than a round, once in two rounds, so that shares are off by 1/(2*TurnsPerRound) at most, and exact while no
// job waits for so long.
type Round struct {
	Since instant.Time // by the wall clock of the node that began it
	Last  int64        // the greatest tag that waited when it began
	Base  int64        // new tags are no less
}

// TurnsPerRound is how many full turns of the queue a round lasts.
const TurnsPerRound = 8

// RoundEnds reports whether the round is over, with so many jobs ready; see FullTurn. One that begins in a future to
// which some clock was set is to begin now instead. A clock that is behind by less than a rotation is no reason.
func (o Order) RoundEnds(now instant.Time, ready int64, churn, slots int, minRun time.Duration) bool {
	turn := o.FullTurn(ready, churn, slots, minRun)
	length := mulDiv(int64(turn), TurnsPerRound, 1)
	early := now < o.Round.Since.Add(-o.rotation())
	return turn > 0 && (early || int64(now.Sub(o.Round.Since)) >= length)
}

// FullTurn is the time by which rounds count turns of so many jobs that are ready. Of them churn have turns in each
// rotation, and each turn lasts for minRun at least in one of so many slots. It is 0 where there are no rounds.
func (o Order) FullTurn(ready int64, churn, slots int, minRun time.Duration) time.Duration {
	if !o.Policy.InService() || o.Needs() != NeedsTail || ready < 1 || churn < 1 || slots < 1 {
		return 0
	}
	return time.Duration(max(1, mulDiv(ready, int64(o.rotation()), int64(churn)),
		mulDiv(ready, int64(max(minRun, 0)), int64(slots))))
}

// NextRound is the round that begins now, with the first and the last tag that wait. Of one that was to begin later it
// has all but the time: if the clocks of nodes differ, one may find so whenever another one has begun a round.
func (o Order) NextRound(now instant.Time, first, last int64) Round {
	if now < o.Round.Since {
		return Round{Since: now, Last: o.Round.Last, Base: o.Round.Base}
	}
	next := Round{Since: now, Last: last, Base: o.Round.Base}
	if first < o.Round.Last {
		next.Base = max(next.Base, last)
	}
	return next
}
