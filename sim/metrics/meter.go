package metrics

import (
	"fmt"
	"math"
	"slices"
	"time"

	"couchrelay/core/schedule"
	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

// Options say what is measured.
type Options struct {
	Duration time.Duration // of the run, above 0; later events are not looked at
	WarmUp   time.Duration // is dropped; 0 or more, below Duration
	// Cycle is how often lags are looked at; one minute when it is 0. With more than 100 accounts they are
	// looked at every second cycle, with more than 200 every third, and so on.
	Cycle time.Duration
	// Window is that of the series; ten minutes when it is 0.
	Window time.Duration
	Series bool // whether the result has series
	// Gantt is how many jobs the result has the spans of, taken evenly from all.
	Gantt int
}

// Meter computes the metrics of one run. It is an observer of package lab.
type Meter struct {
	w     *workload.Workload
	o     Options
	now   time.Duration
	jobs  []job
	accts []account
	due   *entitlement

	slots     []int // by node
	capacity  int   // all slots
	running   int
	waiting   int
	totals    totals
	turns     turns
	clocks    []clock       // none before the end of the warm-up
	next      time.Duration // when the first clock rings, or the warm-up ends
	windows   [len(windowLengths)]window
	upsets    upsets
	sampler   *sampler
	gantt     gantt
	result    *Result
	beginning time.Duration // of what is measured
}

// job is what the meter keeps of one.
type job struct {
	since  time.Duration // when its state began
	at     time.Duration // up to which its changes are followed
	ready  time.Duration // when its run has started up
	copied float64       // its position
	base   float64       // its position when its run began
	turn   uint32        // see turns
	state  State
	known  uint8 // the flags below
}

// Flags of a job.
const (
	hasRun      = 1 << iota
	hasProgress // a run got past its start-up
	hasCompleted
)

// State is what a job does.
type State uint8

// States.
const (
	absent State = iota // not submitted yet
	Waiting
	Running
	Backoff
	over
)

// account is what the meter keeps of one.
type account struct {
	shares   int64
	demand   int64 // jobs that wait or run
	running  int64
	at       float64 // seconds; up to which received counts
	received float64 // slot-seconds
	tally
}

// totals are sums over all accounts.
type totals struct {
	capacity float64 // slot-seconds that there were
	used     float64 // slot-seconds in which jobs ran
	idle     float64 // slot-seconds in which a slot was free while a job waited
}

// clock rings regularly.
type clock struct {
	every, at time.Duration
	ring      func()
}

// New makes a meter for a run of a workload, which must not change meanwhile.
func New(w *workload.Workload, o Options) (*Meter, error) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"WarmUp", o.WarmUp}, {"Cycle", o.Cycle}, {"Window", o.Window}, {"Gantt", time.Duration(o.Gantt)}} {
		if d.value < 0 {
			return nil, fmt.Errorf("metrics: %s is %d; it must be 0 or more", d.name, d.value)
		}
	}
	if o.Duration <= o.WarmUp {
		return nil, fmt.Errorf("metrics: Duration is %v; it must be above WarmUp, which is %v", o.Duration, o.WarmUp)
	}
	if o.Cycle == 0 {
		o.Cycle = time.Minute
	}
	if o.Window == 0 {
		o.Window = 10 * time.Minute
	}
	m := &Meter{w: w, o: o, jobs: make([]job, len(w.Jobs)), accts: make([]account, len(w.Accounts))}
	shares := make([]int64, len(w.Accounts))
	for a := range w.Accounts {
		shares[a] = w.Accounts[a].Shares
		m.accts[a].shares = shares[a]
	}
	m.due = newEntitlement(shares)
	m.gantt = newGantt(len(w.Jobs), o.Gantt)
	m.next = o.WarmUp
	return m, nil
}

// begin begins to measure: all sums are 0 from now on.
func (m *Meter) begin() {
	m.settle()
	m.beginning = m.now
	m.totals = totals{}
	for a := range m.accts {
		m.accts[a].tally = tally{}
		m.accts[a].received = 0
		m.due.cups[a].total = 0
	}
	m.turns = turns{epoch: m.turns.epoch}
	m.turns.begin(m.now, m.waiting)
	m.gantt.begin(m.now)
	cycles := time.Duration(len(m.accts)-1)/100 + 1
	m.upsets = newUpsets(m.now, m.o.Cycle*cycles, m.w.Outages)
	m.clock(m.upsets.every, m.lookAtLags)
	for i, length := range windowLengths {
		m.windows[i] = window{start: make([]service, len(m.accts)), got: make([]service, len(m.accts))}
		m.clock(length, func() { m.close(i) })
	}
	if m.o.Series {
		m.sampler = newSampler(m)
		m.clock(m.o.Window, m.sample)
	}
}

func (m *Meter) clock(every time.Duration, ring func()) {
	m.clocks = append(m.clocks, clock{every: every, at: m.now + every, ring: ring})
}

// advance goes on to a time, and has all clocks ring until then, also those that ring right at it.
func (m *Meter) advance(to time.Duration) {
	for m.next <= to {
		m.pass(m.next)
		if m.clocks == nil {
			m.begin()
		}
		m.next = math.MaxInt64
		for i := range m.clocks {
			c := &m.clocks[i]
			if c.at == m.now {
				c.at += c.every
				c.ring()
			}
			m.next = min(m.next, c.at)
		}
	}
	m.pass(to)
}

// pass lets time pass in which nothing happens.
func (m *Meter) pass(to time.Duration) {
	if to <= m.now {
		return
	}
	dt := (to - m.now).Seconds()
	m.totals.capacity += float64(m.capacity) * dt
	m.totals.used += float64(m.running) * dt
	m.totals.idle += float64(min(max(m.capacity-m.running, 0), m.waiting)) * dt
	m.due.advance(to.Seconds())
	m.now = to
}

// settle brings all accounts and jobs up to now.
func (m *Meter) settle() {
	m.settleAccounts()
	for j := range m.jobs {
		m.follow(j)
	}
}

func (m *Meter) settleAccounts() {
	for a := range m.accts {
		m.settled(a)
	}
}

// settled returns an account up to now.
func (m *Meter) settled(a int) *account {
	acct := &m.accts[a]
	now := m.now.Seconds()
	acct.received += float64(acct.running) * (now - acct.at)
	acct.at = now
	m.due.settled(a)
	return acct
}

// lag of an account that is settled.
func (m *Meter) lag(a int) float64 { return m.due.cups[a].total - m.accts[a].received }

// Observe is told of an event.
func (m *Meter) Observe(e lab.Event) {
	if m.result != nil || e.At > m.o.Duration {
		return
	}
	if e.At < m.now {
		panic(fmt.Sprintf("metrics: an event of %v comes after one of %v", e.At, m.now))
	}
	m.advance(e.At)
	switch e.What {
	case lab.NodeUp:
		m.resize(e.Node, e.Slots)
	case lab.NodeDown:
		m.resize(e.Node, 0)
		m.upsets.add(m.now)
	case lab.SharesSet:
		m.accts[e.Account].shares = min(max(e.Shares, schedule.MinShares), schedule.MaxShares)
		m.change(e.Account, 0, 0)
	default:
		m.observeJob(e)
	}
}

// resize sets the slots of a node.
func (m *Meter) resize(node, slots int) {
	if node >= len(m.slots) {
		m.slots = append(m.slots, slices.Repeat([]int{0}, node+1-len(m.slots))...)
	}
	m.capacity += slots - m.slots[node]
	m.slots[node] = slots
}

// change adds to the jobs of an account that want a slot, and that have one.
func (m *Meter) change(a int, demand, run int64) {
	acct := m.settled(a)
	acct.demand += demand
	acct.running += run
	m.running += int(run)
	m.waiting += int(demand - run)
	m.due.set(a, acct.demand, acct.shares, int64(m.running))
}
