package node

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/schedule"
)

// roundClock tells a node when the present round of the queue is over, also if another node began the round by a clock
// that is behind. A node with such a clock begins each round again by it (see schedule.Order.NextRound). If that clock
// is behind by more than a round lasts, this node would find each round over, and end it, as soon as it sees it.
type roundClock struct {
	seen   schedule.Round
	looked instant.Time  // when the node saw it last, by the node's steady clock; 0 before the first time
	behind time.Duration // by how much at least the clock that began it is behind the node's; 0 if that is unknown
}

// now is called when the node sees the present round. It returns the time by the clock that began the round, as far as
// the node knows it, and otherwise by its own. A round that the node has not seen before began after its last look. If
// the round's own time is earlier than that look by more than slack, its clock is behind by as much.
func (c *roundClock) now(clock Clock, round schedule.Round, slack time.Duration) instant.Time {
	if round != c.seen {
		before := clock.Wall.Add(c.looked.Sub(clock.Steady)).Sub(round.Since)
		if c.behind = 0; c.looked != 0 && round.Since != 0 && before > slack {
			// Reached: a round was begun by a clock that is behind
			c.behind = before
		}
	}
	c.seen, c.looked = round, clock.Steady
	return clock.Wall.Add(-c.behind)
}
