package metrics

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Result has all that was measured. Values are in the order of Definitions, and NaN where there is none: a run of
// an hour has no window of a day.
type Result struct {
	From, Until time.Duration // what was measured; what was before From is the warm-up
	Accounts    []string
	Overall     []float64
	PerAccount  [][]float64 // by account
	Series      *Series     // with Options.Series
	Gantt       []Span      // with Options.Gantt, by job and time

	tallies []tally // of each account, and then of all
}

// WarmUp says in words what was dropped.
func (r *Result) WarmUp() string {
	if r.From == 0 {
		return "nothing was dropped as warm-up"
	}
	return fmt.Sprintf("the first %v of %v were dropped as warm-up", r.From, r.Until)
}

// Value returns the value of a metric over all accounts; NaN when there is none, or no metric of that name.
func (r *Result) Value(name string) float64 { return named(r.Overall, name) }

// AccountValue returns the value of a metric of an account; NaN as for Value.
func (r *Result) AccountValue(account int, name string) float64 {
	return named(r.PerAccount[account], name)
}

func named(values []float64, name string) float64 {
	if i := slices.IndexFunc(Definitions, func(d Definition) bool { return d.Name == name }); i >= 0 {
		return values[i]
	}
	return math.NaN()
}

// Distribution returns what the quantiles of a family such as "wait-turn" are taken of: of an account, or of all
// if that is -1. It is nil if there is no such family. It must not be changed.
func (r *Result) Distribution(family string, account int) *Distribution {
	i := slices.IndexFunc(families[:], func(f Definition) bool { return f.Name == family })
	if i < 0 {
		return nil
	}
	if account < 0 {
		account = len(r.Accounts)
	}
	return &r.tallies[account].dists[i]
}

// Result ends the measurement at Options.Duration and returns its result. Events are no longer looked at then.
func (m *Meter) Result() *Result {
	if m.result != nil {
		return m.result
	}
	m.advance(m.o.Duration)
	m.settle()
	m.close(len(windowLengths) - 1)
	m.result = &Result{From: m.o.WarmUp, Until: m.now, Gantt: m.gantt.all(m.now)}
	if m.sampler != nil {
		m.result.Series = &m.sampler.Series
	}
	for n := range m.jobs {
		if j := &m.jobs[n]; j.state == Waiting {
			t := &m.accts[m.w.Jobs[n].Account].tally
			t.waiting++
			t.gap = max(t.gap, (m.now - j.since).Seconds())
		}
	}
	m.read()
	return m.result
}

// read computes all values.
func (m *Meter) read() {
	r := m.result
	all := reading{tally: &tally{}, meter: m, seconds: (r.Until - r.From).Seconds()}
	for a := range m.accts {
		got := m.windows[len(windowLengths)-1].got[a]
		all.got.received += got.received
		all.got.entitled += got.entitled
	}
	all.all = all.got
	for a := range m.accts {
		acct := &m.accts[a]
		own := all
		own.tally, own.got = &acct.tally, m.windows[len(windowLengths)-1].got[a]
		r.Accounts = append(r.Accounts, m.w.Accounts[a].Name)
		r.PerAccount = append(r.PerAccount, own.values(func(d *Definition) bool { return d.PerAccount }))
		r.tallies = append(r.tallies, acct.tally)
		all.tally.merge(&acct.tally)
	}
	r.Overall = all.values(func(d *Definition) bool { return d.Overall })
	r.tallies = append(r.tallies, *all.tally)
}

// merge adds what another account counted.
func (t *tally) merge(o *tally) {
	t.startup += o.startup
	t.copied += o.copied
	t.lost += o.lost
	t.starts += o.starts
	t.rotations += o.rotations
	t.completed += o.completed
	t.waiting += o.waiting
	t.gap = max(t.gap, o.gap)
	t.lagLeast, t.lagMost = min(t.lagLeast, o.lagLeast), max(t.lagMost, o.lagMost)
	for i := range t.errors {
		t.errors[i].merge(o.errors[i])
	}
	for k := range t.dists {
		t.dists[k].merge(&o.dists[k])
	}
}

// reading is what formulas read: of an account, or of all.
type reading struct {
	*tally
	got     service // over the whole run
	all     service // of all accounts
	seconds float64 // that were measured
	meter   *Meter
}

func (r *reading) values(has func(*Definition) bool) []float64 {
	values := make([]float64, len(Definitions))
	for i := range Definitions {
		values[i] = math.NaN()
		if d := &Definitions[i]; has(d) {
			values[i] = d.value(r)
		}
	}
	return values
}
