package replication

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// TestReportsOfIdleRun: a run tells its state soon after its beginning, at once when a checkpoint is written,
// at the next look when something has changed, and seldom while nothing does.
func TestReportsOfIdleRun(t *testing.T) {
	const interval = 10 * time.Second
	w := newWorld(t)
	w.plan.Continuous, w.plan.ProgressInterval = true, interval
	w.fill(20)
	w.begin()
	began := w.now
	for end := w.now.Add(30 * time.Minute); w.now < end; {
		checkpoint := w.run.commits.committed
		w.proceed(first)
		if c := w.run.commits.committed; c != checkpoint && checkpoint != "" {
			last := append([]report{{}}, w.told...)[len(w.told)]
			if last.at != w.now || last.info.CheckpointedSeq != c {
				t.Errorf("at the checkpoint at %s it tells %+v", c, last.info)
			}
		}
	}
	if first := w.told[0].at.Sub(began); first > firstReport+time.Second {
		t.Errorf("the first report comes after %s", first)
	}
	if n := len(w.told); n < 5 || n > 10 {
		t.Errorf("%d reports in half an hour", n)
	}
	for i, r := range w.told[2:] { // the first two tell of copies and their checkpoint
		if gap := r.at.Sub(w.told[i+1].at); gap < quietReports*interval || gap > (quietReports+2)*interval {
			t.Errorf("%s between reports of the same", gap)
		}
	}
	n, changed := len(w.told), w.now
	w.dbs[peer.Source].write("late", "1-a")
	for len(w.told) == n {
		w.proceed(first)
	}
	if r := w.told[n]; r.at.Sub(changed) > interval || r.info.DocsWritten != 21 {
		t.Errorf("%s after a change it tells %+v", r.at.Sub(changed), r.info)
	}
}

// TestReportsOfBusyRun: a run whose state changes all the time tells it after times that double up to the
// interval, and then once in an interval.
func TestReportsOfBusyRun(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.ProgressInterval, w.plan.UseCheckpoints = true, 5*time.Second, false
	w.begin()
	for end := w.now.Add(time.Minute); w.now < end; w.proceed(first) {
		w.now = w.now.Add(90 * time.Millisecond)
		w.dbs[peer.Source].write(fmt.Sprint("doc", w.steps), "1-a")
	}
	for i, want := range []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		gap := w.told[i+1].at.Sub(w.told[i].at)
		if gap < want || gap > want+time.Second {
			t.Errorf("%s after report %d, want %s", gap, i+1, want)
		}
	}
	if n := len(w.told); n > 15 {
		t.Errorf("%d reports in a minute", n)
	}
}
