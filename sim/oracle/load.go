package oracle

import (
	"couchrelay/core/instant"
	"couchrelay/sim/world"
)

// load bounds the events of the whole world. A machine in a busy loop, or two that wake each other for
// nothing, make events without end; no fault and no clock excuses that.
type load struct {
	*chronicle
	// now is the present instant, and inInstant the number of its events so far.
	now       instant.Time
	inInstant int
	// minute is the present minute of virtual time, and inMinute the number of its events so far.
	minute   instant.Time
	inMinute int
}

var loadSubject = subject{
	invariants: []Invariant{
		{"B1a", "No instant has more than 100,000 events: no machine is woken again and again with nothing " +
			"to do."},
		{"B1b", "No minute has more than 2,000 events for each job, and for ten more: nothing goes round " +
			"in circles."},
	},
	begin: func(c *chronicle) { c.on.stepped.add((&load{chronicle: c}).count) },
}

const (
	// maxInInstant bounds the events of one instant. A start of all nodes with all their jobs takes some
	// hundreds.
	maxInInstant = 100_000
	// maxPerJob bounds the events of a minute for each job. A busy run takes some hundreds.
	maxPerJob = 2_000
	// baseJobs is the number of jobs whose events are allowed to a world that has none.
	baseJobs = 10
)

// count is told of the end of every event. Jobs are those that ever were, or that the world begins with.
func (l *load) count(world.Stepped) {
	if now := l.w.Now(); now != l.now {
		l.now, l.inInstant = now, 0
	}
	if l.inInstant++; l.inInstant > maxInInstant {
		l.Fail("B1a", "%d events at one moment: something waits busily", l.inInstant)
	}
	if minute := l.thisMinute(); minute != l.minute {
		l.minute, l.inMinute = minute, 0
	}
	if l.inMinute++; l.inMinute > maxPerJob*(baseJobs+max(l.w.Config().Jobs, len(l.shadows))) {
		l.Fail("B1b", "%d events in one minute: something goes round in circles", l.inMinute)
	}
}
