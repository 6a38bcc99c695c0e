package metrics

import (
	"math"
	"testing"
	"time"

	"couchrelay/sim/workload"

	"pgregory.net/rapid"
)

func drawJob(t *rapid.T) workload.Job {
	j := workload.Job{Continuous: true, Speed: float64(rapid.IntRange(1, 40).Draw(t, "speed"))}
	j.Backlog = float64(rapid.IntRange(0, 3).Draw(t, "backlog") * 500)
	j.Rate = float64(rapid.SampledFrom([]int{0, 1, 3, 10, 30}).Draw(t, "rate"))
	j.Startup = time.Duration(rapid.IntRange(0, 5).Draw(t, "startup")) * second
	if rapid.Bool().Draw(t, "bursts") {
		j.Every = time.Duration(rapid.IntRange(10, 100).Draw(t, "every")) * second
		j.Burst = j.Every / time.Duration(rapid.SampledFrom([]int{1, 2, 5}).Draw(t, "burst"))
		j.Phase = j.Every / 20 * time.Duration(rapid.IntRange(0, 19).Draw(t, "phase"))
	}
	return j
}

// stepped plays a job in steps of dt: what arrives in a step joins a queue of (birth, amount), and what is copied
// leaves it. It shares no formula with fluid.
type stepped struct {
	j     *workload.Job
	queue []parcel
	t     float64
	ages  Distribution
	done  float64
}

type parcel struct{ born, amount float64 }

const dt = 0.01

func (s *stepped) play(until, speed float64) {
	if s.t == 0 && s.j.Backlog > 0 && s.queue == nil && s.done == 0 {
		s.queue = append(s.queue, parcel{0, s.j.Backlog})
	}
	for ; s.t < until-dt/2; s.t += dt {
		rate := s.j.Rate
		if s.j.Every > 0 {
			if phase := math.Mod(s.t+dt/2+s.j.Phase.Seconds(), s.j.Every.Seconds()); phase < s.j.Burst.Seconds() {
				rate *= s.j.Every.Seconds() / s.j.Burst.Seconds()
			} else {
				rate = 0
			}
		}
		if rate > 0 {
			s.queue = append(s.queue, parcel{s.t, rate * dt})
		}
		for can := speed * dt; can > 1e-12 && len(s.queue) > 0; {
			p := &s.queue[0]
			n := min(can, p.amount)
			p.amount, can, s.done = p.amount-n, can-n, s.done+n
			if p.amount < 1e-9 {
				s.queue = s.queue[1:]
			}
		}
		age := 0.0
		if len(s.queue) > 0 {
			age = s.t + dt - s.queue[0].born
		}
		s.ages.add(age, dt)
	}
}

// TestFluid compares ages and positions with those of small steps, over a few waits and runs.
func TestFluid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		f := fluid{j.Fluid()}
		s := stepped{j: &j}
		var ages Distribution
		x, now := 0.0, 0.0
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			next := now + float64(rapid.IntRange(0, 150).Draw(t, "wait"))
			f.wait(&ages, x, now, next)
			s.play(next, 0)
			now = next
			next += float64(rapid.IntRange(1, 300).Draw(t, "run"))
			x = f.copy(&ages, x, now, next)
			s.play(next, j.Speed)
			now = next
			if math.Abs(x-s.done) > 0.02*(j.Speed+f.Peak) {
				t.Fatalf("%v s after the submission %v changes are copied, want %v", now, x, s.done)
			}
		}
		if math.Abs(ages.Weight()-now) > 1e-6*(1+now) {
			t.Fatalf("ages of %v s out of %v s", ages.Weight(), now)
		}
		// A step makes an age wrong by dt and a jump late by dt.
		if math.Abs(ages.Mean()-s.ages.Mean()) > 0.05+0.002*s.ages.Mean() {
			t.Fatalf("mean age %v, want %v", ages.Mean(), s.ages.Mean())
		}
		for _, q := range []float64{0.1, 0.3, 0.5, 0.7, 0.9, 1} {
			got := ages.Quantile(q)
			low, high := s.ages.Quantile(max(0, q-0.005)), s.ages.Quantile(min(1, q+0.005))
			if got < low*0.98-0.1 || got > high*1.02+0.1 {
				t.Fatalf("the %v-quantile of ages is %v, want %v to %v", q, got, low, high)
			}
		}
	})
}

// TestBursts has changes come in the first 10 s of every 100 s, 10 a second. Two a second are copied, so that they
// are copied within 50 s; meanwhile the age of the oldest grows by 0.8 s a second, to 40 s. The rest of the time it
// is 0.
func TestBursts(t *testing.T) {
	j := workload.Job{Rate: 1, Every: 100 * second, Burst: 10 * second, Speed: 2}
	f := fluid{j.Fluid()}
	for _, c := range []struct{ until, copied, mean, most float64 }{
		{1000, 1000, 10, 40}, {50, 100, 20, 40}, {30, 60, 12, 24}, {90, 100, 100.0 / 9, 40}, {250, 300, 12, 40},
	} {
		var ages Distribution
		x := f.copy(&ages, 0, 0, c.until)
		if !near(x, c.copied) || !near(ages.Mean(), c.mean) || !near(ages.Max(), c.most) {
			t.Errorf("until %v s: %v copied, age %v, at most %v; want %+v", c.until, x, ages.Mean(), ages.Max(), c)
		}
	}
	// A run that begins in the middle of a rest, and one that begins 100 s late: the last change of the first burst
	// is 140 s old when it is copied.
	var ages Distribution
	if x := f.copy(&ages, 100, 60, 1060); !near(x, 1100) || !near(ages.Mean(), 10) {
		t.Errorf("%v copied, age %v", x, ages.Mean())
	}
	ages = Distribution{}
	if x := f.copy(&ages, 0, 100, 200); !near(x, 200) || !near(ages.Max(), 140) {
		t.Errorf("%v copied, age %v at most", x, ages.Max())
	}
}
