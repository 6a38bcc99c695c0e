package campaign

import (
	"testing"

	"couchrelay/sim/world"
)

// seeds is a campaign of the first n seeds of a profile.
func seeds(p world.Profile, n uint64, workers, sample int) Campaign {
	return Campaign{Seeds: n, Workers: workers, World: func(seed uint64) World {
		w := Drawn(p)(seed)
		w.Config.Sample = sample
		return w
	}}
}

// BenchmarkSimulation plays seeds on one core: how many events and seeds in a second, and how much faster
// than the clock.
func BenchmarkSimulation(b *testing.B) {
	for _, c := range []struct {
		name   string
		p      world.Profile
		seeds  uint64
		sample int
	}{
		{"small", world.Small, 40, 0}, {"small sampled", world.Small, 40, 100}, {"standard", world.Standard, 4, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				report(b, seeds(c.p, c.seeds, 1, c.sample).Run(b.Context()))
			}
		})
	}
}

func report(b *testing.B, r *Report) {
	if len(r.Failures) > 0 {
		b.Errorf("seed %d: %s", r.Failures[0].Seed, r.Failures[0].Violation)
	}
	s := r.Took.Seconds()
	b.ReportMetric(float64(r.Events)/s, "events/s")
	b.ReportMetric(float64(r.Seeds)/s, "seeds/s")
	b.ReportMetric(r.Virtual.Seconds()/s, "virtual/real")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSecondCore plays the same seeds on one core and on two.
func BenchmarkSecondCore(b *testing.B) {
	for b.Loop() {
		one, two := seeds(world.Small, 40, 1, 0).Run(b.Context()), seeds(world.Small, 40, 2, 0).Run(b.Context())
		b.ReportMetric(one.Took.Seconds()/two.Took.Seconds(), "times-as-fast")
		b.ReportMetric(0, "ns/op")
		for seed, h := range one.Hashes {
			if two.Hashes[seed] != h {
				b.Errorf("seed %d ends otherwise beside another", seed)
			}
		}
	}
}
