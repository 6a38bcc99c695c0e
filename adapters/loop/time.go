package loop

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"

	"github.com/benbjohnson/clock"
)

// clockTime reads both clocks of the core off one clock: the wall clock, and one that starts with it and
// then follows the monotonic clock, so that it never jumps.
type clockTime struct {
	clock clock.Clock
	start time.Time
}

func newTime(c clock.Clock) clockTime { return clockTime{clock: c, start: c.Now()} }

func (t clockTime) steady() instant.Time { return instant.Of(t.start).Add(t.clock.Since(t.start)) }

func (t clockTime) both() node.Clock {
	return node.Clock{Steady: t.steady(), Wall: instant.Of(t.clock.Now())}
}
