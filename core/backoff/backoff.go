// Package backoff computes how long a failing job waits before it runs again, as RFC 016 has it: the wait
// doubles with every error in a row, and is drawn at random from a part of that, so that jobs which failed
// together spread.
package backoff

import (
	"time"

	"couchrelay/core/invariant"
	"couchrelay/core/prng"
)

const bounded invariant.ID = "backoff.bounded: 0 <= shortest wait <= wait <= longest wait <= Max"

// Policy holds the constants of RFC 016 (whose formula says max where it means min). None is negative.
type Policy struct {
	Min time.Duration // the wait after the first error, if it is below Max
	Max time.Duration // the longest wait, which later errors do not exceed
	// Health is how long a run must last to be healthy. The crash of a healthy run is the first in a row.
	Health time.Duration
}

// Default has CouchDB's defaults: min_backoff_penalty_sec, max_backoff_penalty_sec and health_threshold_sec.
var Default = Policy{Min: 32 * time.Second, Max: 172_800 * time.Second, Health: 120 * time.Second}

// Delay returns the longest wait after this number of errors in a row: Min, doubled with every error behind
// the first, at most Max. Without errors there is no wait.
func (p Policy) Delay(errors int) time.Duration {
	if errors < 1 {
		return 0
	}
	d := min(p.Min, p.Max)
	for range errors - 1 {
		if d > p.Max/2 {
			return p.Max
		}
		d *= 2
	}
	return d
}

// Jittered draws a wait from the last quarter of Delay, so that jobs that failed together do not come back
// together. Waits grow all the same: until Max is reached, the shortest wait after n+1 errors is no shorter
// than the longest after n.
func (p Policy) Jittered(errors int, rng *prng.Source) time.Duration {
	d := p.Delay(errors)
	quarter := d / 4
	wait := d - time.Duration(rng.Uint64n(uint64(quarter)+1))
	invariant.Check(0 <= d-quarter && d-quarter <= wait && wait <= d && d <= max(p.Max, 0), bounded, int(wait), int(d))
	return wait
}

// Errors returns the number of errors in a row after another crash, of a run that lasted for ran. A run that
// lasted longer than Health starts the count anew.
func (p Policy) Errors(before int, ran time.Duration) int {
	if ran > p.Health {
		return 1
	}
	return before + 1
}
