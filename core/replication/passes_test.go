package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/peer"
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
