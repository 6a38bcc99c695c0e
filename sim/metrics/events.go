package metrics

import (
	"fmt"
	"time"

	"couchrelay/sim/lab"
)

// tally is what is counted of an account, or of all.
type tally struct {
	startup   float64 // slot-seconds in which runs started up
	copied    float64 // changes, also those that were lost
	lost      float64 // changes that were copied and not checkpointed
	starts    int
	rotations int
	completed int
	waiting   int     // jobs that wait at the end
	gap       float64 // seconds of the longest wait
	lagLeast  float64 // slot-seconds
	lagMost   float64
	errors    [len(windowLengths)]errors
	dists     [kinds]Distribution
}

// kind is what a Distribution is of.
type kind int

const (
	waitFirst kind = iota
	waitTurn
	runLength
	turnaround
	slowdown
	boundedSlowdown
	firstProgress
	freshness
	lagSize
	kinds
)

func (t *tally) note(k kind, x float64) { t.dists[k].add(x, 1) }

// boundedBelow is the least length of a run that bounded slowdown goes by, in seconds.
const boundedBelow = 60

// observeJob is told of an event of a job. Events that contradict each other are a mistake of their sender, which
// would make all numbers wrong.
func (m *Meter) observeJob(e lab.Event) {
	j := &m.jobs[e.Job]
	switch {
	case e.What == lab.Submitted && j.state == absent, e.What == lab.Ready && j.state == Backoff,
		e.What == lab.Ready && j.state == over && j.known&hasCompleted != 0: // which was not stored
		m.ready(e.Job)
	case e.What == lab.Ready && (j.state == Waiting || j.state == Running): // another node found its node dead
	case e.What == lab.Started && j.state == Waiting:
		m.started(e)
	case e.What == lab.Started && j.state == Backoff: // at the moment at which it gets ready
		m.ready(e.Job)
		m.started(e)
	case e.What == lab.Ended && j.state == Running:
		m.ended(e)
	case e.What == lab.Removed && j.state != Running:
		m.removed(e.Job)
	default:
		panic(fmt.Sprintf("metrics: event %d of job %d, which is in state %d, at %v", e.What, e.Job, j.state, e.At))
	}
}

func (m *Meter) enter(j int, s State, node int) {
	m.jobs[j].state, m.jobs[j].since = s, m.now
	ready := time.Duration(0)
	if s == Running {
		ready = m.jobs[j].ready
	}
	m.gantt.enter(j, s, node, m.now, ready)
}

// ready has a job wait that did not want a slot before.
func (m *Meter) ready(n int) {
	m.follow(n)
	m.enter(n, Waiting, -1)
	m.change(m.w.Jobs[n].Account, 1, 0)
	m.turns.entered(&m.jobs[n], m.now, m.waiting)
}

func (m *Meter) started(e lab.Event) {
	j, wj := &m.jobs[e.Job], &m.w.Jobs[e.Job]
	t := &m.accts[wj.Account].tally
	m.follow(e.Job)
	waited := (m.now - j.since).Seconds()
	if j.known&hasRun == 0 {
		t.note(waitFirst, waited)
	} else {
		t.note(waitTurn, waited)
	}
	t.gap = max(t.gap, waited)
	t.starts++
	j.known |= hasRun
	j.base = j.copied
	j.ready = m.now + e.Delay + wj.Startup
	m.enter(e.Job, Running, e.Node)
	m.change(wj.Account, 0, 1)
	m.turns.gone(j, m.now, m.waiting)
}

func (m *Meter) ended(e lab.Event) {
	j, wj := &m.jobs[e.Job], &m.w.Jobs[e.Job]
	t := &m.accts[wj.Account].tally
	m.follow(e.Job)
	t.note(runLength, (m.now - j.since).Seconds())
	switch off := j.copied - (j.base + e.Copied); e.Why {
	case lab.Killed, lab.Crashed, lab.Vanished:
		t.lost += max(off, 0)
	default:
		t.copied -= off
	}
	j.copied = j.base + e.Copied
	demand := int64(0)
	switch e.Why {
	case lab.GaveWay, lab.Killed:
		t.rotations++
		m.enter(e.Job, Waiting, -1)
	case lab.Vanished:
		m.enter(e.Job, Waiting, -1)
	case lab.Crashed:
		m.enter(e.Job, Backoff, -1)
		demand = -1
	case lab.Completed:
		if j.known&hasCompleted == 0 {
			j.known |= hasCompleted
			t.complete(m.now-wj.Submit, wj.Startup.Seconds()+wj.Backlog/wj.Speed)
		}
		fallthrough
	case lab.Taken:
		m.enter(e.Job, over, -1)
		demand = -1
	}
	m.change(wj.Account, demand, -1)
	if j.state == Waiting {
		m.turns.entered(j, m.now, m.waiting)
	}
}

// complete notes a one-shot that is over; alone and without failures it would have run for the seconds.
func (t *tally) complete(after time.Duration, alone float64) {
	t.completed++
	took := after.Seconds()
	t.note(turnaround, took)
	if alone > 0 {
		t.note(slowdown, took/alone)
	}
	t.note(boundedSlowdown, max(1, took/max(alone, boundedBelow)))
}

func (m *Meter) removed(n int) {
	j, a := &m.jobs[n], m.w.Jobs[n].Account
	m.follow(n)
	if j.state == Waiting {
		t := &m.accts[a].tally
		t.gap = max(t.gap, (m.now - j.since).Seconds())
		m.change(a, -1, 0)
		m.turns.gone(j, m.now, m.waiting)
	}
	m.enter(n, over, -1)
}

// follow brings what is known of the changes of a job up to now.
func (m *Meter) follow(n int) {
	j, wj := &m.jobs[n], &m.w.Jobs[n]
	from := j.at
	j.at = m.now
	if j.state == absent || j.state == over || from == m.now {
		return
	}
	t := &m.accts[wj.Account].tally
	begin := m.now // of copying
	if j.state == Running {
		begin = min(max(j.ready, from), m.now)
		t.startup += (begin - max(from, j.since)).Seconds()
		if m.now > j.ready && j.known&hasProgress == 0 {
			j.known |= hasProgress
			t.note(firstProgress, (j.ready - wj.Submit).Seconds())
		}
	}
	was := j.copied
	if f := (fluid{wj.Fluid()}); wj.Continuous {
		seconds := func(at time.Duration) float64 { return max(at-wj.Submit, 0).Seconds() }
		ages := &t.dists[freshness]
		f.wait(ages, j.copied, seconds(from), seconds(begin))
		j.copied = f.copy(ages, j.copied, seconds(begin), seconds(m.now))
	} else if begin < m.now {
		j.copied = min(f.Backlog, j.copied+f.Speed*(m.now-begin).Seconds())
	}
	t.copied += j.copied - was
}
