package stats

import (
	"math"
	"testing"

	"couchrelay/core/prng"
)

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

// TestQuantile has values that R's quantile(c(15, 20, 35, 40, 50), p) gives.
func TestQuantile(t *testing.T) {
	values := []float64{40, 15, 50, 20, 35}
	for _, c := range []struct{ q, want float64 }{
		{0, 15}, {0.05, 16}, {0.3, 23}, {0.4, 29}, {0.5, 35}, {0.95, 48}, {1, 50},
	} {
		if got := Quantile(values, c.q); !near(got, c.want, 1e-12) {
			t.Errorf("the %v-quantile is %v, want %v", c.q, got, c.want)
		}
	}
	if values[0] != 40 {
		t.Error("Quantile sorted its argument")
	}
	for _, none := range [][]float64{nil, {1, math.NaN(), 2}} {
		if got := Quantile(none, 0.5); !math.IsNaN(got) {
			t.Errorf("the median of %v is %v", none, got)
		}
	}
}

// TestTwoValues has all samples of two values in the open: means are 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
func TestTwoValues(t *testing.T) {
	for _, c := range []struct{ level, low, high float64 }{{0.95, 0, 1}, {0.4, 0.5, 0.5}, {0.6, 0, 1}} {
		i := Bootstrap{Level: c.level, Resamples: 4000}.Interval([]float64{0, 1}, Mean)
		if i != (Interval{0.5, c.low, c.high}) {
			t.Errorf("level %v: %+v", c.level, i)
		}
	}
}

// TestKnownInterval has the interval of a mean whose bootstrap distribution is known: a sample with mean 10 and
// standard deviation 2 (by n) of n = 100 has means with a deviation of 0.2, nearly normal.
func TestKnownInterval(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[i] = 8 + 4*float64(i%2)
	}
	i := Bootstrap{Resamples: 20000}.Interval(values, Mean)
	if !near(i.Low, 10-1.96*0.2, 0.03) || !near(i.High, 10+1.96*0.2, 0.03) {
		t.Errorf("%+v, want 9.608 to 10.392", i)
	}
	if again := (Bootstrap{Resamples: 20000}).Interval(values, Mean); again != i {
		t.Errorf("the second time: %+v", again)
	}
	if other := (Bootstrap{Resamples: 200, Seed: 1}).Interval(values, Mean); other == i {
		t.Error("neither seed nor number of samples matter")
	}
}

func TestFewValues(t *testing.T) {
	for _, values := range [][]float64{nil, {3}, {1, math.NaN()}} {
		i := Bootstrap{}.Interval(values, Mean)
		if !math.IsNaN(i.Low) || !math.IsNaN(i.High) || i.Excludes(1e9) {
			t.Errorf("%v: %+v", values, i)
		}
	}
}

// TestCoverage draws samples of a normal distribution and counts how many intervals hold the true mean. The
// expectations are those of the documentation; percentile intervals of few values are too narrow.
func TestCoverage(t *testing.T) {
	const trials = 1000
	for _, c := range []struct {
		n         int
		low, high float64
	}{{10, 0.87, 0.93}, {50, 0.92, 0.96}} {
		rng := prng.New(uint64(c.n))
		holds := 0
		for trial := range trials {
			values := make([]float64, c.n)
			for i := range values {
				values[i] = 5 + normal(&rng)
			}
			if !(Bootstrap{Resamples: 500, Seed: uint64(trial)}).Interval(values, Mean).Excludes(5) {
				holds++
			}
		}
		if part := float64(holds) / trials; part < c.low || part > c.high {
			t.Errorf("%d values: %.1f %% of intervals hold the mean, want %v to %v", c.n, 100*part, c.low, c.high)
		}
	}
}

// normal draws by Box and Muller.
func normal(rng *prng.Source) float64 {
	u, v := float64(rng.Uint64()>>11+1)/(1<<53), float64(rng.Uint64()>>11)/(1<<53)
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// TestPairs has two settings that differ by 1 on every seed, while seeds differ by up to 100.
func TestPairs(t *testing.T) {
	rng := prng.New(1)
	x, y := make([]float64, 10), make([]float64, 10)
	for i := range x {
		y[i] = float64(rng.Intn(100))
		x[i] = y[i] + 1 + float64(i%2)/10
	}
	d, err := Bootstrap{}.Difference(x, y)
	if err != nil || !near(d.Estimate, 1.05, 1e-12) || d.Low < 1 || d.High > 1.1 || !d.Excludes(0) || d.Low == d.High {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := (Bootstrap{}).Difference(x, y[1:]); err == nil {
		t.Error("values without a partner were taken")
	}
}
