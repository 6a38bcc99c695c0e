package node

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/schedule"
)

// roundClock tells the time by the clock that the present round of the queue was begun by, if that is another node's
// which is behind: such a node has each round begin again (see schedule.Order.NextRound), and where that is longer ago
// by this node's clock than a round lasts, this one would end it at once.
type roundClock struct {
	seen   schedule.Round
	looked instant.Time  // when the node saw it last, by the steady clock; 0 before the first time
	behind time.Duration // by how much that clock is behind, at least
}

// now is that time, when the node sees a round. One that it had not seen when it looked last began since then, and the
// clock is behind if it says that this was earlier, by more than slack.
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
