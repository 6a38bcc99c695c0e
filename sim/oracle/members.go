package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
)

// members are the invariants of the news that nodes tell each other by their leases: others take jobs away,
// give way and share by that, and operators read it.
type members struct{ *chronicle }

var memberSubject = subject{
	invariants: []Invariant{
		{"L5a", "A node that changed while its join or heartbeat was in flight tells the others right " +
			"after the answer."},
		{"L5b", "A node is renamed only when another of its name started earlier, and then to its name as " +
			"a worker."},
		{"L5c", "What a node says of itself when it joins or sends a heartbeat is true at that moment."},
		{"L5d", "When all is quiet, the registry lists every node that lives, as it is, and no other."},
		{"L5g", "A node whose number of jobs is off by more than an eighth of what it told others tells them within " +
			"a second, unless they do not answer."},
		{"B1j", "A node that has nothing to tell but its number of jobs tells it about once in a second at most."},
		{"S4a", "A node that hears from its heartbeat that a job was taken from it looks at once which one."},
		{"S26a", "A heartbeat that failed is repeated within a second."},
	},
	begin: func(c *chronicle) {
		m := &members{c}
		c.on.nodeStepped.add(m.stepped)
		c.on.unsettled = append(c.on.unsettled, m.unsettled)
	},
}

// membership is the last news of a node to others, and of others to it.
type membership struct {
	asked   uint64       // id of the last attempt to join or to send a heartbeat; 0 before the first
	info    node.Info    // the news in that attempt
	at      instant.Time // when that attempt was made, by the node's steady clock
	told    bool         // that attempt has committed, and the node has heard of that
	again   bool         // that attempt repeated one that had failed
	beat    uint64       // id of the last attempt to send a heartbeat; 0 after a join
	failed  instant.Time // when that attempt failed; 0 while it has not
	calls   int64        // counter of the worker's calls when the node last listed its jobs; 0 after a join
	listing uint64       // id of the last attempt to list the jobs; 0 when it was answered, and after a join
}

// maxBeatPause is the longest time after which a heartbeat that failed is repeated: the lease hangs on it.
const maxBeatPause = time.Second

// stepped follows the requests and answers of a node.
func (m *members) stepped(s nodeStep) {
	p, known := s.p, &s.p.member
	done, answered := s.ev.(node.Done)
	if answered && done.ID == known.beat && done.Fault == node.StoreDown {
		known.failed = m.w.Now()
	}
	known.told = known.told || answered && done.ID == known.asked && done.Fault == node.Committed
	owes := answered && done.ID == known.asked && done.Fault == node.Committed && m.outdated(p)
	changes := m.changes(s)
	for _, e := range s.effects {
		ask, _ := e.(node.Ask)
		switch q := ask.Request.(type) {
		case node.ListOwned:
			known.listing = ask.ID
		case node.Join:
			*known, owes = membership{asked: ask.ID, info: q.Info, at: p.Steady()}, false
			if !changes {
				m.checkTold(p, q.Info)
			}
		case node.Beat:
			m.checkRepeated(p)
			m.checkRare(s, q.Info)
			known.again = known.failed > 0
			known.asked, known.beat, known.failed, known.info, owes = ask.ID, ask.ID, 0, q.Info, false
			known.at, known.told = p.Steady(), false
			m.checkTold(p, q.Info)
		}
	}
	if owes {
		m.Fail("L5a", "%s has told %+v, which is not true any more, and tells nothing else",
			p.Name, known.info)
	}
	if answered {
		m.checkCalled(p, done)
	}
	m.checkNumber(p)
}

// pauseOfNews is the time within which a change of the number of jobs is told, and until it may be told again.
const pauseOfNews = time.Second

// checkNumber demands that others learn of a number of jobs that is not about right any more. A node that drains
// is about to leave.
func (m *members) checkNumber(p *process) {
	known := &p.member
	differs := max(p.Running()-known.info.Running, known.info.Running-p.Running())
	late := known.told && p.Steady() > known.at.Add(pauseOfNews)
	if late && 8*differs > known.info.Running && !p.Draining() {
		m.Fail("L5g", "%s runs %d jobs, and has told others of %d", p.Name, p.Running(), known.info.Running)
	}
}

// checkRare demands that a heartbeat which tells nothing new, or only another number of jobs, does not come right
// after one that was answered at the first attempt. Short activity timeouts want heartbeats that often.
func (m *members) checkRare(s nodeStep, i node.Info) {
	known := &s.p.member
	same := known.info
	same.Running, same.Seen = i.Running, i.Seen
	usual := min(known.info.ActivityTimeout, i.ActivityTimeout) / 4 * 3 / 4
	pause := s.p.Steady().Sub(known.at)
	if known.told && !known.again && i == same && pause < min(pauseOfNews*3/4, usual) && !m.changes(s) {
		m.Fail("B1j", "%s sends a heartbeat %s after the last one, with nothing new but %d jobs, %d before",
			s.p.Name, pause, i.Running, known.info.Running)
	}
}

// changes reports whether a step changes the truth about the node. If it joins in that step too, it
// may have done so first: a lease that is over is dealt with before the event.
func (m *members) changes(s nodeStep) (changes bool) {
	switch s.ev.(type) {
	case node.Configure, node.Drain:
		changes = true
	}
	for _, e := range s.effects {
		if renamed, is := e.(node.Rename); is {
			changes = true
			m.checkRenamed(s.p, renamed.Name)
		}
	}
	return changes
}

// checkRepeated demands that a heartbeat comes soon after one that failed, unless the node stood still since.
func (m *members) checkRepeated(p *process) {
	failed := p.member.failed
	if late := m.w.Now().Sub(failed); failed > p.PausedLast() && late > maxBeatPause {
		m.Fail("S26a", "%s sends its next heartbeat %s after one that failed", p.Name, late)
	}
}

// checkCalled demands that a node whose heartbeat tells of more calls than it knows lists its jobs: the watch
// that should have told it may be lost. It is called after the effects of the step are known. A node that
// joins in the same step, or sends another heartbeat, has other numbers to go by, and one that drains stops
// its runs anyway.
func (m *members) checkCalled(p *process, done node.Done) {
	known := &p.member
	switch got := done.Result.(type) {
	case node.Owned:
		if done.ID == known.listing {
			known.calls, known.listing = got.Calls, 0
		}
	case node.Beaten:
		isLast := done.ID == known.beat && done.Fault == node.Committed
		if isLast && got.Calls != known.calls && known.listing == 0 && !p.Draining() {
			m.Fail("S4a", "%s hears that it was called %d times, and has listed its jobs after %d",
				p.Name, got.Calls, known.calls)
		}
	}
}

// checkRenamed demands that of two nodes with one name the younger goes on under its name as a worker. Starts
// are compared by the nodes' wall clocks, and by their names as workers if they are equal. A node may have
// started earlier in a life that is over: the registry knows of it until it is given up.
func (m *members) checkRenamed(p *process, name string) {
	if name != p.Worker() {
		m.Fail("L5b", "%s of %s is called %s from now on", p.Worker(), p.Title(), name)
	}
	own := p.born[len(p.born)-1]
	earlier := func(b birth) bool { return b.at < own.at || b.at == own.at && b.worker < own.worker }
	if !slices.ContainsFunc(m.nodes, func(q *process) bool {
		return q != p && q.Title() == p.Title() && slices.ContainsFunc(q.born, earlier)
	}) {
		m.Fail("L5b", "%s is called %s no more, and no node of that name started before",
			p.Worker(), p.Title())
	}
}

// outdated reports whether the last news of a node is not true any more. How many jobs it runs may wait for
// its next heartbeat, and a node that drains is about to leave.
func (m *members) outdated(p *process) bool {
	told := p.member.info
	now := m.truth(p, told)
	now.Running, now.Seen = told.Running, told.Seen
	return !p.Draining() && now != told
}

// checkTold demands that a node tells the present, also when it repeats an attempt that was to tell the past.
func (m *members) checkTold(p *process, i node.Info) {
	if want := m.truth(p, i); i != want {
		m.Fail("L5c", "%s says of itself %+v, and is %+v", p.Name, i, want)
	}
}

// truth is the news that a node has to tell now, but for its start, which it knows best.
func (m *members) truth(p *process, i node.Info) node.Info {
	want := node.Info{
		Name: p.called, Roles: p.Roles(), Status: node.Up, Running: p.Running(),
		ActivityTimeout: p.applied.ActivityTimeout, Started: i.Started, Seen: p.Clock().Wall,
		Indexes: true, // which all releases are that play here
	}
	switch {
	case p.Draining():
		want.Status = node.Draining
	case p.applied.Maintenance:
		want.Status = node.InMaintenance
	}
	if p.Roles().Has(node.Replication) {
		want.MaxJobs = p.applied.MaxJobs
	}
	return want
}

// unsettled compares the registry with the nodes that live and stay.
func (m *members) unsettled() *Violation {
	if why := m.registry(); why != "" {
		return &Violation{ID: "L5d", Text: why}
	}
	return nil
}

// registry is how the members that nodes see differ from the nodes that live; empty when they agree.
func (m *members) registry() string {
	members, err := node.Members(m.w.Present(), m.w.Store())
	if err != nil {
		return err.Error()
	}
	living, names := 0, map[string]string{}
	for _, p := range m.nodes {
		if !p.Alive() || p.Draining() {
			continue
		}
		living++
		isOwn := func(m node.Member) bool { return strings.HasPrefix(m.Worker, p.Worker()) }
		i := slices.IndexFunc(members, isOwn)
		if i < 0 {
			return fmt.Sprintf("%s lives and is no member", p.Name)
		}
		if other := names[p.called]; other != "" {
			return fmt.Sprintf("%s and %s are both called %s", other, p.Name, p.called)
		}
		names[p.called] = p.Name
		if info := members[i].Info; info.Name != p.called || info.Roles != p.Roles() ||
			info.Status != node.Up {
			return fmt.Sprintf("%s with roles %s is a member as %+v", p.Name, p.Roles(), info)
		}
	}
	if len(members) != living {
		return fmt.Sprintf("%d nodes live, and the members are %+v", living, members)
	}
	return ""
}
