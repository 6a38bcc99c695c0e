package sweep

import (
	"math"
	"slices"

	"couchrelay/sim/metrics/stats"
)

// Interval is a mean over seeds with the interval in which it lies with some confidence; see stats.Margin. Seeds
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

func interval(values []float64) Interval {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	mean, margin := stats.Mean(values), stats.Margin(values, confidence)
	return Interval{Mean: Number(mean), Low: Number(mean - margin), High: Number(mean + margin), Seeds: len(values)}
}
