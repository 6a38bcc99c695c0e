package world

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
	"couchrelay/sim/fakefdb"
)

// TestReadsHang: an outage of the reads holds these up and nothing else, and ends when the world is healed.
func TestReadsHang(t *testing.T) {
	w := New(Default(), decide.New(1))
	s, soon := w.storeWorld, w.Engine.Now().Add(time.Minute)
	for _, c := range []struct {
		down, reads instant.Time
		held        map[fakefdb.Kind]bool
	}{
		{0, 0, nil},
		{0, soon, map[fakefdb.Kind]bool{fakefdb.Read: true}},
		{soon, 0,
			map[fakefdb.Kind]bool{fakefdb.Read: true, fakefdb.ReadVersion: true, fakefdb.Commit: true}},
	} {
		s.downUntil, s.readsHangUntil = c.down, c.reads
		for _, kind := range []fakefdb.Kind{fakefdb.ReadVersion, fakefdb.Read, fakefdb.Commit} {
			out := s.Decide(fakefdb.Op{Kind: kind})
			if held := out.Fault == fakefdb.Outage && out.Before == time.Minute; held != c.held[kind] {
				t.Errorf("down until %s, reads hang until %s: %s gets %+v", c.down, c.reads, kind, out)
			}
		}
	}
	if s.heal(); w.View().StoreDown() {
		t.Error("the outage outlasts the end of all faults")
	}
}
