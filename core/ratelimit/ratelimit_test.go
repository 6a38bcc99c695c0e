package ratelimit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

var key = Key{Endpoint: "http://h/db/", Method: "GET"}

const (
	start = instant.Time(1_000_000_000)
	apart = Sensitivity + time.Millisecond
)

// run applies a script of answers, f for a failure and s for a success, each apart after the one
// before, and returns the pause in milliseconds after each.
func run(l *Limiter, script string, gap time.Duration) (pauses []int64) {
	now := start
	for _, answer := range script {
		now = now.Add(gap)
		if answer == 'f' {
			l.Failure(key, now, 0)
		} else {
			l.Success(key, now)
		}
		pauses = append(pauses, l.keys[key].pause.Milliseconds())
	}
	return pauses
}

// TestUpstreamVectors are CouchDB's couch_replicator_rate_limiter_tests and the start of the series
// that its constants give.
func TestUpstreamVectors(t *testing.T) {
	for _, c := range []struct {
		name, script string
		gap          time.Duration
		want         []int64
	}{
		{"new key", "", apart, nil},
		{"one failure", "f", apart, []int64{24}},
		{"two failures", "ff", apart, []int64{24, 29}},
		{"two failures back to back", "ff", Sensitivity, []int64{24, 24}},
		{"success of an unknown key", "s", apart, []int64{0}},
		{"one failure, two successes", "fss", apart, []int64{24, 20, 0}},
		{"success back to back", "fs", Sensitivity, []int64{24, 24}},
		{"series", "fffffff", apart, []int64{24, 29, 35, 42, 50, 60, 72}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := run(&Limiter{}, c.script, c.gap); !slices.Equal(got, c.want) {
				t.Errorf("pauses %v, want %v", got, c.want)
			}
		})
	}
}

func TestDelayIsThePause(t *testing.T) {
	var l Limiter
	if v := l.Delay(key, start); v != (Verdict{}) {
		t.Errorf("new key: %v", v)
	}
	l.Failure(key, start, 0)
	if v := l.Delay(key, start.Add(time.Second)); v != (Verdict{Wait: 24 * time.Millisecond}) {
		t.Errorf("after one failure: %v", v)
	}
	if v := l.Delay(Key{key.Endpoint, "POST"}, start); v != (Verdict{}) {
		t.Errorf("other method: %v", v)
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct{ pause, gap, want time.Duration }{
		{100, 100, 80}, {101, 100, 61}, {1000, 100, 960}, {1001, 100, 901}, {10_000, 100, 9900}, {10_001, 100, 9001},
		{25_000, 1000, 24_000}, {25_000, 1001, 21_998}, {25_000, 12_500, 0}, {30, 100, 20}, {20, 100, 0},
	} {
		if got := shrunk(c.pause*time.Millisecond, c.gap*time.Millisecond); got != c.want*time.Millisecond {
			t.Errorf("success %d ms after pause %d: %v, want %d ms", c.gap, c.pause, got, c.want)
		}
	}
}

// closed brings a limiter to its ceiling and returns the moment of the last failure.
func closed(t *testing.T) (*Limiter, instant.Time) {
	var l Limiter
	now := start
	for n := 1; n <= 40; n++ {
		l.Failure(key, now, 0)
		v := l.Delay(key, now)
		if v.Closed {
			if n != 40 || v.Wait != MaxPause {
				t.Fatalf("closed after %d failures with %v, want 40 and %v", n, v, MaxPause)
			}
			return &l, now
		}
		now = now.Add(v.Wait + apart)
	}
	t.Fatal("not closed after 40 failures")
	return nil, 0
}

func TestCeilingLetsOneProbeThrough(t *testing.T) {
	l, shut := closed(t)
	if v := l.Delay(key, shut.Add(10*time.Second)); v != (Verdict{Wait: 15 * time.Second, Closed: true}) {
		t.Errorf("before the probe: %v", v)
	}
	probe := shut.Add(MaxPause)
	if v := l.Delay(key, probe); v != (Verdict{}) {
		t.Errorf("probe: %v", v)
	}
	if v := l.Delay(key, probe.Add(time.Second)); !v.Closed {
		t.Errorf("second request while the probe is out: %v", v)
	}
	l.Failure(key, probe.Add(2*time.Second), 0)
	if v := l.Delay(key, probe.Add(3*time.Second)); v != (Verdict{Wait: 24 * time.Second, Closed: true}) {
		t.Errorf("after a failed probe: %v", v)
	}
	again := probe.Add(2*time.Second + MaxPause)
	l.Delay(key, again)
	l.Success(key, again.Add(time.Second))
	if v := l.Delay(key, again.Add(time.Second)); v != (Verdict{}) {
		t.Errorf("after a successful probe: %v", v)
	}
}

// TestLostProbe shows that a probe that never comes back does not close the endpoint for good.
func TestLostProbe(t *testing.T) {
	l, shut := closed(t)
	l.Delay(key, shut.Add(MaxPause))
	if v := l.Delay(key, shut.Add(2*MaxPause)); v != (Verdict{}) {
		t.Errorf("next probe: %v", v)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked time.Duration
		at    time.Duration // after the failure
		want  Verdict
	}{
		{"short", time.Second, 0, Verdict{Wait: time.Second}},
		{"shorter than the pause", time.Millisecond, 0, Verdict{Wait: 24 * time.Millisecond}},
		{"partly passed", 10 * time.Second, 4 * time.Second, Verdict{Wait: 6 * time.Second}},
		{"passed", 10 * time.Second, 11 * time.Second, Verdict{Wait: 24 * time.Millisecond}},
		{"as long as the longest pause", MaxPause, 0, Verdict{Wait: MaxPause}},
		{"long", time.Minute, 0, Verdict{Wait: time.Minute, Closed: true}},
		{"long, rest is short", time.Minute, 50 * time.Second, Verdict{Wait: 10 * time.Second}},
		{"longer than the memory", 2 * time.Minute, 110 * time.Second, Verdict{Wait: 10 * time.Second}},
		{"absurd", 1 << 62, 0, Verdict{Wait: MaxRetryAfter, Closed: true}},
		{"negative", -time.Hour, 0, Verdict{Wait: 24 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Limiter
			l.Failure(key, start, c.asked)
			if v := l.Delay(key, start.Add(c.at)); v != c.want {
				t.Errorf("%v, want %v", v, c.want)
			}
		})
	}
}

// TestShorterRetryAfter: a server that asks for less than it did before has not taken that back.
func TestShorterRetryAfter(t *testing.T) {
	var l Limiter
	l.Failure(key, start, 10*time.Second)
	l.Failure(key, start.Add(time.Second), 2*time.Second)
	if v := l.Delay(key, start.Add(time.Second)); v != (Verdict{Wait: 9 * time.Second}) {
		t.Errorf("%v", v)
	}
}

// TestBurstOfSuccesses: successes of a moment are one event, as failures are.
func TestBurstOfSuccesses(t *testing.T) {
	var l Limiter
	run(&l, "ffffffffffff", apart)
	last := start.Add(13 * apart)
	l.Success(key, last)
	once := l.Delay(key, last)
	l.Success(key, last.Add(Sensitivity))
	if v := l.Delay(key, last.Add(Sensitivity)); v != once || v.Wait == 0 {
		t.Errorf("%v after one, %v after two", once, v)
	}
}

// TestRetryAfterOutlivesSuccess: answers that were under way when the server asked for quiet do not
// lift its wish.
func TestRetryAfterOutlivesSuccess(t *testing.T) {
	var l Limiter
	l.Failure(key, start, 10*time.Second)
	l.Success(key, start.Add(2*time.Second))
	if v := l.Delay(key, start.Add(2*time.Second)); v != (Verdict{Wait: 8 * time.Second}) {
		t.Errorf("%v", v)
	}
}

func TestForgets(t *testing.T) {
	var l Limiter
	for i := range 1000 {
		l.Failure(Key{fmt.Sprint(i), "GET"}, start, 0)
	}
	l.Failure(key, start.Add(Expiry+time.Second), 0)
	if l.Len() != 1 {
		t.Errorf("%d keys remembered, want 1", l.Len())
	}
	if v := l.Delay(key, start.Add(3*Expiry)); v != (Verdict{}) {
		t.Errorf("expired key: %v", v)
	}
}

// TestExpired: a key is forgotten once its last answer is old, and not before the server's Retry-After is over.
func TestExpired(t *testing.T) {
	late := start.Add(Expiry + time.Second)
	for till, want := range map[instant.Time]bool{0: true, late: true, late + 1: false} {
		if p := (pace{updated: start, notTill: till}); p.expired(late) != want {
			t.Errorf("until %s: expired %v", till, !want)
		}
	}
	if (pace{updated: start}).expired(start.Add(Expiry)) {
		t.Error("expired at once")
	}
}

// TestBounds throws random answers at the limiter: a pause never leaves its range, a request is
// never held back for longer than the ceiling without being told so, and every limiter opens again.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Limiter
		now := start
		for range rapid.IntRange(0, 200).Draw(t, "answers") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "gap")) * time.Millisecond)
			if rapid.Bool().Draw(t, "failed") {
				l.Failure(key, now, time.Duration(rapid.IntRange(0, 100).Draw(t, "after"))*time.Second)
			} else {
				l.Success(key, now)
			}
			if p := l.keys[key].pause; p != 0 && p < BasePause || p > MaxPause {
				t.Fatalf("pause %v", p)
			}
			if v := l.Delay(key, now); v.Wait > MaxPause && !v.Closed || v.Wait < 0 {
				t.Fatalf("verdict %v", v)
			}
		}
		if v := l.Delay(key, now.Add(MaxRetryAfter+Expiry)); v != (Verdict{}) {
			t.Fatalf("still %v after quiet", v)
		}
	})
}

// TestPauses: what is told of the keys is what their requests meet, and telling it lets no probe through.
func TestPauses(t *testing.T) {
	l, now := &Limiter{}, start
	other := Key{Endpoint: "http://a/db/", Method: "POST"}
	l.Failure(other, now, 0)
	l.Failure(Key{Endpoint: "http://z/"}, now, time.Minute)
	for range 60 {
		now = now.Add(apart)
		l.Failure(key, now, 0)
	}
	l.Success(other, start.Add(apart))
	l.Success(other, start.Add(2*apart))
	want := "[{{http://h/db/ GET} {25s true}} {{http://z/ } {55.14s true}}]"
	for range 2 {
		if got := fmt.Sprint(l.Pauses(now)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	now = now.Add(MaxPause)
	for range 2 {
		if got := l.Pauses(now)[0]; got != (Kept{key, Verdict{0, true}}) {
			t.Errorf("a probe is due: %v", got)
		}
	}
	if v := l.Delay(key, now); v != (Verdict{}) {
		t.Errorf("the probe: %v", v)
	}
	if got := l.Pauses(now)[0]; got != (Kept{key, Verdict{MaxPause, true}}) {
		t.Errorf("behind the probe: %v", got)
	}
	if got := l.Pauses(now.Add(time.Hour)); len(got) != 0 {
		t.Errorf("an hour later: %v", got)
	}
}

// TestOrderOfPauses: keys are told in the order of their endpoints, and then of their methods.
func TestOrderOfPauses(t *testing.T) {
	l, keys := &Limiter{}, []Key{}
	for _, endpoint := range []string{"http://b/", "http://a/", "http://c/"} {
		for _, method := range []string{"POST", "GET", "PUT"} {
			k := Key{endpoint, method}
			l.Failure(k, start, 0)
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Endpoint+a.Method, b.Endpoint+b.Method) })
	for i, kept := range l.Pauses(start) {
		if kept.Key != keys[i] {
			t.Errorf("%v stands where %v should", kept.Key, keys[i])
		}
	}
}
