package node

import (
	"testing"
	"time"

	"couchrelay/core/replication"
)

// TestClaimThatCameWithTheJob: a run goes on without a request if its job has the replication already.
func TestClaimThatCameWithTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		id    string // that the run computes; empty for the record's
		after time.Duration
		again bool // it has identified before
		asks  int
	}{
		"the same":        {"", time.Second, false, 0},
		"another":         {"other", time.Second, false, 1},
		"just in time":    {"", claimFresh, false, 0},
		"late":            {"", claimFresh + time.Second, false, 1},
		"the same, again": {"", time.Second, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
			n := w.start("n1", nil)
			run, asks := n.runOf("r"), 0
			n.hold = func(q Request) bool {
				if _, is := q.(Claim); is {
					asks++
				}
				return false
			}
			id := c.id
			if id == "" {
				id = n.running[run].Record.RepID
			}
			w.pass(c.after)
			want := 1
			if c.again {
				n.step(RunIdentifies{Run: run, ID: id, Base: "b"})
				want++
			}
			n.step(RunIdentifies{Run: run, ID: id, Base: "b"})
			if asks != c.asks || n.confirms != want {
				t.Errorf("%d requests and %d confirmations, want %d and %d", asks, n.confirms, c.asks, want)
			}
			if got := w.record("r").RepID; got != id {
				t.Errorf("it runs as %s", got)
			}
		})
	}
}

// TestClaimOfWaitingRun: the claim that came with a job is old news for a run that had to wait for long until the old
// run of its job had stopped.
func TestClaimOfWaitingRun(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", func(c *Config) { c.StopTimeout = time.Minute })
	old := n.runOf("r")
	w.put("r", `{"source":"http://h/c","target":"http://h/b"}`)
	w.pass(claimFresh + time.Second)
	n.endRun(old, replication.Stopped)
	asks := 0
	n.hold = func(q Request) bool {
		if _, is := q.(Claim); is {
			asks++
		}
		return false
	}
	run := n.runOf("r")
	n.step(RunIdentifies{Run: run, ID: n.running[run].Record.RepID, Base: "b"})
	if asks != 1 || n.confirms != 1 {
		t.Errorf("%d requests and %d confirmations", asks, n.confirms)
	}
}

// TestUnknownReplication: a run that learns by its own request which replication it is goes on, if no other job has
// it.
func TestUnknownReplication(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b","filter":"d/f"}`)
	n := w.start("n1", nil)
	run := n.runOf("r")
	n.step(RunIdentifies{Run: run, ID: "x", Base: "b"})
	rec := w.record("r")
	if _, on := n.running[run]; !on || n.confirms != 1 || rec.RepID != "x" || rec.BaseID != "b" {
		t.Errorf("it is on: %v, with %d confirmations, as %q with base %q", on, n.confirms, rec.RepID, rec.BaseID)
	}
}
