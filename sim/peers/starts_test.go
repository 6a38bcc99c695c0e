package peers

import (
	"testing"
	"time"

	"couchrelay/core/instant"
)

// TestStarts: which databases have one instance_start_time.
func TestStarts(t *testing.T) {
	for _, c := range []struct {
		starts            Starts
		others            bool // databases of one server have different ones
		remade, restarted bool // a database has another one after that
	}{
		{StartsOfDatabases, true, true, true},
		{StartOfServer, false, false, true},
		{NoStarts, false, false, false},
	} {
		now := instant.Time(0)
		tick := func() instant.Time { now = now.Add(time.Second); return now }
		s := NewServer("s", Traits{Starts: c.starts}, tick)
		a, b := s.Create("a"), s.Create("b")
		first := InstanceStart(a)
		if others := first != InstanceStart(b); others != c.others {
			t.Errorf("%d: two databases have %s and %s", c.starts, first, InstanceStart(b))
		}
		s.Delete("a")
		again := s.Create("a")
		if remade := InstanceStart(again) != first; remade != c.remade || remade != s.TellsApart() {
			t.Errorf("%d: made again %s is %s", c.starts, first, InstanceStart(again))
		}
		if a.Start() == again.Start() {
			t.Errorf("%d: the world takes two databases for one", c.starts)
		}
		before := InstanceStart(again)
		again.Restart()
		if restarted := InstanceStart(again) != before; restarted != c.restarted {
			t.Errorf("%d: after a restart %s is %s", c.starts, before, InstanceStart(again))
		}
	}
}
