package oracle

import (
	"couchrelay/core/instant"
	"couchrelay/sim/world"
)

// load bounds the events of the whole world.
type load struct {
	*chronicle
	// moment is the present instant, and busy the number of events in it.
	moment instant.Time
	busy   int
	// minute is the present one, and hectic the number of events in it.
	minute instant.Time
	hectic int
}

var loadSubject = subject{
	invariants: []Invariant{{"B1", "Nothing waits busily."}},
	begin:      func(c *chronicle) { c.on.stepped.add((&load{chronicle: c}).step) },
}

// maxBusy bounds the events of one instant: more come only from a machine that is woken and has nothing to
// do.
const maxBusy = 100_000

// maxHectic bounds the events of a minute for each job that there is, or was at the beginning: there are some hundreds.
const maxHectic = 2_000

// step is called after every event.
func (o *load) step(world.Stepped) {
	if now := o.w.Now(); now != o.moment {
		o.moment, o.busy = now, 0
	}
	if o.busy++; o.busy > maxBusy {
		o.Fail("B1", "%d events at one moment: something waits busily", o.busy)
	}
	if minute := o.thisMinute(); minute != o.minute {
		o.minute, o.hectic = minute, 0
	}
	if o.hectic++; o.hectic > maxHectic*(10+max(o.w.Config().Jobs, len(o.shadows))) {
		o.Fail("B1", "%d events in one minute: something goes round in circles", o.hectic)
	}
}
