// Package backoff says how long a failing job waits before it is tried again. It is pure computation.
package backoff

import (
	"time"

	"couchrelay/core/prng"
)

// Policy holds the constants of RFC 016 (which writes max where it means min).
type Policy struct {
	Min time.Duration // after the first error
	Max time.Duration // after many
	// Health is how long a run must have lasted for its crash not to count as one in a row.
	Health time.Duration
}

// Default is CouchDB's: min_backoff_penalty_sec, max_backoff_penalty_sec and health_threshold_sec.
var Default = Policy{Min: 32 * time.Second, Max: 172_800 * time.Second, Health: 120 * time.Second}

// Delay is the longest wait after the nth error in a row, counted from 1: Min doubled with every error
// up to Max. No errors mean no wait.
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

// Jittered draws from the last quarter of Delay, so that jobs that failed together do not come back
// together. It stays monotone: the shortest wait after n+1 errors is no shorter than the longest
// after n until Max is reached.
func (p Policy) Jittered(errors int, rng *prng.Source) time.Duration {
	d := p.Delay(errors)
	quarter := d / 4
	if quarter <= 0 {
		return d
	}
	return d - time.Duration(rng.Uint64n(uint64(quarter)+1))
}

// Errors is the count after another crash: a run that lasted longer than Health starts the count anew.
func (p Policy) Errors(before int, ran time.Duration) int {
	if ran > p.Health {
		return 1
	}
	return before + 1
}
