package oracle

import (
	"time"

	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// slotUse are the invariants of which nodes start runs, and of how they end them.
type slotUse struct{ *chronicle }

var slotSubject = subject{
	invariants: []Invariant{
		{"S5a", "Only a node with the role replication starts runs."},
		{"S5b", "A node starts no more runs than max_jobs."},
		{"S5c", "A node that drains or is in maintenance starts no run."},
		{"L6a", "A run that was told to stop, or whose node is in maintenance, is over within the time to " +
			"stop and a second."},
		{"L6b", "A node that leaves in order has ended all its runs."},
	},
	begin: func(c *chronicle) {
		s := &slotUse{c}
		c.on.landed.add(s.checkLeaves)
		c.on.runStarted.add(s.checkStarts)
		c.on.ticked.add(func(world.Ticked) {
			for _, r := range c.runs {
				s.checkStops(r)
			}
		})
	},
}

// checkStarts demands that a node which starts a run may. Only the settings count that the node was
// told.
func (s *slotUse) checkStarts(r *run) {
	p := r.p
	if !p.Roles().Has(node.Replication) {
		s.Fail("S5a", "%s starts a run without the role replication", p.Name)
	}
	if n := len(p.runs); n > p.MaxJobs() {
		s.Fail("S5b", "%s starts run %d though it may have %d", p.Name, n, p.MaxJobs())
	}
	switch {
	case p.Draining():
		s.Fail("S5c", "%s drains, and starts job %s", p.Name, r.JobID())
	case p.applied.Maintenance:
		s.Fail("S5c", "%s is in maintenance, and starts job %s", p.Name, r.JobID())
	}
}

// checkStops demands that a run which is to stop is over in time: it writes its last checkpoint, and is
// dropped when that takes too long. A node that stands still, or did so a moment ago, may be late.
func (s *slotUse) checkStops(r *run) {
	p, now := r.p, s.w.Now()
	since := r.stopAt
	if since == 0 && p.applied.Maintenance {
		since = p.applied.since
	}
	limit := p.Settings().StopTimeout + time.Second
	late := since > 0 && now.Sub(since) > limit
	if excused := p.Paused() || now.Sub(p.PausedLast()) <= limit; late && !excused {
		s.Fail("L6a", "%s runs job %s %s after it was to stop", p.Name, r.JobID(), now.Sub(since))
	}
}

// checkLeaves demands that a worker which gives its lease back has no runs: others take its jobs at once. It
// is called before the checker of leases hears of that. A worker whose lease others gave up has nothing to
// give back.
func (s *slotUse) checkLeaves(l landing) {
	q, is := l.Request.(node.Retire)
	if !is || s.leases[q.Worker].gone {
		return
	}
	for _, r := range s.runs {
		if r.Lock().Worker == q.Worker {
			s.Fail("L6b", "%s leaves, and still runs job %s", q.Worker, r.JobID())
		}
	}
}
