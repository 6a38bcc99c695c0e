package jobstore

import (
	"strings"
	"testing"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

func weighing(body, weight string) string { return body[:len(body)-1] + `,"weight":` + weight + "}" }

// TestWeightOfDocument: the job has the weight of its document, its account the sum, and jobs that were stored before
// there were weights have the default.
func TestWeightOfDocument(t *testing.T) {
	b := newBench(t)
	b.put("r", weighing(simple, "300"), admin)
	b.put("s", simple, admin)
	b.put("d", weighing(simple, "100"), admin)
	if err := b.put("x", weighing(simple, "1001"), admin); err == nil || !strings.Contains(err.Error(), "`weight`") {
		t.Errorf("weight 1001: %v", err)
	}
	for id, want := range map[string]int64{"r": 300, "s": 100, "d": 100} {
		if got := b.shown(jobID(id)).Weight; got != want {
			t.Errorf("%s has weight %d, want %d", id, got, want)
		}
	}
	if a := b.account("_replicator"); a.Jobs != 3 || a.Excess != 200 {
		t.Errorf("%d jobs, excess %d", a.Jobs, a.Excess)
	}
	if rec := b.record(jobID("d")); strings.Contains(string(rec.encode()), "weight") {
		t.Error("the default is stored")
	}
	b.put("r", `{"_deleted":true}`, admin)
	if a := b.account("_replicator"); a.Jobs != 2 || a.Excess != 0 {
		t.Errorf("without it %d jobs, excess %d", a.Jobs, a.Excess)
	}
	b.do(func(tx kv.Tx) error { return b.s.Audit(tx) })
}

// TestChangeOfWeightAlone: the job goes on, whether it runs, waits or is paused, with its history and its lock.
func TestChangeOfWeightAlone(t *testing.T) {
	b := newBench(t)
	excess := func(want int64) {
		t.Helper()
		if got := b.account("_replicator").Excess; got != want {
			t.Errorf("excess %d, want %d", got, want)
		}
		b.do(func(tx kv.Tx) error { return b.s.Audit(tx) })
	}
	b.put("r", weighing(simple, "300"), admin)
	place := b.first()
	b.put("r", weighing(simple, "50"), admin)
	if b.first() != place || len(b.record(jobID("r")).History) != 1 {
		t.Error("a waiting job was made anew")
	}
	excess(-50)
	w := b.accept()
	if w.Record.Weight != 50 {
		t.Errorf("a run with weight %d", w.Record.Weight)
	}
	b.now = b.now.Add(time.Minute)
	b.put("r", weighing(simple, "200"), admin)
	b.wantState(jobID("r"), Running)
	excess(100)
	b.requeue(w, Turn{Place: w.Place})
	if got := b.shown(jobID("r")).Weight; got != 200 {
		t.Errorf("after the run weight %d", got)
	}
	excess(100)
	b.pause(jobID("r"))
	excess(0)
	b.put("r", weighing(simple, "10"), admin)
	b.wantState(jobID("r"), Pending)
	excess(0)
	b.resume(jobID("r"))
	excess(-90)
	b.put("r", weighing(`{"source":"http://h/c","target":"http://h/b"}`, "20"), admin)
	if rec := b.record(jobID("r")); rec.Weight != 20 || rec.Source != "http://h/c/" {
		t.Errorf("with another source: %+v", rec)
	}
	excess(-80)
}

// TestTagOfWeight: under tags the way to the next tag is the shorter the heavier the job is.
func TestTagOfWeight(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	b.put("r", weighing(simple, "150"), admin)
	w := b.accept()
	for _, id := range []string{"s", "t", "u"} {
		b.put(id, simple, admin) // when the mean is 125, 350/3 and 112.5, and the next tag 60, 120 and 180 s
	}
	b.requeue(w, Turn{Place: w.Place, Owed: time.Minute, Began: w.Place}) // the next tag is 240 s
	places := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) })
	for i, want := range []int64{75_000_000, 127_500_000, 240_000_000 * 1125 / 1500, 193_125_000} {
		if got := places[i].Key; got != want {
			t.Errorf("number %d stands at %d, want %d", i, got, want)
		}
	}
	if a := b.account("_replicator"); a.Tail != 300_000_000 {
		t.Errorf("the account's next tag is %d", a.Tail)
	}
	b.put("v", weighing(simple, "1000"), admin) // the mean is 290, and the first job stands at 75 s
	places = get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) })
	if got := places[2].Key; got != 75_000_000+225_000_000*290/1000 {
		t.Errorf("a heavy job that comes stands at %v", places)
	}
}
