package metrics

import (
	"maps"
	"slices"
	"time"
)

// Series are values for each window of Options.Window, one after the other; the last window may be missing when
// the run ends within it.
type Series struct {
	Ends        []time.Duration // of the windows
	Jain        []float64       // in the window; NaN when nothing ran
	Utilisation []float64       // in the window, %
	Starts      []float64       // in the window, per hour
	Waiting     []float64       // jobs that wait at the end
	Running     []float64       // jobs that run at the end
	Accounts    []AccountSeries
}

// AccountSeries are those of one account.
type AccountSeries struct {
	Share    []float64 // of the slots in use in the window, %; 0 when nothing ran
	Entitled []float64 // entitlement to the same, %
	Lag      []float64 // at the end, slot-seconds
	Waiting  []float64 // jobs that wait at the end
	Running  []float64 // jobs that run at the end
}

// sampler makes the series. It has what was true at the begin of the window.
type sampler struct {
	Series
	served []service
	got    []service
	totals totals
	starts int
}

func newSampler(m *Meter) *sampler {
	n := len(m.accts)
	return &sampler{
		Series: Series{Accounts: make([]AccountSeries, n)}, served: make([]service, n), got: make([]service, n),
	}
}

// sample closes a window of the series.
func (m *Meter) sample() {
	s := m.sampler
	var all service
	starts := 0
	for a := range m.accts {
		total := m.served(a)
		s.got[a] = total.minus(s.served[a])
		s.served[a] = total
		all.received += s.got[a].received
		all.entitled += s.got[a].entitled
		starts += m.accts[a].starts
	}
	for a := range m.accts {
		acct, to := &m.accts[a], &s.Accounts[a]
		to.Share = append(to.Share, percent(s.got[a].received, all.received))
		to.Entitled = append(to.Entitled, percent(s.got[a].entitled, all.entitled))
		to.Lag = append(to.Lag, m.lag(a))
		to.Waiting = append(to.Waiting, float64(acct.demand-acct.running))
		to.Running = append(to.Running, float64(acct.running))
	}
	s.Ends = append(s.Ends, m.now)
	s.Jain = append(s.Jain, jain(s.got))
	s.Utilisation = append(s.Utilisation, percent(m.totals.used-s.totals.used, m.totals.capacity-s.totals.capacity))
	s.Starts = append(s.Starts, float64(starts-s.starts)/m.o.Window.Hours())
	s.Waiting = append(s.Waiting, float64(m.waiting))
	s.Running = append(s.Running, float64(m.running))
	s.totals, s.starts = m.totals, starts
}

// percent is 0 of 0.
func percent(part, all float64) float64 {
	if all == 0 {
		return 0
	}
	return 100 * part / all
}

// Span is a time in which a job was in one state, on a node if it ran; for Gantt charts.
type Span struct {
	Job      int
	State    State
	Node     int // -1 unless it ran
	From, To time.Duration
	Ready    time.Duration // of a run: until when it started up, its delay included; may be before From or after To
}

// gantt records the spans of some jobs.
type gantt struct {
	jobs, wanted int // how many there are, and of how many the spans are recorded
	spans        []Span
	open         map[int]int // by job: the place of its last span, which is not over
}

func newGantt(jobs, wanted int) gantt {
	return gantt{jobs: jobs, wanted: min(jobs, wanted), open: map[int]int{}}
}

// has reports whether the spans of a job are recorded: those of the first in each of as many equal parts as are wanted.
func (g *gantt) has(j int) bool { return j*g.wanted%g.jobs < g.wanted }

// enter is told of a new state of a job, and of a run until when it starts up.
func (g *gantt) enter(j int, s State, node int, now, ready time.Duration) {
	if !g.has(j) {
		return
	}
	g.end(j, now)
	delete(g.open, j)
	if s == Waiting || s == Running || s == Backoff {
		g.open[j] = len(g.spans)
		g.spans = append(g.spans, Span{Job: j, State: s, Node: node, From: now, Ready: ready})
	}
}

func (g *gantt) end(j int, now time.Duration) {
	if i, open := g.open[j]; open {
		g.spans[i].To = now
	}
}

// begin forgets all that was before.
func (g *gantt) begin(now time.Duration) {
	old, open := g.spans, g.open
	g.spans, g.open = nil, map[int]int{}
	for _, j := range slices.Sorted(maps.Keys(open)) {
		old[open[j]].From = now
		g.open[j] = len(g.spans)
		g.spans = append(g.spans, old[open[j]])
	}
}

// all ends all spans.
func (g *gantt) all(now time.Duration) []Span {
	for j := range g.open { // order does not matter: each has its own span
		g.end(j, now)
	}
	return g.spans
}
