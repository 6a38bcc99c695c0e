package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/sim/world"
)

// polls are the invariants of how often followed databases are asked for changes.
type polls struct {
	*chronicle
	minute instant.Time
	soon   map[string]int          // how often in this minute, by worker, database and place in its feed
	last   map[string]instant.Time // when each long poll was sent last
}

// A long poll that brings nothing is repeated after a quarter of a second, and this doubles, up to ten seconds, unless
// it took a second itself. So hardly any is repeated within soon, and no minute has maxSoon of them.
const (
	soon    = 1200 * time.Millisecond
	maxSoon = 20
)

var pollSubject = subject{
	invariants: []Invariant{
		{"B1l", "A worker repeats a long poll of a followed database within 1.2 seconds no more than 20 times in a " +
			"minute."},
	},
	begin: func(c *chronicle) {
		p := &polls{chronicle: c, soon: map[string]int{}, last: map[string]instant.Time{}}
		c.on.followCalls.add(p.called)
	},
}

func (p *polls) called(c world.FollowCalls) {
	op, reads := c.Op.(peer.ReadChanges)
	if !reads || !op.Wait {
		return
	}
	now, which := p.w.Now(), c.Worker+" "+c.Of.ID()+" "+string(op.Since)
	if minute := p.thisMinute(); minute != p.minute {
		p.minute, p.soon = minute, map[string]int{}
	}
	if last, known := p.last[which]; known && now.Sub(last) < soon {
		p.soon[which]++
	}
	if p.last[which] = now; p.soon[which] > maxSoon {
		p.Fail("B1l", "%s repeated this %d times in one minute for %s: %s", c.Worker, p.soon[which], c.Of.URL, op)
	}
}
