package schedule

import (
	"math"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

func TestHalfLife(t *testing.T) {
	for _, c := range []struct {
		coeff int64
		want  time.Duration
	}{
		{500_000, time.Minute}, {250_000, 30 * time.Second}, {980_000, 2058577 * time.Millisecond},
		{million, maxHalfLife}, {1, 3010 * time.Millisecond},
	} {
		got := HalfLife(c.coeff, time.Minute)
		if got.Round(time.Millisecond) != c.want && got.Round(10*time.Millisecond) != c.want {
			t.Errorf("%d: %s, want %s", c.coeff, got, c.want)
		}
	}
	// 10,000 jobs on 500 slots with churn 20: 0.9947 is recommended, whose half-life is 130 minutes.
	if got := LeastHalfLife(9500, 20, time.Minute).Round(time.Minute); got != 132*time.Minute {
		t.Errorf("least half-life %s", got)
	}
	if got := LeastHalfLife(9500, 0, time.Minute); got != 0 {
		t.Errorf("least half-life without churn %s", got)
	}
}

// TestHalfLifeIsBounded: nothing sets a half-life of which the clock of decay would overflow.
func TestHalfLifeIsBounded(t *testing.T) {
	if got := LeastHalfLife(math.MaxInt64, 1, time.Hour); got != maxHalfLife {
		t.Errorf("the least one of an endless queue is %s", got)
	}
	now, d := instant.Seconds(1_700_000_000), Decay{}
	for half, want := range map[time.Duration]time.Duration{
		0: minHalfLife, time.Hour: time.Hour, math.MaxInt64: maxHalfLife,
	} {
		if got := d.Changed(now, half).HalfLife; got != want {
			t.Errorf("changed to %s it is %s", half, got)
		}
	}
	d = Decay{Since: now, HalfLife: minHalfLife}
	if short := (Decay{Since: now, HalfLife: 1}); short.At(now.Add(time.Hour)) != d.At(now.Add(time.Hour)) {
		t.Error("a stored half-life that is too short counts as it is")
	}
}

// TestChurn: jobs give way only where there are slots, and none before it ran for the shortest run.
func TestChurn(t *testing.T) {
	for _, c := range []struct {
		most, slots      int
		interval, minRun time.Duration
		want             int
	}{
		{20, 500, time.Minute, 0, 20}, {20, 10, time.Minute, 0, 10}, {20, 500, time.Minute, time.Hour, 8},
		{20, 500, time.Hour, time.Minute, 20}, {20, 30, time.Minute, 2 * time.Minute, 15},
		{20, 10, time.Minute, time.Hour, 1}, {0, 10, time.Minute, 0, 0}, {20, 0, time.Minute, 0, 0},
	} {
		if got := Churn(c.most, c.slots, c.interval, c.minRun); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestStale: the clock of decay is stored anew when it has gone on for a half-life, or was set by a clock ahead.
func TestStale(t *testing.T) {
	now := instant.Seconds(1_700_000_000)
	d := Decay{Since: now, Passed: 1 << 40, HalfLife: time.Hour}
	for after, want := range map[time.Duration]bool{
		0: false, time.Hour - time.Second: false, time.Hour: true,
		-time.Minute: false, -time.Minute - time.Second: true,
	} {
		if got := d.Stale(now.Add(after), time.Minute); got != want {
			t.Errorf("%s later: %t", after, got)
		}
	}
}

// TestKeysOrderAsDecayedValues: of two values fixed at different times, keys tell which one is greater at any later
// time.
func TestKeysOrderAsDecayedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		half := time.Duration(rapid.Int64Range(int64(time.Minute), int64(100*time.Hour)).Draw(t, "half"))
		d := Decay{Since: instant.Seconds(1_700_000_000), HalfLife: half}
		draw := func(name string) (instant.Time, int64) {
			at := d.Since.Add(time.Duration(rapid.Int64Range(0, int64(20*half)).Draw(t, name)))
			power := rapid.IntRange(0, 50).Draw(t, name+"'s value")
			return at, int64(1) << power * rapid.Int64Range(1, 1000).Draw(t, name+"'s factor")
		}
		t1, p1 := draw("one")
		t2, p2 := draw("other")
		later := max(t1, t2)
		value := func(at instant.Time, p int64) float64 {
			return math.Log2(float64(p)) - float64(later.Sub(at))/float64(half)
		}
		k1, k2 := Key(d.At(t1), p1), Key(d.At(t2), p2)
		if diff := value(t1, p1) - value(t2, p2); math.Abs(diff) > 1e-6 && (diff > 0) != (k1 > k2) {
			t.Fatalf("values %g apart, keys %d and %d", diff, k1, k2)
		}
	})
}

// TestDecayClock: it never goes back, whatever changes. One that was set by a clock ahead of ours stands still
// until it is changed again.
func TestDecayClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := instant.Seconds(1_700_000_000)
		d := Decay{HalfLife: time.Hour}
		shown := d.At(now)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "pass")))
			if rapid.Bool().Draw(t, "change") {
				d = d.Changed(now, time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "half")))
			}
			seen := d.At(now)
			if seen < shown {
				t.Fatalf("the clock went back from %d to %d", shown, seen)
			}
			shown = seen
		}
	})
	d := Decay{HalfLife: time.Hour, Since: instant.Seconds(7200), Passed: 5}
	changed := d.Changed(instant.Seconds(3600), time.Hour)
	before, later, anew := d.At(instant.Seconds(3600)), d.At(instant.Seconds(10800)), changed.At(instant.Seconds(7200))
	if before != 5 || anew != 5+1<<fraction || later != 5+1<<fraction {
		t.Errorf("%d, %d, %d", before, anew, later)
	}
}

// TestRetimedClock: a clock that has come half of its way begins anew, at 0, and in another epoch; none that has not.
func TestRetimedClock(t *testing.T) {
	now := instant.Seconds(3600)
	for passed, want := range map[int64]Decay{
		lastShown / 2: {HalfLife: time.Hour, Since: now}, lastShown/2 - 1: {now, lastShown/2 - 1, time.Hour},
	} {
		o := Order{}
		o.Epoch, o.Decay = 7, Decay{HalfLife: time.Hour, Since: now, Passed: passed}
		o = o.Retimed(now, time.Hour)
		if anew := want.Passed == 0; o.Decay != want || o.Epoch != 7 && !anew || o.Epoch != 8 && anew {
			t.Errorf("%d has become %+v in epoch %d", passed, o.Decay, o.Epoch)
		}
	}
}

// TestGrowIsTheRecurrence: growing a key once in an interval is p = p*K2 + growth.
func TestGrowIsTheRecurrence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Decay{HalfLife: HalfLife(980_000, time.Minute)}
		now := instant.Seconds(1_700_000_000)
		p, key := float64(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "intervals") {
			now = now.Add(time.Minute)
			growth := rapid.Int64Range(1000, 1_000_000_000).Draw(t, "growth")
			p = p*0.98 + float64(growth)
			key = Grow(key, d.At(now), growth)
		}
		if got := float64(Exp2(key - d.At(now))); math.Abs(got/p-1) > 1e-3 {
			t.Fatalf("%g, want %g", got, p)
		}
	})
}

// TestAutomaticHalfLife follows the queue, and leaves well alone.
func TestAutomaticHalfLife(t *testing.T) {
	o := fairOrder(0)
	floor := o.Decay.HalfLife
	if got := o.HalfLife(100, 20); got != floor {
		t.Errorf("short queue: %s", got)
	}
	least := LeastHalfLife(9500, 20, testInterval)
	if o.Decay.HalfLife = o.HalfLife(9500, 20); o.Decay.HalfLife < least || o.Decay.HalfLife > 2*least {
		t.Errorf("long queue: %s", o.Decay.HalfLife)
	}
	for _, ready := range []int64{9000, 9500, 12_000} {
		if got := o.HalfLife(ready, 20); got != o.Decay.HalfLife {
			t.Errorf("%d ready: changed to %s", ready, got)
		}
	}
	if got := o.HalfLife(10, 20); got != floor {
		t.Errorf("short queue again: %s", got)
	}
	o.PriorityCoeff = 500_000
	if got := o.HalfLife(9500, 20); got != testInterval {
		t.Errorf("fixed: %s", got)
	}
	if got := fairOrder(0).HalfLife(math.MaxInt64, 1); got > maxHalfLife || got < time.Hour {
		t.Errorf("endless queue: %s", got)
	}
}

// TestGrowOverflows: who runs for another interval never comes before where it was, however much its account used.
func TestGrowOverflows(t *testing.T) {
	for _, running := range []int64{1000, 100_000, 1 << 40} {
		o := Order{Forgetting: Forgetting{Interval: time.Minute, Coeff: 500_000}}
		now := instant.Seconds(1_700_000_000)
		o.Decay = Decay{Since: now, HalfLife: o.HalfLife(0, 0)}
		a := Account{Shares: 1, Jobs: 1_000_000, Usage: 2 * running * time.Minute.Microseconds()}
		p, _ := o.Enter(now, a)
		for _, ran := range []time.Duration{time.Minute, time.Microsecond, time.Minute, 0, time.Minute} {
			now = now.Add(ran)
			next := o.Next(Turn{Place: p}, ran, now, a)
			if next.Key < p.Key-1<<16 { // powers are rounded
				t.Errorf("%d running: it comes at %d after %v, and was at %d", running, next.Key, ran, p.Key)
			}
			p = next
		}
	}
	if most := Key(0, math.MaxInt64); Grow(most, 0, math.MaxInt64) != most {
		t.Errorf("what has run most does not stay at %d when it runs again by a clock that stands still", most)
	}
}
