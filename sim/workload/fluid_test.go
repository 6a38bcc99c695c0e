package workload

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawFluid(t *rapid.T) Fluid {
	j := Job{Speed: float64(rapid.IntRange(1, 40).Draw(t, "speed"))}
	j.Backlog = float64(rapid.SampledFrom([]int{0, 0, 500}).Draw(t, "backlog"))
	j.Rate = float64(rapid.SampledFrom([]int{0, 1, 3, 10, 30}).Draw(t, "rate"))
	if rapid.Bool().Draw(t, "bursts") {
		j.Every = time.Duration(rapid.IntRange(10, 100).Draw(t, "every")) * time.Second
		j.Burst = j.Every / time.Duration(rapid.SampledFrom([]int{1, 2, 5}).Draw(t, "burst"))
		j.Phase = time.Duration(rapid.IntRange(0, int(j.Every/time.Second)-1).Draw(t, "phase")) * time.Second
	}
	return j.Fluid()
}

// TestCopied compares positions with those of small steps, in which no formula but the rate is used.
func TestCopied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFluid(t)
		const dt = 0.01
		come, done := f.Backlog, 0.0
		from := float64(rapid.IntRange(0, 200).Draw(t, "from"))
		to := from + float64(rapid.IntRange(0, 500).Draw(t, "for"))
		for now := 0.0; now < to-dt/2; now += dt {
			if f.Every == 0 {
				come += f.Rate * dt
			} else if math.Mod(now+dt/2+f.Phase, f.Every) < f.Burst {
				come += f.Rate * f.Every / f.Burst * dt
			}
			if now > from-dt/2 {
				done = min(come, done+f.Speed*dt)
			}
		}
		if got := f.Arrived(to); math.Abs(got-come) > 2*dt*(1+f.Peak) {
			t.Fatalf("%v changes have come by %v s, want %v", got, to, come)
		}
		if got := f.Copied(0, from, to); math.Abs(got-done) > 2*dt*(1+f.Peak+f.Speed) {
			t.Fatalf("%v changes are copied from %v s to %v s, want %v", got, from, to, done)
		}
	})
}

// TestBorn: a change behind a position comes when all before it have come and no more.
func TestBorn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFluid(t)
		x := rapid.Float64Range(0, 3000).Draw(t, "position")
		switch b := f.Born(x); {
		case x < f.Backlog:
			if b != 0 {
				t.Fatalf("change %v of the backlog comes at %v s", x, b)
			}
		case math.IsInf(b, 1):
			if f.Rate != 0 {
				t.Fatalf("change %v never comes", x)
			}
		case b < 0 || math.Abs(f.Arrived(b)-x) > 1e-5*(1+x):
			t.Fatalf("change %v comes at %v s, by when %v have come", x, b, f.Arrived(b))
		}
	})
}

// TestBursts has 10 changes a second in the first 10 s of every 100 s, the first of which is over but for 3 s when
// the job is submitted with 5 changes. It copies 2 a second.
func TestBursts(t *testing.T) {
	j := Job{Backlog: 5, Rate: 1, Every: 100 * time.Second, Burst: 10 * time.Second, Phase: 7 * time.Second, Speed: 2}
	f := j.Fluid()
	for _, c := range []struct{ at, arrived, born float64 }{
		{0, 5, 0}, {2, 25, 2}, {3, 35, 93}, {50, 35, 93}, {93, 35, 93}, {98, 85, 98}, {300, 305, 300},
	} {
		if got, born := f.Arrived(c.at), f.Born(c.arrived); !close(got, c.arrived) || !close(born, c.born) {
			t.Errorf("%v have come by %v s, the next comes at %v s; want %v and %v", got, c.at, born, c.arrived, c.born)
		}
	}
	for _, c := range []struct{ done, from, to, copied float64 }{
		{0, 0, 10, 20}, {0, 0, 60, 35}, {0, 60, 60, 0}, {40, 60, 50, 40}, // caught up at 17.5 s
		{35, 60, 94, 37}, {35, 60, 190, 135}, // a rest, and what comes at 93 s is copied by 143 s
		{35, 60, 994, 937}, {0, 10, 195, 139}, {0, 190, 193, 6}, // several bursts; the last ones are not copied yet
	} {
		if got := f.Copied(c.done, c.from, c.to); !close(got, c.copied) {
			t.Errorf("from %v s to %v s: from change %v to %v, want %v", c.from, c.to, c.done, got, c.copied)
		}
	}
	idle := Job{Every: 10 * time.Second, Burst: time.Second, Speed: 1}
	if f := idle.Fluid(); f.Arrived(100) != 0 || !math.IsInf(f.Born(0), 1) || f.Copied(0, 0, 1000) != 0 {
		t.Error("changes come to an idle job")
	}
	even := Job{Rate: 2, Every: 10 * time.Second, Burst: 10 * time.Second, Phase: time.Second, Speed: 1}
	if f := even.Fluid(); f.Arrived(7) != 14 || f.Every != 0 {
		t.Error("bursts without rests are not even")
	}
}

func close(x, y float64) bool { return math.Abs(x-y) < 1e-6*(1+math.Abs(y)) }
