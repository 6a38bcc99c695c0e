package oracle

import (
	"cmp"

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
			"job that was made ready meanwhile once more."},
		{"B1k", "Accepts that only park jobs park them by the dozen: no more than ten in a row park fewer than may " +
			"be taken at once, while no job becomes ready and none is left to other nodes."},
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

// maxFewParked bounds the accepts in a row that only park jobs, and few, while no job becomes ready. The first one does
// not know of any, and the last one finds no more; those between may meet long records.
const maxFewParked = 10

// knowledge is a node's view of its store, and how often the node asked for it.
type knowledge struct {
	minute instant.Time // the present one
	idle   int          // asks in this minute that told nothing new
	late   int          // jobs that were made ready in this minute: all nodes ask for each, and one takes it
	// signal is the counter of ready jobs when there was none to take last; noSignal after an accept that
	// brought jobs.
	signal int64
	parks  int                       // accepts in a row that parked a few jobs and took none
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
		more := got.Signal != p.knows.signal
		i.count(p, len(got.Work) > 0 || more)
		if p.knows.signal = got.Signal; len(got.Work) > 0 {
			p.knows.signal = noSignal
		}
		i.parked(p, got, more)
	case node.Owned:
		i.count(p, got.Calls != p.knows.calls)
		p.knows.calls = got.Calls
	case node.Promoted:
		i.count(p, got.Moved > 0)
		for _, each := range i.nodes {
			i.inMinute(each).late += got.Moved
		}
	}
}

// parked is B1k: of a million jobs under a hold that stand first in the queue, a node with one free slot would
// otherwise park one with each accept. Of those that an accept sees, some may be left to other nodes for a moment.
func (i *idleAsks) parked(p *process, got node.Accepted, more bool) {
	few := got.Parked > 0 && got.Parked < cmp.Or(p.Settings().MaxAcceptors, node.AcceptLimit)
	if !few || more || len(got.Work) > 0 || got.Left != "" {
		p.knows.parks = 0
		return
	}
	if p.knows.parks++; p.knows.parks > maxFewParked {
		i.Fail("B1k", "%s has parked no more than %d jobs with each of %d accepts", p.Name, got.Parked, p.knows.parks)
	}
}
