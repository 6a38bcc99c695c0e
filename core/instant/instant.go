// Package instant is the core's clock type. The core never asks what time it is: whoever steps a
// machine or runs a transaction hands the present in as a Time. Production takes it from a clock,
// the simulator from its event queue.
package instant

import (
	"math"
	"time"
)

// Time is a moment in microseconds since the Unix epoch, UTC. The zero value is the epoch and
// stands for "never happened".
type Time int64

// Never is later than every moment that can occur; it is the deadline of what waits for no time.
const Never Time = math.MaxInt64

// Of converts a wall clock reading.
func Of(t time.Time) Time { return Time(t.UnixMicro()) }

// Seconds is the moment s seconds after the epoch.
func Seconds(s int64) Time { return Time(s * 1_000_000) }

// Std converts to the standard library's type, in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Unix is the number of whole seconds since the epoch.
func (t Time) Unix() int64 { return t.Std().Unix() }

// Add is the moment d later, saturating at Never.
func (t Time) Add(d time.Duration) Time {
	micros := d.Microseconds()
	if micros > 0 && int64(t) > math.MaxInt64-micros {
		return Never
	}
	return t + Time(micros)
}

// Sub is the time passed from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

// ISO8601 formats to whole seconds as CouchDB's monitoring endpoints do: 2026-01-31T08:05:59Z.
func (t Time) ISO8601() string { return t.Std().Format("2006-01-02T15:04:05Z") }

// RFC1123 formats as CouchDB's checkpoint documents do: Sat, 31 Jan 2026 08:05:59 GMT.
func (t Time) RFC1123() string { return t.Std().Format("Mon, 02 Jan 2006 15:04:05 GMT") }

// String prints microseconds precision, for traces and test failures.
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return t.Std().Format("2006-01-02T15:04:05.000000Z")
}
