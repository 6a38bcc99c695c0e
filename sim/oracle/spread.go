package oracle

import (
	"reflect"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
)

// spreading is S31.
type spreading struct{ *chronicle }

var spreadSubject = subject{
	invariants: []Invariant{{"S31", "What many do at once, or one does regularly, is spread in time, so that they do not do it together."}},
	begin: func(c *chronicle) {
		c.on.nodeUp.add(func(p *process) { p.paces = map[reflect.Type]pace{} })
		c.on.nodeStepped.add((&spreading{c}).spreadStepped)
	},
}

// pace is how regularly something happens.
type pace struct {
	last  instant.Time
	gap   time.Duration // between the last two times
	alike int           // gaps in a row that were the same
}

// many is how many times in a row are alike by chance hardly ever.
const many = 4

// spreadStepped is S31: runs that start at once send their first requests at different moments, though not later than
// startup_jitter, and nodes that started together do not send heartbeats, look for others and at the queue in step.
func (o *spreading) spreadStepped(s nodeStep) {
	p, effects := s.p, s.effects
	var delays []time.Duration
	spread := false
	for _, e := range effects {
		switch e := e.(type) {
		case node.StartRun:
			if delays = append(delays, e.Delay); e.Delay > p.applied.StartupJitter {
				o.Fail("S31", "run %d of %s waits %s before its first request; startup_jitter is %s", e.Run, p.Name, e.Delay, p.applied.StartupJitter)
			}
			spread = spread || e.Delay != delays[0]
		case node.Ask:
			switch e.Request.(type) {
			case node.Beat, node.ListLeases, node.Survey:
				o.checkPaces(p, e.Request)
			}
		}
	}
	if len(delays) >= many && !spread {
		o.Fail("S31", "%d runs of %s send their first requests together, after %s", len(delays), p.Name, delays[0])
	}
}

func (o *spreading) checkPaces(p *process, q node.Request) {
	kind, now := reflect.TypeOf(q), o.w.Now()
	was := p.paces[kind]
	is := pace{last: now, gap: now.Sub(was.last)}
	if is.gap == was.gap {
		is.alike = was.alike + 1
	}
	if p.paces[kind] = is; is.alike >= many {
		o.Fail("S31", "%s sends %s every %s exactly", p.Name, q, is.gap)
	}
}
