package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/world"
)

// strays looks for runs whose job is not their own any more: it was removed, or another worker has it. Their
// writes for the job fail, but they go on to read from the source and to write to the target.
type strays struct{ *chronicle }

var straySubject = subject{
	invariants: []Invariant{
		{"S4b", "A run whose job was removed, or is another worker's, ends within some activity timeouts " +
			"and the time to stop."},
	},
	begin: func(c *chronicle) {
		s := &strays{c}
		c.on.ticked.add(func(world.Ticked) { s.check() })
	},
}

// strayLimit is how long a node may run a job that is not its own any more: until it looks through all that
// it owns, which may be repeated for as long as its heartbeats get through, and a run that stops slowly.
func (p *process) strayLimit() time.Duration {
	return 4*p.Settings().ActivityTimeout + p.Settings().StopTimeout + 2*time.Minute
}

// check begins to count anew while the run's node stands still or does not reach the store: it cannot learn
// of the loss.
func (s *strays) check() {
	now := s.w.Now()
	for _, r := range s.runs {
		switch {
		case s.holds(r), r.p.Disturbed():
			r.strayed = instant.Never
		case r.strayed == instant.Never:
			r.strayed = now
		case now.Sub(r.strayed) > r.p.strayLimit():
			s.Fail("S4b", "%s runs job %s for %s though it is not its own any more",
				r.p.Name, r.JobID(), now.Sub(r.strayed))
		}
	}
}
