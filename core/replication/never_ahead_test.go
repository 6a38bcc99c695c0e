package replication

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"couchrelay/core/peer"
	"couchrelay/core/prng"
	"couchrelay/core/spec"
)

// TestNeverAhead is the promise of the package under everything at once: any order of answers,
// failures, lost answers, halves, edits while it runs, runs that are dropped or stopped. Then the
// trouble ends and everything must arrive.
func TestNeverAhead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// One draw decides all: rapid's own integers lean towards 0, and calm worlds prove little.
		rng := prng.New(rapid.Uint64().Draw(rt, "seed"))
		chaos(t, rng.Intn)
	})
}

func chaos(t *testing.T, draw func(int) int) {
	w := newWorld(t)
	if draw(2) == 0 {
		w.dbs[peer.Target] = newDatabase()
	}
	faults, odds, edits := draw(40), draw(30), draw(20)
	w.fault = func(Call) fault {
		if draw(100) >= faults {
			return works
		}
		return fault(1 + draw(3))
	}
	w.odd = func() bool { return draw(100) < odds }
	w.plan.Continuous, w.plan.UseBulkGet = draw(2) == 0, draw(3) > 0
	w.plan.BatchSize, w.plan.Workers = 1+draw(6), 1+draw(4)
	w.fill(draw(31))
	for i := range draw(6) {
		w.refuses[fmt.Sprint("doc", 3*i)] = draw(2) == 0
		w.attachments[fmt.Sprint("doc", 3*i+1)] = true
		w.inline[fmt.Sprint("doc", 3*i+2)] = 1 + draw(2000)
	}
	w.plan.OnRefusal = []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused}[draw(2)]
	w.begin()
	for range draw(400) {
		switch event := draw(100); {
		case event < 2 && w.end == nil:
			w.step(Stop{})
		case event == 2:
			w.end = &End{} // the process is killed
		case event == 3:
			w.refuses[fmt.Sprint("doc", 3*draw(6))] = draw(2) == 0 // a validation function changes
		case event == 4:
			w.asked = !w.asked
			if w.end == nil {
				w.step(TryRefused{})
			}
		case event < 5+edits:
			w.edit(draw)
		case w.end == nil:
			w.proceed(draw)
		}
		if w.end != nil {
			w.begin()
		}
	}
	w.fault, w.odd, w.plan.Continuous = nil, nil, false
	w.plan.OnRefusal = spec.RetryRefused
	w.begin()
	if end := w.runToEnd(draw); end.Cause != Completed {
		t.Fatalf("after the trouble: %s", end)
	}
	if id := w.uncovered(w.dbs[peer.Source].seq); id != "" {
		t.Fatalf("completed, but %s is not on the target", id)
	}
	for at := range w.list {
		if !w.refuses[at.id] {
			t.Fatalf("%v is listed still, and the target refuses it no longer", at)
		}
	}
	if id := w.unlisted(w.dbs[peer.Source].seq); id != "" {
		t.Fatalf("%s is refused, and not listed", id)
	}
	if w.run.work.memory != 0 || w.run.work.copies != 0 || len(w.kept) != 0 {
		t.Fatalf("left over: memory %d, copies %d, bodies %d", w.run.work.memory, w.run.work.copies, len(w.kept))
	}
}
