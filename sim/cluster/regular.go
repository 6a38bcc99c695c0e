package cluster

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
)

// What a node looks for regularly.
const (
	looksForOthers = iota
	looksForDue
	looksForJobs
	looksAtOwn
	looksToSweep
	joins
	looks
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
	case node.Join:
		return joins, true
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
	}
	return s.PollInterval
}

// regularStepped is a part of L4: a node looks regularly for what it may not have heard of, and for jobs when they are due.
func (o *oracle) regularStepped(p *process, ev node.Event, effects []node.Effect) {
	now := p.steady()
	for i := range p.looks {
		if l, every := &p.looks[i], interval(i, p.member.applied); l.every != every {
			l.every, l.floor = every, max(l.floor, now.Add(l.every))
		}
	}
	if p.draining || p.pausedLast != p.stood {
		p.rest(now)
		p.stood = p.pausedLast
	}
	if done, is := ev.(node.Done); is {
		for i := range p.looks {
			if l := &p.looks[i]; l.id == done.ID && done.Fault == node.NoFault {
				l.id, l.last, l.due = 0, now, 0
				if i == joins {
					p.looks[looksAtOwn].last, p.looks[looksForJobs].last = now, now
				}
			}
		}
		if got, is := done.Result.(node.Promoted); is && got.Next != instant.Never {
			p.looks[looksForDue].due = now.Add(max(0, got.Next.Sub(p.clock().Wall)))
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
		if i == joins { // under a new name
			p.looks[looksAtOwn].id, p.looks[looksForJobs].id = 0, 0
			p.rest(now)
		}
		p.looks[i].id = ask.ID
	}
	o.checkLooks(p, now)
}

// rest forgives a process what it has not looked for yet.
func (p *process) rest(now instant.Time) {
	for i := range p.looks {
		p.looks[i].last, p.looks[i].due = now, 0
	}
}

func (o *oracle) checkLooks(p *process, now instant.Time) {
	if p.looks[joins].id != 0 {
		p.looks[looksAtOwn].last, p.looks[looksForJobs].last = now, now
	}
	if p.node.Running() >= p.node.MaxJobs() || !p.roles.Has(node.Replication) || p.member.applied.Maintenance {
		p.looks[looksForJobs].last = now
	}
	for i, l := range p.looks[:joins] {
		due := max(l.floor, l.last.Add(l.every))
		if l.due != 0 {
			due = min(due, max(l.due, l.last))
		}
		if l.id == 0 && now > due.Add(time.Second) {
			o.w.fail("L4", "%s has not looked for %s since %s, and should have at %s", p.Name, []string{"other nodes", "due jobs", "ready jobs", "its own jobs", "what is to be swept up"}[i], l.last, due)
		}
	}
}
