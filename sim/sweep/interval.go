package sweep

import (
	"math"
	"slices"

	"couchrelay/sim/metrics/stats"
)

// Interval is a mean over seeds with the interval in which it lies with some confidence; see stats.Bootstrap. Seeds
// without a value do not count. Without two values there is no interval, and its ends are NaN.
type Interval struct {
	Mean  Number `json:"mean"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
	Seeds int    `json:"seeds"` // that have a value
}

// Excludes reports whether the interval lies on one side of a value.
func (i Interval) Excludes(x float64) bool { return float64(i.Low) > x || float64(i.High) < x }

const confidence = 0.95

// interval draws the same samples for all sets of values of a size, so that results do not depend on the order in
// which they are computed.
func interval(values []float64) Interval {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	b := stats.Bootstrap{Level: confidence, Seed: uint64(len(values))}
	i := b.Interval(values, stats.Mean)
	return Interval{Mean: Number(i.Estimate), Low: Number(i.Low), High: Number(i.High), Seeds: len(values)}
}
