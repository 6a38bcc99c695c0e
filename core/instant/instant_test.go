package instant

import (
	"math"
	"testing"
	"time"
)

// TestNever: what waits for no time goes on so, whatever is added, and settings that mean for ever do not end in the
// past.
func TestNever(t *testing.T) {
	for _, c := range []struct {
		at   Time
		d    time.Duration
		want Time
	}{
		{Never, time.Microsecond, Never}, {Never - 5, 5 * time.Microsecond, Never}, {Never, math.MaxInt64, Never},
		{Never - 5, 4 * time.Microsecond, Never - 1}, {Never, -time.Microsecond, Never - 1},
		{Seconds(5), time.Minute, Seconds(65)}, {Seconds(5), -time.Minute, Seconds(-55)},
	} {
		if got := c.at.Add(c.d); got != c.want {
			t.Errorf("%s after %d is %d", c.d, c.at, got)
		}
	}
	if got := Seconds(5).Add(math.MaxInt64); got < Seconds(200*365*24*3600) {
		t.Errorf("for ever ends at %s", got)
	}
}

// TestClocks: the time of a clock is kept to the microsecond, wherever that clock is.
func TestClocks(t *testing.T) {
	at := time.Date(2026, 1, 31, 10, 5, 59, 999_999_999, time.FixedZone("", 2*3600))
	got := Of(at)
	if !got.Std().Equal(at.Truncate(time.Microsecond)) || got.Unix() != at.Unix() ||
		got.ISO8601() != "2026-01-31T08:05:59Z" {
		t.Errorf("%s, %d", got, got.Unix())
	}
	if early := Of(time.Unix(-1, 500_000_000)); early.Unix() != -1 {
		t.Errorf("half a second before the epoch is second %d", early.Unix())
	}
}
