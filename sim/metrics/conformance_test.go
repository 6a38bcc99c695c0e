package metrics

import (
	"math"
	"testing"
	"time"
)

// TestConformance has the accounts of CouchDB's own tests of fair share over 1,000 cycles, given slots by hand in
// the parts that a port of CouchDB's algorithm gave them, and expects the Jain's index that was published with
// these parts. Both are rounded.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name    string
		shares  []int64
		jobs    []int
		slots   int
		percent []float64
		jain    float64
	}{
		{"A", []int64{100, 100}, []int{100, 100}, 50, []float64{50, 50}, 1},
		{"B", []int64{900, 100}, []int{100, 100}, 50, []float64{90.4, 9.6}, 0.9996},
		{"C", []int64{100, 100}, []int{50, 150}, 50, []float64{49.8, 50.2}, 1},
		{"D", []int64{1, 100}, []int{50, 150}, 50, []float64{1, 99}, 0.9998},
		{"E", []int64{100, 100, 100}, []int{100, 100, 100}, 75, []float64{33.9, 33.3, 32.8}, 0.9998},
		{"F", []int64{100, 700, 200}, []int{100, 100, 100}, 75, []float64{9.6, 70.6, 19.8}, 0.9996},
		{"G", []int64{100, 100, 100}, []int{50, 125, 100}, 75, []float64{33.8, 33.3, 32.9}, 0.9999},
		{"H", []int64{1000, 100, 1}, []int{125, 150, 900}, 75, []float64{88.1, 9.4, 2.5}, 0.3830},
	} {
		s := accounts(c.shares...)
		s.nodes(c.slots)
		s.allot(c.jobs, c.slots, c.percent)
		r := s.play(t, Options{Duration: 1000 * minute})
		for a, want := range c.percent {
			if got := r.AccountValue(a, "share"); math.Abs(got-want) > 0.01 {
				t.Errorf("%s: account %d has %v %% of the slots, want %v", c.name, a, got, want)
			}
		}
		if got := r.Value("jain-run"); math.Abs(got-c.jain) > 0.0005 {
			t.Errorf("%s: Jain's index is %v, want %v", c.name, got, c.jain)
		}
		s.want(t, r, -1, "utilisation", 100)
	}
}

// allot runs jobs of each account in turn for 1,000 minutes, so that each account has its part of the slots.
func (s *script) allot(jobs []int, slots int, percent []float64) {
	first, next := make([]int, len(jobs)), make([]int, len(jobs))
	for a, n := range jobs {
		first[a] = len(s.w.Jobs)
		for range n {
			s.job(a)
		}
	}
	for c := range 1000 {
		given := 0
		for a, p := range percent {
			upTo := func(c int) int { return int(math.Round(float64(c*slots) * p / 100)) }
			k := upTo(c+1) - upTo(c)
			if a == len(percent)-1 {
				k = slots - given
			}
			given += k
			for range k {
				from := time.Duration(c) * minute
				s.run(first[a]+next[a]%jobs[a], from, from+minute)
				next[a]++
			}
		}
	}
}
