package jobstore

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

// TestWaited: an accepted job tells how long it was ready, whether it is new, gave way or was resumed. The wait after
// a crash is none for its turn.
func TestWaited(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	want := func(what string, w Work, d time.Duration, known bool) {
		t.Helper()
		if got, is := w.Record.Waited(); got != d || is != known {
			t.Errorf("%s: waited for %s, known %v; want %s, %v", what, got, is, d, known)
		}
	}
	b.now = b.now.Add(time.Minute)
	w := b.accept()
	want("new", w, time.Minute, true)
	b.now = b.now.Add(time.Hour)
	b.requeue(w, Turn{})
	b.now = b.now.Add(2 * time.Minute)
	w = b.accept()
	want("after its turn", w, 2*time.Minute, true)
	b.requeue(w, Turn{})
	b.pause(jobID("r"))
	b.now = b.now.Add(time.Hour)
	b.resume(jobID("r"))
	b.now = b.now.Add(3 * time.Minute)
	w = b.accept()
	want("after a pause", w, 3*time.Minute, true)
	b.crash(w)
	b.now = b.now.Add(time.Hour)
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 9); return err })
	want("after a crash", b.accept(), 0, false)
	if _, known := (&Record{}).Waited(); known {
		t.Error("without a history it is known")
	}
}

// TestWaitedByHistory: a history of two events is enough, and the one before the start says whether the job waited for
// its turn.
func TestWaitedByHistory(t *testing.T) {
	events := func(types ...string) (list []Event) {
		for i, name := range types {
			list = append(list, Event{Type: name, At: instant.Time(100 - i)})
		}
		return list
	}
	for _, before := range []string{"added", "pending", "resumed", "retried", "crashed", "started", "paused", "held"} {
		waits := slices.Contains([]string{"added", "pending", "resumed", "retried"}, before)
		want := map[bool]time.Duration{true: time.Microsecond}[waits]
		if d, known := (&Record{History: events("started", before)}).Waited(); d != want || known != waits {
			t.Errorf("started after %s: %s, %v", before, d, known)
		}
		if _, known := (&Record{History: events("pending", before)}).Waited(); known {
			t.Errorf("pending after %s: it is known", before)
		}
		if _, known := (&Record{History: events(before)}).Waited(); known {
			t.Errorf("only %s: it is known", before)
		}
	}
	late := events("added", "started")
	slices.Reverse(late)
	if d, known := (&Record{History: late}).Waited(); d != 0 || !known {
		t.Errorf("a clock that went back: %s, %v", d, known)
	}
}
