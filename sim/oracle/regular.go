package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
)

// looking are the invariants of what a node does regularly.
type looking struct{ *chronicle }

var lookingSubject = subject{
	invariants: []Invariant{{"L4", "No job that is due stays in the queue."}},
	begin: func(c *chronicle) {
		c.on.nodeStepped.add((&looking{c}).regularStepped)
	},
}

// What a node looks for regularly.
const (
	looksForOthers = iota
	looksForDue
	looksForJobs
	looksAtOwn
	looksToSweep
	looksAtQueue
	joins
	resumes
	looks
)

// looked is what for, and everything all of them.
var (
	looked     = [joins]string{"other nodes", "due jobs", "ready jobs", "its own jobs", "what is to be swept up", "who waits"}
	everything = []int{looksForOthers, looksForDue, looksForJobs, looksAtOwn, looksToSweep, looksAtQueue}
)

// lookOf is which of these a request is, if it is one.
func lookOf(q node.Request) (int, bool) {
	switch q.(type) {
	case node.ListLeases:
		return looksForOthers, true
	case node.Promote:
		return looksForDue, true
	case node.Accept:
		return looksForJobs, true
	case node.ListOwned:
		return looksAtOwn, true
	case node.Sweep:
		return looksToSweep, true
	case node.Survey:
		return looksAtQueue, true
	case node.Join:
		return joins, true
	case node.Resume:
		return resumes, true
	}
	return 0, false
}

// sweepInterval is how often a node looks for what deleted databases and finished requests leave behind.
const sweepInterval = time.Minute

// look is when a node looked last, by its steady clock.
type look struct {
	id    uint64        // of the request under way, or to be repeated; 0 when there is none
	last  instant.Time  // when it was answered, or when there was a reason not to look
	every time.Duration // by the present settings
	floor instant.Time  // when it was planned for at the latest by settings before
	due   instant.Time  // when there will be something to find, 0 when nobody knows
	asked instant.Time  // when the request under way was sent
}

// interval is how often a node should look.
func interval(look int, s node.Settings) time.Duration {
	switch look {
	case looksForOthers:
		return s.ActivityTimeout / 4
	case looksAtOwn:
		return s.ActivityTimeout
	case looksToSweep:
		return sweepInterval
	case looksAtQueue:
		return s.Interval
	}
	return s.PollInterval
}

// regularStepped is a part of L4: a node looks regularly for what it may not have heard of, and for jobs when they are due.
func (o *looking) regularStepped(s nodeStep) {
	p, ev, effects := s.p, s.ev, s.effects
	now := p.Steady()
	for i := range p.looks {
		if l, every := &p.looks[i], interval(i, p.applied.Settings); l.every != every {
			l.floor = max(l.floor, now.Add(l.every))
			l.every = every
		}
	}
	if p.Draining() || p.PausedLast() != p.stood {
		p.rest(now, everything...)
		p.stood = p.PausedLast()
	}
	if done, is := ev.(node.Done); is {
		for i := range p.looks {
			if l := &p.looks[i]; l.id == done.ID && done.Fault == node.NoFault {
				l.id, l.last, l.due = 0, now, 0
				if i == joins {
					p.rest(now, looksAtOwn, looksForJobs, looksAtQueue)
				}
			}
		}
		if got, is := done.Result.(node.Promoted); is {
			o.checkNext(p, got)
			if got.Next != instant.Never {
				p.looks[looksForDue].due = now.Add(max(0, got.Next.Sub(p.Clock().Wall)))
			}
		}
	}
	for _, e := range effects {
		ask, is := e.(node.Ask)
		if !is {
			continue
		}
		i, is := lookOf(ask.Request)
		if !is {
			continue
		}
		if i == joins { // what was asked under the lease before is not repeated; a look at the queue is
			for _, ended := range []int{looksAtOwn, looksForJobs, resumes} {
				p.looks[ended].id = 0
			}
			p.rest(now, everything...)
		}
		if q, is := ask.Request.(node.Accept); is && p.looks[i].id == 0 && q.Node != p.called {
			o.Fail("L5", "%s is called %s, and takes jobs as %s", p.Name, p.called, q.Node)
		}
		p.looks[i].id, p.looks[i].asked = ask.ID, o.w.Now()
	}
	o.checkFreed(p)
	o.checkLooks(p, now)
}

// checkNext is a part of L4: who has made due jobs ready is told when the next one is due.
func (o *looking) checkNext(p *process, got node.Promoted) {
	if got.Moved > 0 {
		return // there may be more
	}
	for id, s := range o.shadows { // in any order: one is enough
		if s.header != nil && s.header.State == jobs.Pending && s.header.Due > 0 && s.at < p.looks[looksForDue].asked.Add(-5*time.Second) && got.Next > s.header.Due {
			o.Fail("L4", "%s is told that the next job is due at %s, and %s is at %s", p.Name, got.Next, id, s.header.Due)
		}
	}
}

// checkFreed is a part of L4: a slot that has become free is filled at once.
func (o *looking) checkFreed(p *process) {
	now, before := p.Running(), p.ran
	p.ran = now
	if now < before && now < p.MaxJobs() && p.Roles().Has(node.Replication) && !p.applied.Maintenance && !p.Draining() &&
		p.looks[looksForJobs].id == 0 && p.looks[joins].id == 0 && p.looks[resumes].id == 0 {
		o.Fail("L4", "%s runs %d jobs of %d, one less than before, and asks for none", p.Name, now, p.MaxJobs())
	}
}

// rest forgives a process what it has not looked for yet.
func (p *process) rest(now instant.Time, which ...int) {
	for _, i := range which {
		p.looks[i].last, p.looks[i].due = now, 0
	}
}

// checkLooks is called when the looks of a step are known. Only workers with a lease look for jobs, and only those with free
// slots.
func (o *looking) checkLooks(p *process, now instant.Time) {
	if p.looks[joins].id != 0 {
		p.rest(now, looksAtOwn, looksForJobs, looksAtQueue)
	}
	if !p.Roles().Has(node.Replication) || p.applied.Maintenance {
		p.rest(now, looksForJobs, looksAtQueue)
	}
	if p.Running() >= p.MaxJobs() {
		p.rest(now, looksForJobs)
	}
	for i, l := range p.looks[:joins] {
		due := max(l.floor, l.last.Add(l.every))
		if l.due != 0 {
			due = min(due, max(l.due, l.last))
		}
		if l.id == 0 && now > due.Add(time.Second) {
			o.Fail("L4", "%s has not looked for %s since %s, and should have at %s", p.Name, looked[i], l.last, due)
		}
	}
}
