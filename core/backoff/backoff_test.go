package backoff

import (
	"testing"
	"time"

	"couchrelay/core/prng"

	"pgregory.net/rapid"
)

func TestDelay(t *testing.T) {
	for errors, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: 32 * time.Second, 2: 64 * time.Second, 3: 128 * time.Second, 10: 16384 * time.Second,
		12: 65536 * time.Second,
		13: 131072 * time.Second, 14: 172800 * time.Second, 15: 172800 * time.Second, 1 << 40: 172800 * time.Second,
	} {
		if got := Default.Delay(errors); got != want {
			t.Errorf("after %d errors %s, want %s", errors, got, want)
		}
	}
	if got := (Policy{Min: time.Hour, Max: time.Minute}).Delay(1); got != time.Minute {
		t.Errorf("a minimum above the maximum gives %s", got)
	}
}

// TestDoubling goes near the maximum by the smallest steps there are.
func TestDoubling(t *testing.T) {
	for maximum, want := range map[time.Duration][3]time.Duration{
		3: {1, 2, 3}, 4: {1, 2, 4}, 5: {1, 2, 4}, 7: {1, 2, 4},
	} {
		p := Policy{Min: 1, Max: maximum}
		if got := [3]time.Duration{p.Delay(1), p.Delay(2), p.Delay(3)}; got != want {
			t.Errorf("up to %d: %d, want %d", maximum, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	if n := Default.Errors(5, 120*time.Second); n != 6 {
		t.Errorf("a run of just the threshold gives %d", n)
	}
	if n := Default.Errors(5, 121*time.Second); n != 1 {
		t.Errorf("a healthy run gives %d", n)
	}
}

func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Min: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "min")),
			Max: time.Duration(rapid.Int64Range(1, int64(30*24*time.Hour)).Draw(t, "max")),
		}
		rng := prng.New(rapid.Uint64().Draw(t, "seed"))
		n := rapid.IntRange(1, 40).Draw(t, "errors")
		d := p.Jittered(n, &rng)
		if d > p.Delay(n) || d < p.Delay(n)-p.Delay(n)/4 || d <= 0 {
			t.Fatalf("%s is not in the last quarter of %s", d, p.Delay(n))
		}
		if next := p.Jittered(n+1, &rng); p.Delay(n+1) < p.Max && next < d {
			t.Fatalf("%s after %s", next, d)
		}
	})
	rng := prng.New(1)
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[Default.Jittered(1, &rng)] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different waits of 100", len(seen))
	}
}
