package metrics

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// fill is max-min fairness as its definition has it: raise the level of all until the next one has all that it
// wants, which then leaves.
func fill(used float64, demand, weight []int64) []float64 {
	got := make([]float64, len(demand))
	left := used
	for {
		open, next := 0.0, math.Inf(1)
		for a := range demand {
			if want := float64(demand[a]) - got[a]; want > 1e-9 {
				open += float64(weight[a])
				next = min(next, want/float64(weight[a]))
			}
		}
		if open == 0 || left <= 1e-9 {
			return got
		}
		rise := min(next, left/open)
		for a := range demand {
			if float64(demand[a])-got[a] > 1e-9 {
				got[a] += rise * float64(weight[a])
				left -= rise * float64(weight[a])
			}
		}
	}
}

// TestEntitlement compares integrals with those of the definition, while demands, weights and slots in use change.
func TestEntitlement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "accounts")
		demand, weight, want := make([]int64, n), make([]int64, n), make([]float64, n)
		for a := range weight {
			weight[a] = rapid.Int64Range(1, 5).Draw(t, "weight")
		}
		e := newEntitlement(weight)
		now, used := 0.0, int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			a := rapid.IntRange(0, n-1).Draw(t, "account")
			demand[a] = rapid.Int64Range(0, 12).Draw(t, "demand")
			weight[a] = rapid.Int64Range(1, 5).Draw(t, "weight")
			sum := int64(0)
			for _, d := range demand {
				sum += d
			}
			used = rapid.Int64Range(0, sum).Draw(t, "used")
			e.set(a, demand[a], weight[a], used)
			dt := float64(rapid.IntRange(0, 10).Draw(t, "seconds"))
			for a, x := range fill(float64(used), demand, weight) {
				want[a] += x * dt
			}
			now += dt
			e.advance(now)
		}
		for a := range want {
			if got := e.settled(a).total; math.Abs(got-want[a]) > 1e-6 {
				t.Fatalf("account %d is entitled to %v slot-seconds, want %v", a, got, want[a])
			}
		}
	})
}

// TestFill has a case by hand: 10 slots, shares 100:100:200, demands 1, 20, 20. The first takes 1, the others
// share 9 as 1:2.
func TestFill(t *testing.T) {
	e := newEntitlement([]int64{100, 100, 200})
	for a, d := range []int64{1, 20, 20} {
		e.set(a, d, []int64{100, 100, 200}[a], min(10, []int64{1, 21, 41}[a]))
	}
	e.advance(1)
	for a, want := range []float64{1, 3, 6} {
		if got := e.settled(a).total; math.Abs(got-want) > 1e-12 {
			t.Errorf("account %d is entitled to %v, want %v", a, got, want)
		}
	}
}
