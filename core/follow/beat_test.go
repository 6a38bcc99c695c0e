package follow_test

import (
	"testing"
	"time"

	"couchrelay/core/follow"
)

// TestFirstBeat: a worker that has just joined is known to live, and beats when a quarter of the time is over in which
// others wait for it, but looks for jobs at once.
func TestFirstBeat(t *testing.T) {
	w := newWorld(t)
	beats, accepts := 0, 0
	w.done = func(q follow.Request) bool {
		switch q.(type) {
		case follow.Beat:
			beats++
		case follow.Accept:
			accepts++
		}
		return false
	}
	w.start()
	w.settle(time.Second)
	if beats > 0 || accepts == 0 {
		t.Errorf("%d heartbeats and %d looks for jobs in the first second", beats, accepts)
	}
	w.settle(follow.ActivityTimeout / 2)
	if beats == 0 {
		t.Error("no heartbeat in time")
	}
}
