package loop

import (
	"testing"
	"time"

	"couchrelay/core/instant"

	"github.com/benbjohnson/clock"
)

// adjusted is a clock whose wall clock was set back after a while.
type adjusted struct {
	clock.Clock
	wall   time.Time
	passed time.Duration
}

func (a *adjusted) Now() time.Time                { return a.wall }
func (a *adjusted) Since(time.Time) time.Duration { return a.passed }

// TestSteadyClock: leases and timers go on by the monotonic clock when the wall clock jumps.
func TestSteadyClock(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	c := &adjusted{wall: start}
	both := newTime(c)
	c.wall, c.passed = start.Add(-time.Hour), 5*time.Second
	got := both.both()
	if got.Steady != instant.Of(start.Add(5*time.Second)) || got.Wall != instant.Of(c.wall) {
		t.Errorf("steady %s, wall %s", got.Steady, got.Wall)
	}
}
