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

// TestStudentT has values of printed tables.
func TestStudentT(t *testing.T) {
	for _, c := range []struct {
		level   float64
		degrees int
		want    float64
	}{
		{0.95, 1, 12.706}, {0.95, 2, 4.303}, {0.95, 3, 3.182}, {0.95, 4, 2.776}, {0.95, 9, 2.262}, {0.95, 30, 2.042},
		{0.99, 4, 4.604}, {0.99, 5, 4.032}, {0.9, 7, 1.895}, {0.95, 99_999, 1.960},
	} {
		if got := studentT(c.level, c.degrees); !near(got, c.want, 5e-4) {
			t.Errorf("%v of %d degrees: %v, want %v", c.level, c.degrees, got, c.want)
		}
	}
}

func TestFewValues(t *testing.T) {
	for _, values := range [][]float64{nil, {3}, {1, math.NaN()}} {
		if m := Margin(values, 0.95); !math.IsNaN(m) {
			t.Errorf("%v: %v", values, m)
		}
	}
	if m := Margin([]float64{7, 7, 7}, 0.95); m != 0 {
		t.Errorf("of equal values: %v", m)
	}
}

// TestCoverage draws samples of a normal distribution and counts how often the true mean is within the margin.
func TestCoverage(t *testing.T) {
	const trials = 4000
	for _, n := range []int{2, 3, 5, 10} {
		rng := prng.New(uint64(n))
		holds := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = 5 + normal(&rng)
			}
			if math.Abs(Mean(values)-5) <= Margin(values, 0.95) {
				holds++
			}
		}
		if part := float64(holds) / trials; part < 0.94 || part > 0.96 {
			t.Errorf("%d values: %.1f %% of margins hold the mean, want 95", n, 100*part)
		}
	}
}

// normal draws by Box and Muller.
func normal(rng *prng.Source) float64 {
	u, v := float64(rng.Uint64()>>11+1)/(1<<53), float64(rng.Uint64()>>11)/(1<<53)
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}
