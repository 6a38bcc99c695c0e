package metrics

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQuantiles compares with sorted values: the least one that a part q of all does not exceed.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.Float64Range(0, 1), rapid.Just(0.0), rapid.Just(60.0))
		values := rapid.SliceOfN(value, 1, 60).Draw(t, "values")
		parts := [2]Distribution{}
		for i, v := range values {
			parts[i%2].add(v, 1)
		}
		d := parts[0]
		d.merge(&parts[1])
		slices.Sort(values)
		for _, q := range []float64{0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1} {
			want := values[max(0, int(math.Ceil(q*float64(len(values))-1e-9))-1)]
			if got := d.Quantile(q); math.Abs(got-want) > 0.008*want+1e-12 {
				t.Fatalf("the %v-quantile of %v is %v, want %v", q, values, got, want)
			}
		}
		if got, want := d.Max(), values[len(values)-1]; got != want || d.Weight() != float64(len(values)) {
			t.Fatalf("the maximum of %v values is %v, want %v of %d", d.Weight(), got, want, len(values))
		}
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		if want := sum / float64(len(values)); math.Abs(d.Mean()-want) > 1e-9*want {
			t.Fatalf("the mean is %v, want %v", d.Mean(), want)
		}
	})
}

// TestRamps compares with a fine sampling of the same changes.
func TestRamps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d, fine Distribution
		total := 0.0
		for range rapid.IntRange(1, 8).Draw(t, "ramps") {
			a, b := rapid.Float64Range(0, 1000).Draw(t, "a"), rapid.Float64Range(0, 1000).Draw(t, "b")
			if rapid.Bool().Draw(t, "constant") {
				b = a
			}
			time := rapid.Float64Range(1, 100).Draw(t, "time")
			d.ramp(a, b, time)
			const steps = 5000
			for i := range steps {
				fine.add(a+(b-a)*(float64(i)+0.5)/steps, time/steps)
			}
			total += time
		}
		if math.Abs(d.Weight()-total) > 1e-9*total || math.Abs(d.Mean()-fine.Mean()) > 1e-6*fine.Mean() {
			t.Fatalf("weight %v, want %v; mean %v, want %v", d.Weight(), total, d.Mean(), fine.Mean())
		}
		for _, q := range []float64{0.01, 0.2, 0.5, 0.8, 0.99} {
			x := d.Quantile(q)
			below, upTo := weightBelow(&fine, x*0.99-0.3)/total, weightBelow(&fine, x*1.01+0.3)/total
			if q < below-1e-9 || q > upTo+1e-9 {
				t.Fatalf("the %v-quantile is %v, but from %v to %v of the weight is around it", q, x, below, upTo)
			}
		}
	})
}

// weightBelow is the weight of single values below x, by buckets.
func weightBelow(d *Distribution, x float64) (sum float64) {
	for _, b := range d.buckets {
		if b.sum/b.weight < x {
			sum += b.weight
		}
	}
	return sum
}

func TestPoints(t *testing.T) {
	var d Distribution
	d.add(0, 1)
	d.add(10, 2)
	d.add(20, 1)
	want := []Point{{0, 0.25}, {10, 0.75}, {20, 1}}
	if got := d.Points(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	d = Distribution{}
	d.ramp(0, 100, 10)
	if got := d.Points(); len(got) != 2 || got[1] != (Point{100, 1}) {
		t.Errorf("an even change from 0 to 100 has points %v", got)
	}
	if x := d.Quantile(0.3); math.Abs(x-30) > 0.3 {
		t.Errorf("30 %% of an even change from 0 to 100 are at %v", x)
	}
}

// TestZeroAndRamp: zeros stay zeros beside values that rise from zero.
func TestZeroAndRamp(t *testing.T) {
	var d Distribution
	d.add(0, 3)
	d.ramp(0, 10, 2)
	if x := d.Quantile(0.5); x != 0 {
		t.Errorf("the median is %v, not 0", x)
	}
}

// TestNarrowRamp has a change whose ends are in one bucket.
func TestNarrowRamp(t *testing.T) {
	var d Distribution
	d.add(1, 1)
	d.ramp(3.703125, 3.7109375, 1)
	if x := d.Quantile(0.8); math.Abs(x-3.707) > 0.03 {
		t.Errorf("the 0.8-quantile is %v", x)
	}
	if p := d.Points(); len(p) != 2 || math.IsNaN(p[1].Value) {
		t.Errorf("points %v", p)
	}
}

func TestEmptyDistribution(t *testing.T) {
	var d Distribution
	d.add(5, 0)
	d.ramp(1, 2, 0)
	if !math.IsNaN(d.Quantile(0.5)) || !math.IsNaN(d.Max()) || !math.IsNaN(d.Mean()) || d.Points() != nil {
		t.Error("an empty distribution has values")
	}
}

// TestMaximum: the maximum is one of the values, however near others are.
func TestMaximum(t *testing.T) {
	var d Distribution
	d.add(2573.4, 1)
	d.add(2572.6, 1)
	if got := d.Quantile(1); got != 2573.4 {
		t.Errorf("the maximum is %v", got)
	}
}
