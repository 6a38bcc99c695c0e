package loop

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"

	"github.com/benbjohnson/clock"
)

// clockTime derives both clocks of the core from one clock. The wall clock may jump. The steady clock starts
// at the wall clock's time and then follows the monotonic clock, so it never jumps.
type clockTime struct {
	clock clock.Clock
	start time.Time // when the steady clock started
}

func newTime(c clock.Clock) clockTime { return clockTime{clock: c, start: c.Now()} }

// steady reads the steady clock.
func (t clockTime) steady() instant.Time { return instant.Of(t.start).Add(t.clock.Since(t.start)) }

// both reads both clocks.
func (t clockTime) both() node.Clock {
	return node.Clock{Steady: t.steady(), Wall: instant.Of(t.clock.Now())}
}
