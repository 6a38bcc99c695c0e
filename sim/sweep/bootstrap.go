package sweep

import (
	"math"
	"slices"

	"couchrelay/core/prng"
)

// Interval is a mean over seeds with the interval in which it lies with 95 % confidence: percentiles of bootstrap
// samples (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 13.3). Seeds without a value do not
// count. Without two values there is no interval, and its ends are NaN.
type Interval struct {
	Mean  Number `json:"mean"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
	Seeds int    `json:"seeds"` // that have a value
}

// Excludes reports whether the interval lies on one side of a value.
func (i Interval) Excludes(x float64) bool { return float64(i.Low) > x || float64(i.High) < x }

const (
	resamples  = 2000
	confidence = 0.95
)

// bootstrap computes intervals. It draws the same samples for all sets of values of a size, so that results do
// not depend on the order in which they are computed.
type bootstrap struct {
	draws map[int][]int // resamples times n places, by n
	means []float64
}

func newBootstrap() *bootstrap {
	return &bootstrap{draws: map[int][]int{}, means: make([]float64, resamples)}
}

func (b *bootstrap) interval(values []float64) Interval {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	n := len(values)
	i := Interval{Mean: Number(mean(values)), Low: Number(math.NaN()), High: Number(math.NaN()), Seeds: n}
	if n < 2 {
		return i
	}
	draws := b.drawsOf(n)
	for k := range b.means {
		sum := 0.0
		for _, place := range draws[k*n : (k+1)*n] {
			sum += values[place]
		}
		b.means[k] = sum / float64(n)
	}
	slices.Sort(b.means)
	i.Low, i.High = Number(quantile(b.means, (1-confidence)/2)), Number(quantile(b.means, (1+confidence)/2))
	return i
}

func (b *bootstrap) drawsOf(n int) []int {
	if b.draws[n] == nil {
		src := prng.Fork(uint64(n), "bootstrap")
		draws := make([]int, resamples*n)
		for i := range draws {
			draws[i] = src.Intn(n)
		}
		b.draws[n] = draws
	}
	return b.draws[n]
}

// mean is NaN of no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// quantile interpolates between sorted values.
func quantile(sorted []float64, part float64) float64 {
	at := part * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
