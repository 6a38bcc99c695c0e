package replication

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// slowLine makes the target's writes cost their bytes at so many bytes a millisecond, and a tenth of that compressed,
// after work that compression makes longer.
func slowLine(r *road, rate int, work, packing time.Duration) {
	other := r.cost
	r.cost = func(op peer.Op) time.Duration {
		write, is := op.(peer.WriteDocs)
		if !is {
			return other(op)
		}
		bytes := len(write.Docs) * r.runs[0].docSize
		if write.Gzip {
			return work + packing + time.Duration(bytes/10/rate)*time.Millisecond
		}
		return work + time.Duration(bytes/rate)*time.Millisecond
	}
}

// packed counts the bulk writes so far, and the compressed ones among them.
func (w *world) packed() (packed, all int) {
	for _, call := range w.calls {
		if len(call) > 5 && call[:5] == "write" {
			all++
		}
		if len(call) > 12 && call[len(call)-12:] == ", compressed" {
			packed++
		}
	}
	return packed, all
}

func TestCompression(t *testing.T) {
	for _, test := range []struct {
		name          string
		mode          spec.Compression
		rate          int // bytes a millisecond
		work, packing time.Duration
		least, most   int // percent of writes that are compressed
	}{
		{"a slow line", spec.CompressAuto, 50, time.Millisecond, 10 * time.Millisecond, 85, 98},
		{"a fast line", spec.CompressAuto, 10_000, 20 * time.Millisecond, 10 * time.Millisecond, 1, 12},
		{"a line as fast as compression", spec.CompressAuto, 900, time.Millisecond, 10 * time.Millisecond, 1, 12},
		{"on, on a fast line", spec.CompressOn, 10_000, 20 * time.Millisecond, 10 * time.Millisecond, 100, 100},
		{"off, on a slow line", spec.CompressOff, 50, time.Millisecond, 10 * time.Millisecond, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoad(t, 1, 5000)
			slowLine(r, test.rate, test.work, test.packing)
			r.runs[0].plan.Compression = test.mode
			r.play(func() bool { return false })
			r.runs[0].wantEnd(Completed, "")
			packed, all := r.runs[0].packed()
			if 100*packed < test.least*all || 100*packed > test.most*all {
				t.Errorf("%d of %d bulk writes are compressed, want %d to %d %%", packed, all, test.least, test.most)
			}
		})
	}
}

// TestCompressionFollows lets a line become slow, and fast again.
func TestCompressionFollows(t *testing.T) {
	r := newRoad(t, 1, 40_000)
	w := r.runs[0]
	count := func(rate int, until time.Duration) (share int) {
		slowLine(r, rate, 20*time.Millisecond, 10*time.Millisecond)
		packed, all := w.packed()
		end := r.now.Add(until)
		r.play(func() bool { return r.now >= end })
		packed2, all2 := w.packed()
		return 100 * (packed2 - packed) / max(1, all2-all)
	}
	if share := count(10_000, 10*time.Second); share > 20 {
		t.Errorf("%d %% are compressed on a fast line", share)
	}
	if share := count(50, 20*time.Second); share < 70 {
		t.Errorf("%d %% are compressed when the line has become slow", share)
	}
	count(10_000, 20*time.Second) // until the next trial
	if share := count(10_000, 5*time.Second); share > 10 {
		t.Errorf("%d %% are compressed when the line is fast again", share)
	}
}

// TestCompressionRefused has targets that do not take compressed bodies: each document arrives, and what was tried in
// vain is tried again later only.
func TestCompressionRefused(t *testing.T) {
	failures := map[string]*peer.Failure{
		"408":       {Kind: peer.Status, Status: 408},
		"411":       {Kind: peer.Status, Status: 411},
		"415":       {Kind: peer.Status, Status: 415, Error: "bad_content_type"},
		"400":       {Kind: peer.Status, Status: 400, Error: "bad_request"},
		"502":       {Kind: peer.Status, Status: 502},
		"broken":    {Kind: peer.Broken},
		"timed out": {Kind: peer.TimedOut},
		"malformed": {Kind: peer.Malformed},
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			r := newRoad(t, 1, 20_000)
			w := r.runs[0]
			w.plan.Compression = spec.CompressOn
			w.answer = func(c Call) *peer.Failure {
				if op, is := c.Op.(peer.WriteDocs); is && op.Gzip {
					return failure
				}
				return nil
			}
			began := r.now
			r.play(func() bool { return false })
			end := w.wantEnd(Completed, "")
			if packed, _ := w.packed(); packed == 0 || packed > 2*2*w.plan.Workers {
				t.Errorf("%d compressed writes in %s, want twice those in flight at most", packed, r.now.Sub(began))
			}
			if end.Info.DocsWritten != 20_000 || end.Info.DocWriteFailures != 0 {
				t.Errorf("%d written, %d refused", end.Info.DocsWritten, end.Info.DocWriteFailures)
			}
		})
	}
}

// TestCompressionIsNotToBlame has a target that takes no write at all for a moment.
func TestCompressionIsNotToBlame(t *testing.T) {
	r := newRoad(t, 1, 2000)
	w, failed := r.runs[0], 0
	w.plan.Compression = spec.CompressOn
	w.answer = func(c Call) *peer.Failure {
		if _, is := c.Op.(peer.WriteDocs); is && failed < 12 {
			failed++
			return &peer.Failure{Kind: peer.Status, Status: 503}
		}
		return nil
	}
	r.play(func() bool { return false })
	w.wantEnd(Completed, "")
	if w.run.work.packing.refusals > 1 {
		t.Errorf("%d writes count as not taken for being compressed", w.run.work.packing.refusals)
	}
}

// TestCompressionGrowsRare bounds what trials of the slower way cost.
func TestCompressionGrowsRare(t *testing.T) {
	z := compression{Run: New(Plan{Options: Options{Workers: 1, Connections: 4}}), gap: firstGap}
	z.now = instant.Seconds(1000)
	other, last, end := 0, z.now, z.now.Add(2*time.Hour)
	for z.now < end {
		gzip := z.next(10_000)
		alike := z.began(gzip, 10_000)
		took := 10 * time.Millisecond
		if gzip {
			other, last, took = other+1, z.now, 5*took
		}
		z.now = z.now.Add(took)
		z.ended(gzip, 10_000, true, alike)
		z.now = z.now.Add(time.Second) // without anything to write
	}
	if other > 4*21 || end.Sub(last) > 11*time.Minute {
		t.Errorf("%d writes go the slower way, the last of them %s before the end", other, end.Sub(last))
	}
}

// TestCompressionOfLargeWrites: small writes, whose time is not for their bytes, do not make plain ones look slow.
func TestCompressionOfLargeWrites(t *testing.T) {
	z := compression{Run: New(Plan{Options: Options{Workers: 1, Connections: 4}}), gap: firstGap}
	z.now = instant.Seconds(1000)
	packed := 0
	for n := range 10_000 {
		bytes := 100
		if n%5 == 0 {
			bytes = 100_000
		}
		gzip := z.next(bytes)
		alike := z.began(gzip, bytes)
		if z.now = z.now.Add(20 * time.Millisecond); gzip {
			packed++
		}
		z.ended(gzip, bytes, true, alike)
	}
	if packed == 0 || packed > 100 {
		t.Errorf("%d writes are compressed, which are as fast as plain ones; want those of a few trials", packed)
	}
}

func TestCompressionPauses(t *testing.T) {
	z := compression{Run: New(Plan{Options: Options{Workers: 1, Connections: 4, Compression: spec.CompressOn}})}
	for n := range 12 {
		if !z.next(10_000) || z.next(leastCompressed-1) {
			t.Fatalf("after %d refusals: a write of 10,000 bytes is not compressed, or a small one is", n)
		}
		z.refused()
		pause := min(37*time.Second<<n, time.Hour)
		z.now = z.now.Add(pause - time.Millisecond)
		if z.next(10_000) {
			t.Errorf("after %d refusals: compressed before %s", n+1, pause)
		}
		z.now = z.now.Add(time.Millisecond)
	}
}

// TestRefusalsAtOnce: however many writes are in flight when a target turns out to take none compressed, the pause is
// that of one, from the last of them on.
func TestRefusalsAtOnce(t *testing.T) {
	z := compression{Run: New(Plan{Options: Options{Workers: 1, Connections: 4, Compression: spec.CompressOn}})}
	for n, pause := range []time.Duration{37 * time.Second, 74 * time.Second} {
		for range 10 {
			z.refused()
			z.now = z.now.Add(time.Second)
		}
		z.now = z.now.Add(pause - time.Second - time.Millisecond)
		if z.next(10_000) {
			t.Errorf("burst %d: compressed before %s", n, pause)
		}
		if z.now = z.now.Add(time.Millisecond); !z.next(10_000) {
			t.Errorf("burst %d: not compressed after %s", n, pause)
		}
	}
}
