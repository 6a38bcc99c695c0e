package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestPassesInVain: a document of the list that is written all the time, and of which a revision stays on the list, has
// the run go through the list more and more rarely. What such passes find brings them back.
func TestPassesInVain(t *testing.T) {
	w, passes := newWorld(t), 0
	w.fill(3)
	w.since, w.plan.SinceSeq, w.plan.Continuous = 3, seqOf(3), true
	w.keep(Finding{Refusal: peer.Refusal{ID: "hot", Rev: "1-refused", Status: 403}})
	w.fault = func(c Call) fault {
		op, is := c.Op.(peer.DiffRevs)
		listed := func(d peer.DocRevs) bool { return slices.Contains(d.Revs, "1-refused") }
		if is && slices.ContainsFunc(op.Docs, listed) {
			passes++
		}
		return works
	}
	w.begin()
	path := []string{"1-a"}
	for i := range 400 {
		w.dbs[peer.Source].write("hot", path...)
		w.until(2 * time.Second)
		path = []string{fmt.Sprint(i+2, "-a"), path[0]}
	}
	if passes < 6 || passes > 10 {
		t.Errorf("%d passes in 13 minutes", passes)
	}
	w.dbs[peer.Target].write("hot", "1-refused")
	w.dbs[peer.Source].write("hot", path...)
	w.until(6 * time.Minute)
	if len(w.list) > 0 {
		t.Errorf("listed are still %v", w.list)
	}
}

// TestRefusedBeforeDemand: an operator corrects the target for some documents and asks to try all, while the run hears
// what the target has refused before, and has the store list it. Under skip, too, all of that is tried, once.
func TestRefusedBeforeDemand(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.BatchSize = true, 300
	w.fill(300)
	for i := range 250 {
		w.refuses[fmt.Sprint("doc", i)] = true
	}
	w.deaf = true
	w.begin()
	w.until(time.Second)
	for i := range 150 {
		delete(w.refuses, fmt.Sprint("doc", 100+i))
	}
	w.deaf, w.demand = false, 1
	w.step(TryRefused{})
	w.until(time.Minute)
	w.refuses["later"] = true
	w.dbs[peer.Source].write("later", "1-a")
	w.until(time.Hour)
	for at, row := range w.list {
		if once := at.id == "later"; once != (row.attempts == 1) || row.attempts > 2 {
			t.Errorf("%s was tried %d times", at.id, row.attempts)
		}
	}
	if len(w.list) != 101 {
		t.Errorf("%d are still listed", len(w.list))
	}
}

// TestRefusedDuringDemand: a batch begins, then an operator asks to try all, and then a document of the batch is
// refused. The list says that this attempt is older than the order.
func TestRefusedDuringDemand(t *testing.T) {
	r := New(Plan{})
	f := &r.refused
	f.begin()
	f.demand = 1
	if f.list(&batch{}, Finding{}); f.queue[0].Demand != 0 {
		t.Errorf("listed as of demand %d", f.queue[0].Demand)
	}
}

// TestDemandIsKnown: a run whose job has a list begins no batch before it knows of the last order to try all. What it
// lists has been tried since, and is not tried again for that order.
func TestDemandIsKnown(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.Listed, w.demand, w.deaf = true, 1, 7, true
	w.list = map[peerRev]*entry{{"old", "1-a"}: {Finding: Finding{Demand: 7}, attempts: 1}}
	w.fill(3)
	w.refuses["doc1"], w.refuses["old"] = true, true
	w.begin()
	w.until(time.Minute)
	if w.dbs[peer.Target].has("doc0", "1-a") {
		t.Error("a batch was begun before the list was read")
	}
	w.deaf = false
	w.until(time.Hour)
	for at, row := range w.list {
		if row.attempts != 1 {
			t.Errorf("%s was tried %d times", at.id, row.attempts)
		}
	}
	if len(w.list) != 2 || !w.dbs[peer.Target].has("doc0", "1-a") {
		t.Errorf("listed are %v", w.list)
	}
}

// TestPassAfterPause: a document that is refused once more has its next pass after its longer pause.
func TestPassAfterPause(t *testing.T) {
	r := New(Plan{Options: Options{OnRefusal: spec.RetryRefused}})
	f := &r.refused
	f.begin()
	f.tried = map[peerRev]int{{"d", "1-a"}: 3}
	f.list(&batch{retries: true}, Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a"}})
	if want := r.now.Add(refusedPause(4)); f.next != want {
		t.Errorf("the next pass begins at %s, not %s", f.next, want)
	}
}

// TestPageOfStoppedRun: a page of the list that comes when the run stops already asks the target nothing.
func TestPageOfStoppedRun(t *testing.T) {
	r := New(Plan{Options: Options{BatchSize: 10}})
	f := &r.refused
	f.begin()
	f.passBy(0)
	f.passWhenDue()
	f.stop()
	f.onPage(RefusedPage{Docs: []Listed{{ID: "d", Rev: "1-a", Attempts: 1}}})
	if f.asking || len(r.calls) > 0 {
		t.Errorf("the target is asked: %v", r.calls)
	}
}

// TestStaysUnfinished: after a pass without attempts checkpoints go on relying on the list for what failed, and under
// skip not for what the target refused.
func TestStaysUnfinished(t *testing.T) {
	for _, policy := range []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused} {
		for _, refused := range []bool{false, true} {
			r := New(Plan{Options: Options{BatchSize: 10, OnRefusal: policy}})
			f := &r.refused
			f.begin()
			f.passBy(0)
			f.passWhenDue()
			f.onPage(RefusedPage{Docs: []Listed{{ID: "d", Rev: "1-a", Attempts: 1, Failed: true, Refused: refused}}})
			f.compared([]peer.DocMissing{{ID: "d", Missing: []string{"1-a"}}})
			if want := !refused || policy == spec.RetryRefused; f.passing || f.unfinished != want {
				t.Errorf("%s, refused %t: unfinished %t", policy, refused, f.unfinished)
			}
		}
	}
}
