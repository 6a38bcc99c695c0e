package oracle

import (
	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// busyLoops bounds what nodes ask their store for nothing.
type busyLoops struct{ *chronicle }

var busyLoopSubject = subject{
	begin: func(c *chronicle) {
		o := &busyLoops{c}
		c.on.nodeUp.add(func(p *process) { p.vain = vain{awaits: map[node.Topic]node.Await{}} })
		c.on.awaits.add(func(f world.Awaits) { o.awaits(c.process(f.Node), f.Await) })
		c.on.answered.add(func(f world.Answered) { o.looked(c.process(f.Node), f.Result) })
	},
}

// maxVain bounds the transactions of a node in one minute that find what it knew: it looks around every few seconds,
// and watches may end without a change.
const maxVain = 200

// vain counts them.
type vain struct {
	minute  instant.Time
	n       int
	signals int64 // when no job was there to take last
	calls   int64 // when it looked at its jobs last
	awaits  map[node.Topic]node.Await
}

// checkVain is a part of B1: a node asks its store little while there is nothing to hear.
func (o *busyLoops) checkVain(p *process, found bool) {
	v := &p.vain
	if minute := o.thisMinute(); minute != v.minute {
		v.minute, v.n = minute, 0
	}
	if found {
		return
	}
	if v.n++; v.n > maxVain {
		o.Fail("B1", "%s asks its store %d times in one minute for what it knows", p.Name, v.n)
	}
}

// awaits notes that a node waits for a change.
func (o *busyLoops) awaits(p *process, a node.Await) {
	last, again := p.vain.awaits[a.Topic]
	p.vain.awaits[a.Topic] = a
	o.checkVain(p, !again || a != last)
}

// looked notes what a node found when it looked around.
func (o *busyLoops) looked(p *process, result node.Result) {
	switch got := result.(type) {
	case node.Accepted:
		found := len(got.Work) > 0
		o.checkVain(p, found || got.Signal != p.vain.signals)
		if p.vain.signals = got.Signal; found {
			p.vain.signals = -1 // there may be more
		}
	case node.Owned:
		o.checkVain(p, got.Calls != p.vain.calls)
		p.vain.calls = got.Calls
	case node.Promoted:
		o.checkVain(p, got.Moved > 0)
	}
}
