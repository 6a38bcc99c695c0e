package oracle

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// duties are the invariants of how a node finds its work. Watches and signals tell it most, but may
// be lost, so that it also asks its store regularly.
type duties struct{ *chronicle }

var dutySubject = subject{
	invariants: []Invariant{
		{"L4a", "A node that left something to sweep up goes on within two seconds."},
		{"L4b", "A node that has made due jobs ready is told when the next one is due, and not later."},
		{"L4c", "A node with a slot that has become free asks for jobs at once, unless it found none and waits to " +
			"be told of some."},
		{"L4d", "A node looks once in an interval at other workers, due, ready and own jobs, what to sweep " +
			"up, and the queue."},
		{"L4j", "A node that sweeps leaves the store to others for as long as the last sweep took, up to a second."},
		{"L5f", "A node takes jobs under the name that it goes by."},
		{"L6c", "A node that waits for a change waits for one of the value that it has seen, and not for " +
			"the one after."},
	},
	begin: func(c *chronicle) {
		d := &duties{c}
		c.on.nodeStepped.add(d.stepped)
		c.on.armed.add(d.checkArmed)
	},
}

// duty is a kind of request that a node has to send.
type duty int

const (
	watchOthers duty = iota
	promoteDue
	acceptReady
	listOwn
	sweepUp
	surveyQueue
	// regular is the number of duties above, which come up once in an interval. Some of them wait for those
	// below.
	regular
	join   = regular
	resume = regular + 1
	// allDuties is the number of duties.
	allDuties = regular + 2
)

// dutyWords name the objects that regular duties look at.
var dutyWords = [regular]string{
	"other nodes", "due jobs", "ready jobs", "its own jobs", "rows to be swept up", "waiting jobs",
}

// everything is all regular duties, and ofWorker the duties that only a worker with a lease has.
var (
	everything = []duty{watchOthers, promoteDue, acceptReady, listOwn, sweepUp, surveyQueue}
	ofWorker   = []duty{acceptReady, listOwn, surveyQueue}
)

// dutyOf is the duty that a request carries out; is is false if it carries out none.
func dutyOf(q node.Request) (d duty, is bool) {
	switch q.(type) {
	case node.ListLeases:
		return watchOthers, true
	case node.Promote:
		return promoteDue, true
	case node.Accept:
		return acceptReady, true
	case node.ListOwned:
		return listOwn, true
	case node.Sweep:
		return sweepUp, true
	case node.Survey:
		return surveyQueue, true
	case node.Join:
		return join, true
	case node.Resume:
		return resume, true
	}
	return 0, false
}

// sweepInterval is how often a node looks for the remains of deleted databases and finished requests.
const sweepInterval = time.Minute

// interval is how often a regular duty comes up.
func (d duty) interval(s node.Settings) time.Duration {
	switch d {
	case watchOthers:
		return s.ActivityTimeout / 4
	case listOwn:
		return s.ActivityTimeout
	case sweepUp:
		return sweepInterval
	case surveyQueue:
		return s.Interval
	}
	return s.PollInterval
}

// carriedOut is how a node carried out a duty. Moments are of its steady clock unless something else is said.
type carriedOut struct {
	id    uint64        // of the request under way, or to be repeated; 0 when there is none
	asked instant.Time  // when the last attempt was sent, by the world's clock
	last  instant.Time  // when a request was answered last, or when there last was a reason not to send one
	every time.Duration // the interval by the present settings
	// floor is until when the node may wait since its settings changed: it planned by those before.
	floor instant.Time
	// due is when the node knows that there will be something to do; 0 when it knows of nothing.
	due instant.Time
}

// dutyGrace is how late a node may be for its duty.
const dutyGrace = time.Second

// stepped follows the requests and answers of a node.
func (d *duties) stepped(s nodeStep) {
	p, now := s.p, s.p.Steady()
	p.plan(now)
	if p.Draining() || p.PausedLast() != p.stood {
		p.excuse(now, everything...)
		p.stood = p.PausedLast()
	}
	done, is := s.ev.(node.Done)
	if swept, sweeps := done.Result.(node.Progressed); sweeps && done.ID == p.duties[sweepUp].id && !swept.Done {
		p.lull = lull{now.Add(min(now.Sub(p.sweptAt), maxRest)), now.Add(maxRest + dutyGrace)}
	}
	if is {
		d.answered(p, done, now)
	}
	if told, is := s.ev.(node.Notified); is && told.Topic == node.ReadyJobs {
		p.waits = false
	}
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.Ask:
			d.asked(p, e, now)
			if _, is := e.Request.(node.Sweep); is {
				d.checkRest(p, now)
			}
		case node.Await:
			p.waits = p.waits || e.Topic == node.ReadyJobs
		}
	}
	if p.lull.last > 0 && now > p.lull.last && !p.Draining() {
		d.Fail("L4a", "%s has more to sweep up, and leaves it for later", p.Name)
	}
	d.checkFreed(p)
	d.checkLate(p, now)
}

// lull is when a node may sweep again, by its steady clock, and the last moment to do so; 0 when it left nothing.
type lull struct{ over, last instant.Time }

// maxRest is the longest pause between two sweeps, of which the first left something.
const maxRest = time.Second

// checkRest is called for each attempt of a sweep.
func (d *duties) checkRest(p *process, now instant.Time) {
	if now < p.lull.over {
		d.Fail("L4j", "%s sweeps again at %s, and should have rested until %s", p.Name, now, p.lull.over)
	}
	p.sweptAt, p.lull = now, lull{}
}

// plan takes note of settings that change an interval.
func (p *process) plan(now instant.Time) {
	for i := range regular {
		if c, every := &p.duties[i], i.interval(p.applied.Settings); c.every != every {
			c.floor = max(c.floor, now.Add(c.every))
			c.every = every
		}
	}
}

// excuse has duties begin anew: a question that the node has not asked until now is forgiven.
func (p *process) excuse(now instant.Time, which ...duty) {
	for _, i := range which {
		p.duties[i].last, p.duties[i].due = now, 0
		if i == sweepUp && p.lull.last > 0 {
			p.lull.last = now.Add(maxRest + dutyGrace)
		}
	}
}

// answered notes the answer to a request. One that failed is repeated by the node, which is not late until
// then.
func (d *duties) answered(p *process, done node.Done, now instant.Time) {
	for i := range allDuties {
		if c := &p.duties[i]; c.id == done.ID && done.Fault == node.Committed {
			c.id, c.last, c.due = 0, now, 0
			if i == join {
				p.excuse(now, ofWorker...)
			}
		}
	}
	if got, is := done.Result.(node.Promoted); is {
		d.checkNext(p, got)
		if got.Next != instant.Never {
			p.duties[promoteDue].due = now.Add(max(0, got.Next.Sub(p.Clock().Wall)))
		}
	}
}

// asked notes a request. A node that joins has dropped requests that have no meaning without the lease that
// it lost. A survey of the queue is not dropped: it is repeated under the new lease when it fails.
func (d *duties) asked(p *process, ask node.Ask, now instant.Time) {
	i, is := dutyOf(ask.Request)
	if !is {
		return
	}
	if i == join {
		for _, dropped := range []duty{listOwn, acceptReady, resume} {
			p.duties[dropped].id = 0
		}
		p.excuse(now, everything...)
	}
	if q, is := ask.Request.(node.Accept); is && p.duties[i].id == 0 && q.Node != p.called {
		d.Fail("L5f", "%s is called %s, and takes jobs as %s", p.Name, p.called, q.Node)
	}
	if q, is := ask.Request.(node.Promote); is {
		p.unread = q.Without
	}
	p.duties[i].id, p.duties[i].asked = ask.ID, d.w.Now()
}

// readAge is the longest age of the state that a transaction reads.
const readAge = 5 * time.Second

// checkNext demands that no job is due earlier than the node is told. It may not know of jobs that changed
// since it began to read, and when it has made some ready it asks again.
func (d *duties) checkNext(p *process, got node.Promoted) {
	if got.Moved > 0 {
		return
	}
	read := p.duties[promoteDue].asked.Add(-readAge)
	for id, s := range d.shadows { // in any order: one is enough
		waits := s.header != nil && s.header.State == jobs.Pending && s.header.Due > 0 && s.header.Lot == ""
		if waits && s.at < read && got.Next > s.header.Due && !slices.Contains(p.unread, id) {
			d.Fail("L4b", "%s is told that the next job is due at %s, and %s is at %s",
				p.Name, got.Next, id, s.header.Due)
		}
	}
}

// checkFreed demands that a node which runs fewer jobs than after its last step asks for others, unless it
// takes none, has asked already for jobs, for a job that it turned out to hold, or for a lease, or waits for
// jobs to become ready.
func (d *duties) checkFreed(p *process) {
	now, before := p.Running(), p.ran
	p.ran = now
	takes := p.Roles().Has(node.Replication) && !p.applied.Maintenance && !p.Draining()
	asks := p.duties[acceptReady].id != 0 || p.duties[join].id != 0 || p.duties[resume].id != 0
	if now < before && now < p.MaxJobs() && takes && !asks && !p.waits {
		d.Fail("L4c", "%s runs %d jobs of %d, one less than before, and asks for none",
			p.Name, now, p.MaxJobs())
	}
}

// checkLate is called when all requests of a step are known. Only a worker with a lease asks for jobs, for
// those that it holds, and for the queue; only a node that takes jobs asks for them and for the queue; and
// only one with a free slot asks for jobs.
func (d *duties) checkLate(p *process, now instant.Time) {
	if p.duties[join].id != 0 {
		p.excuse(now, ofWorker...)
	}
	if !p.Roles().Has(node.Replication) || p.applied.Maintenance {
		p.excuse(now, acceptReady, surveyQueue)
	}
	if p.Running() >= p.MaxJobs() {
		p.excuse(now, acceptReady)
	}
	for i, c := range p.duties[:regular] {
		due := max(c.floor, c.last.Add(c.every))
		if c.due != 0 {
			due = min(due, max(c.due, c.last))
		}
		if c.id == 0 && now > due.Add(dutyGrace) {
			d.Fail("L4d", "%s has not looked for %s since %s, and should have at %s",
				p.Name, dutyWords[i], c.last, due)
		}
	}
}

// checkArmed demands that a watch begins at the value that the node has seen. One that begins at a later
// value would not tell of the change between them.
func (d *duties) checkArmed(f world.Armed) {
	if f.Is != f.Await.Seen {
		d.Fail("L6c", "%s waits for %s, and that is %d already", f.Node.Name, f.Await, f.Is)
	}
}
