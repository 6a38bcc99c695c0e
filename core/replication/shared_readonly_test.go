package replication

import (
	"testing"
	"time"
)

// TestTwoOfReadOnlySourceRunAtOnce: the source stores no logs, and two continuous jobs that share checkpoints each have
// a document that is refused. They do not end each other's runs for ever, with all compared anew each time.
func TestTwoOfReadOnlySourceRunAtOnce(t *testing.T) {
	jobs := [2]*shared{newShared(t), newShared(t)}
	for i, s := range jobs {
		s.dbs, s.bad["doc7"] = jobs[0].dbs, true
		s.refuseLogs(403)
		s.as([]string{"a", "b"}[i])
		s.plan.Continuous, s.plan.Seed = true, uint64(i+1)<<32
		s.begin()
	}
	crashes, anew := 0, 0
	for range 600 { // minutes
		for _, s := range jobs {
			s.until(time.Minute)
			s.steps = 0
			if s.end != nil {
				crashes++
				s.calls = nil
				s.begin()
				s.until(10 * time.Second)
				if s.feedStart() == "0" {
					anew++
				}
			}
		}
	}
	if crashes > 4 {
		t.Errorf("%d runs have ended, and %d others begun anew", crashes, anew)
	}
}
