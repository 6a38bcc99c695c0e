package oracle

import (
	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// idleAsks bounds how often a node asks its store and learns nothing new. A node looks around every few
// seconds, and a watch may end without a change; more comes from a busy loop, which would load the store of a
// quiet fleet.
type idleAsks struct{ *chronicle }

var idleAskSubject = subject{
	invariants: []Invariant{
		{"B1c", "A node asks its store no more than 200 times in a minute for what it knows already, and for each " +
			"job that another node made ready meanwhile once more."},
	},
	begin: func(c *chronicle) {
		i := &idleAsks{c}
		c.on.nodeUp.add(func(p *process) { p.knows = knowledge{awaits: map[node.Topic]node.Await{}} })
		c.on.awaits.add(func(f world.Awaits) { i.awaits(c.process(f.Node), f.Await) })
		c.on.answered.add(func(f world.Answered) { i.answered(c.process(f.Node), f.Result) })
	},
}

// maxIdleAsks bounds the asks of a node in one minute that tell it nothing new.
const maxIdleAsks = 200

// knowledge is a node's view of its store, and how often the node asked for it.
type knowledge struct {
	minute instant.Time // the present one
	idle   int          // asks in this minute that told nothing new
	late   int          // jobs that other nodes made ready in this minute: both wake when one is due
	// signal is the counter of ready jobs when there was none to take last; noSignal after an accept that
	// brought jobs.
	signal int64
	calls  int64                     // the counter of the worker's calls when it last listed its jobs
	awaits map[node.Topic]node.Await // its last waits
}

// noSignal is not a value of the counter: after an accept that brought jobs there may be more.
const noSignal = -1

// inMinute is what a node knows, with the counts of the present minute.
func (i *idleAsks) inMinute(p *process) *knowledge {
	k := &p.knows
	if minute := i.thisMinute(); minute != k.minute {
		k.minute, k.idle, k.late = minute, 0, 0
	}
	return k
}

// count counts an ask unless it told something new.
func (i *idleAsks) count(p *process, news bool) {
	k := i.inMinute(p)
	if news {
		return
	}
	if k.idle++; k.idle > maxIdleAsks+k.late {
		i.Fail("B1c", "%s asks its store %d times in one minute for what it knows", p.Name, k.idle)
	}
}

// awaits counts a wait for the change that the node waited for before.
func (i *idleAsks) awaits(p *process, a node.Await) {
	last, again := p.knows.awaits[a.Topic]
	p.knows.awaits[a.Topic] = a
	i.count(p, !again || a != last)
}

// answered counts an accept, a list of jobs or a promotion that found nothing and no counter changed.
func (i *idleAsks) answered(p *process, result node.Result) {
	switch got := result.(type) {
	case node.Accepted:
		i.count(p, len(got.Work) > 0 || got.Signal != p.knows.signal)
		if p.knows.signal = got.Signal; len(got.Work) > 0 {
			p.knows.signal = noSignal
		}
	case node.Owned:
		i.count(p, got.Calls != p.knows.calls)
		p.knows.calls = got.Calls
	case node.Promoted:
		i.count(p, got.Moved > 0)
		for _, other := range i.nodes {
			if other != p {
				i.inMinute(other).late += got.Moved
			}
		}
	}
}
