package replication

import (
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
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

// TestOtherLogBeforeRefusal: another run has written its log on the source when that refuses one of this run. The log
// that this run then writes alone names it, so the next run goes on from there.
func TestOtherLogBeforeRefusal(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.begin()
	w.wantEnd(Completed, "")
	refused, other := status(403), false
	w.answer = func(c Call) *peer.Failure {
		put, is := c.Op.(peer.PutLocal)
		if !is || put.Side != peer.Source {
			return nil
		}
		if log := w.logOn(peer.Source); !other {
			other = true
			newest := checkpoint.Entry{SessionID: "other", RecordedSeq: log.SourceLastSeq}
			log.History = append([]checkpoint.Entry{newest}, log.History...)
			log.SessionID = "other"
			doc := w.dbs[peer.Source].local["four"]
			w.dbs[peer.Source].local["four"] = localDoc{rev: doc.rev + 1, body: log.Encode(false)}
		}
		return &refused
	}
	w.dbs[peer.Source].write("new", "1-a")
	for range 2 {
		w.calls = nil
		w.begin()
		w.wantEnd(Completed, "")
	}
	if from := w.feedStart(); from != `"3-opaque"` {
		t.Errorf("the next run began at %s", from)
	}
}
