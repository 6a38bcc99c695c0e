package replication

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

func newCompression(mode spec.Compression) *compression {
	r := New(Plan{Options: Options{Workers: 1, Connections: 4, Compression: mode}})
	r.now = instant.Seconds(1000)
	return &r.work.packing
}

// line is how long a write takes, by whether it is compressed.
type line map[bool]time.Duration

// writes makes bulk writes of 10,000 bytes, one after the other, and returns how many were compressed.
func (z *compression) writes(n int, took line) (packed int) {
	for range n {
		gzip := z.next(10_000)
		if gzip {
			packed++
		}
		alike := z.began(gzip, 10_000)
		z.now = z.now.Add(took[gzip])
		z.ended(gzip, 10_000, true, alike)
	}
	return packed
}

const ms = time.Millisecond

// TestFirstTrial: the other way of writing is tried when a second has passed, and it is known how fast the first one
// is.
func TestFirstTrial(t *testing.T) {
	z := newCompression(spec.CompressAuto)
	if n := z.writes(99, line{false: 10 * ms}); n > 0 {
		t.Errorf("%d of the writes of the first second are compressed", n)
	}
	z = newCompression(spec.CompressAuto)
	if n := z.writes(4, line{false: 10 * time.Second}); n > 0 {
		t.Errorf("%d of the first four writes are compressed", n)
	}
	if n := z.writes(1, line{true: 10 * time.Second}); n != 1 {
		t.Error("the fifth is not")
	}
}

// TestIdleTimeIsNoPace: times in which there is nothing to write tell nothing.
func TestIdleTimeIsNoPace(t *testing.T) {
	z := newCompression(spec.CompressAuto)
	for range 20 {
		z.writes(1, line{false: 10 * ms, true: 5 * ms})
		z.now = z.now.Add(time.Second)
	}
	if !z.used {
		t.Errorf("writes are not compressed, though that takes half of the time: %v", z.paces)
	}
}

// TestSmallWritesDoNotCount: writes from the least size on that is compressed count as in flight, and smaller ones do
// not.
func TestSmallWritesDoNotCount(t *testing.T) {
	for bytes, counts := range map[int]bool{
		leastCompressed - 1: false, leastCompressed: true, leastCompressed + 1: true,
	} {
		z := newCompression(spec.CompressAuto)
		z.began(true, bytes)
		if alike := z.began(false, 10_000); alike == counts {
			t.Errorf("beside %d bytes another write is alike: %v", bytes, alike)
		}
		z.ended(true, bytes, true, true)
		z.ended(false, 10_000, true, true)
		if z.flying != [2]int{} {
			t.Errorf("after %d bytes %v are in flight", bytes, z.flying)
		}
	}
}

// TestMixedTimesAreNoPace: while writes of both kinds are in flight it cannot be told which one is fast.
func TestMixedTimesAreNoPace(t *testing.T) {
	z := newCompression(spec.CompressAuto)
	pass := func() { z.now = z.now.Add(10 * ms) }
	plain := z.began(false, 10_000)
	pass()
	packed := z.began(true, 10_000)
	pass()
	z.ended(false, 10_000, true, plain)
	pass()
	z.ended(true, 10_000, true, packed)
	pass()
	if want := [2]pace{{0, 10 * ms, 0}, {10_000, 10 * ms, 0}}; z.paces != want || z.flying != [2]int{} {
		t.Errorf("%v, want %v; %v in flight", z.paces, want, z.flying)
	}
}

// TestFailedWriteIsNoPace: after a write that tells nothing what came before does not count either, since its time
// does.
func TestFailedWriteIsNoPace(t *testing.T) {
	z := newCompression(spec.CompressAuto)
	z.writes(5, line{false: 10 * ms})
	alike := z.began(false, 10_000)
	z.now = z.now.Add(time.Minute)
	z.ended(false, 10_000, false, alike)
	if z.paces[0] != (pace{}) || z.flying != [2]int{} {
		t.Errorf("%v, %v in flight", z.paces, z.flying)
	}
}

// TestPaceForgets: a dozen writes show how fast a line is now, whatever it was.
func TestPaceForgets(t *testing.T) {
	z := newCompression(spec.CompressOn)
	for _, took := range []time.Duration{10 * ms, 20 * ms, 5 * ms} {
		z.writes(200, line{true: 10 * took})
		z.writes(24, line{true: took})
		if now := z.paces[1].perByte(); now < int64(took)/10 || now > int64(took)/8 { // of 10,000 bytes, in picoseconds
			t.Errorf("%d picoseconds for a byte when 10,000 take %s", now, took)
		}
	}
}

// TestChoice: compressed writes have to be faster by a fifth, and remain until they are slower.
func TestChoice(t *testing.T) {
	const n = trialWrites
	for _, test := range []struct {
		plain, packed pace // bytes, time, writes
		used, want    bool
	}{
		{pace{1000, 100, n}, pace{1000, 79, n}, false, true},
		{pace{1000, 100, n}, pace{1000, 80, n}, false, false},
		{pace{1000, 100, n}, pace{1000, 100, n}, true, true},
		{pace{1000, 100, n}, pace{1000, 101, n}, true, false},
		{pace{1000, 100, n - 1}, pace{1000, 1, n}, false, false},
		{pace{1000, 100, n}, pace{1000, 1, n - 1}, false, false},
		{pace{1000, 1, n}, pace{1000, 100, n - 1}, true, true},
	} {
		z := newCompression(spec.CompressAuto)
		z.paces, z.used, z.trial, z.gap = [2]pace{test.plain, test.packed}, test.used, 7, time.Minute
		z.conclude()
		gap := 2 * time.Minute
		if test.used != test.want {
			gap = firstGap
		}
		if z.used != test.want || z.trial != 0 || z.tried != z.now || z.gap != gap {
			t.Errorf("%v: compressed %v, next trial after %s", test, z.used, z.gap)
		}
	}
}

// TestLineChanges: when writes have become three times as slow, or fast, the other way is tried at once.
func TestLineChanges(t *testing.T) {
	for _, factor := range []float64{4, 0.25} {
		z := newCompression(spec.CompressAuto)
		z.writes(20_000, line{false: 10 * ms, true: 20 * ms})
		took := time.Duration(10 * factor * float64(ms))
		if n := z.writes(30, line{false: took, true: took / 2}); n < 10 || z.gap > 10*time.Second {
			t.Errorf("%.1f times as slow: %d of 30 are compressed, next trial after %s", factor, n, z.gap)
		}
	}
}

// TestVainTrialEnds: a trial of which no write tells anything is not for ever.
func TestVainTrialEnds(t *testing.T) {
	z := newCompression(spec.CompressAuto)
	z.writes(4, line{false: time.Second})
	z.began(false, 10_000) // one that hangs
	for range longestTrial {
		if !z.next(10_000) {
			t.Fatal("not tried")
		}
		z.ended(true, 10_000, true, z.began(true, 10_000))
	}
	if z.next(10_000) {
		t.Error("still tried")
	}
}

// TestSmooth: only writes that succeed at once, as a whole, show how fast a line is.
func TestSmooth(t *testing.T) {
	whole, works := &group{}, peer.Reply{Result: peer.Written{}}
	if !whole.smooth(&call{}, works) {
		t.Error("a write that works tells nothing")
	}
	if whole.smooth(&call{}, peer.Reply{Failure: &peer.Failure{}}) || whole.smooth(&call{failed: 1}, works) ||
		whole.smooth(&call{throttled: throttled{answers: 1}}, works) ||
		(&group{parted: true}).smooth(&call{}, works) {
		t.Error("a write that failed, or was in parts, tells how fast a line is")
	}
}

// TestOfEncoding: what a target or something on the way may answer for the encoding alone has the write repeated as it
// is; a refusal of the user, a missing database or no connection has not.
func TestOfEncoding(t *testing.T) {
	for kind := peer.Status; kind <= peer.Denied; kind++ {
		for status := range 600 {
			want := kind == peer.Broken || kind == peer.TimedOut || kind == peer.Malformed
			if kind == peer.Status {
				want = slices.Contains([]int{400, 408, 411, 415}, status) || status >= 500
			}
			if got := ofEncoding(&peer.Failure{Kind: kind, Status: status}); got != want {
				t.Errorf("%v %d: %v", kind, status, got)
			}
		}
	}
}

// TestPausesOfRefusals: compression pauses for twice as long after each refusal, up to the longest pause, and a write
// that was under way when the pause began counts for no other.
func TestPausesOfRefusals(t *testing.T) {
	z := compression{Run: New(Plan{Options: Options{Workers: 1, Connections: 4}}), gap: firstGap}
	z.now = 1_000_000
	want := forceAfter
	for i := range 12 {
		z.used, z.trial, z.gap = true, 1, lastGap
		z.refused()
		pause := z.until.Sub(z.now)
		if pause != min(want, longestRefusal) || z.used || z.trial != 0 || z.gap != firstGap {
			t.Errorf("refusal %d: a pause of %s, used %v, trial %d", i+1, pause, z.used, z.trial)
		}
		z.now = z.until.Add(-time.Second)
		if z.refused(); z.until.Sub(z.now) != min(want, longestRefusal) {
			t.Errorf("refusal %d, again: a pause of %s", i+1, z.until.Sub(z.now))
		}
		z.now, want = z.until, min(2*want, 2*longestRefusal)
	}
}
