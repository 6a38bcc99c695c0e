package oracle

import (
	"reflect"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
)

// spreading looks for events that happen in step. Nodes and runs that start together must not go on together
// for ever: their requests would hit the store and the servers in bursts.
type spreading struct{ *chronicle }

var spreadSubject = subject{
	invariants: []Invariant{
		{"S31a", "No run waits longer than startup_jitter before its first request."},
		{"S31b", "Of four or more runs that a node starts at once, not all send their first requests at " +
			"one moment."},
		{"S31c", "A node's heartbeats, looks at others and looks at the queue do not come at exactly " +
			"regular intervals."},
	},
	begin: func(c *chronicle) {
		s := &spreading{c}
		c.on.nodeUp.add(func(p *process) { p.paces = map[reflect.Type]pace{} })
		c.on.nodeStepped.add(s.stepped)
	},
}

// pace is how regularly something happens.
type pace struct {
	last  instant.Time
	gap   time.Duration // between the last two times
	alike int           // gaps in a row that were the same as the one before
}

// many is how many random choices in a row are hardly ever alike.
const many = 4

// stepped looks at the runs that a node starts and the requests that it sends in a step.
func (s *spreading) stepped(step nodeStep) {
	p := step.p
	var delays []time.Duration
	spread := false
	for _, e := range step.effects {
		switch e := e.(type) {
		case node.StartRun:
			if delays = append(delays, e.Delay); e.Delay > p.applied.StartupJitter {
				s.Fail("S31a", "run %d of %s waits %s before its first request; startup_jitter is %s",
					e.Run, p.Name, e.Delay, p.applied.StartupJitter)
			}
			spread = spread || e.Delay != delays[0]
		case node.Ask:
			switch e.Request.(type) {
			case node.Beat, node.ListLeases, node.Survey:
				s.checkPace(p, e.Request)
			}
		}
	}
	if len(delays) >= many && !spread {
		s.Fail("S31b", "%d runs of %s send their first requests together, after %s",
			len(delays), p.Name, delays[0])
	}
}

// checkPace demands that the time between requests of one kind differs. Nothing excuses a node: pauses and
// failed requests make intervals differ more.
func (s *spreading) checkPace(p *process, q node.Request) {
	kind, now := reflect.TypeOf(q), s.w.Now()
	before := p.paces[kind]
	after := pace{last: now, gap: now.Sub(before.last)}
	if after.gap == before.gap {
		after.alike = before.alike + 1
	}
	if p.paces[kind] = after; after.alike >= many {
		s.Fail("S31c", "%s sends %s every %s exactly", p.Name, q, after.gap)
	}
}
