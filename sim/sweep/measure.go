package sweep

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"couchrelay/core/config"
	"couchrelay/sim/lab"
	"couchrelay/sim/metrics"
	"couchrelay/sim/workload"
)

// Observe plays a run of the setup and measures it with some options, whose Duration and WarmUp are the setup's. A
// nil workload is that of the seed.
func (s *Setup) Observe(
	ctx context.Context, w *workload.Workload, seed uint64, o metrics.Options,
) (*metrics.Result, *workload.Workload, error) {
	if w == nil {
		var err error
		if w, err = s.Recipe.Build(seed); err != nil {
			return nil, nil, err
		}
	}
	c, w := s.Lab(), withShares(w, s.Settings.Replicator.Sharing.Shares)
	c.Workload, c.Seed = w, seed
	o.Duration, o.WarmUp = s.Duration, s.WarmUp
	meter, err := metrics.New(w, o)
	if err != nil {
		return nil, nil, err
	}
	if err := lab.Run(ctx, c, meter); err != nil {
		return nil, nil, err
	}
	return meter.Result(), w, nil
}

// measure plays a run in package lab.
func measure(ctx context.Context, s *Setup, w *workload.Workload, seed uint64) (Values, error) {
	r, _, err := s.Observe(ctx, w, seed, metrics.Options{})
	if err != nil {
		return nil, err
	}
	values := Values{}
	for i, d := range metrics.Definitions {
		if d.Overall {
			values[d.Name] = Number(r.Overall[i])
		}
		if !slices.Contains(s.PerAccount, d.Name) {
			continue
		}
		for account, name := range r.Accounts {
			values[d.Name+"/"+name] = Number(r.PerAccount[account][i])
		}
	}
	return values, nil
}

// withShares is a workload whose accounts begin with the shares of [replicator.shares], where these have any, so
// that meters go by them too.
func withShares(w *workload.Workload, shares map[string]int64) *workload.Workload {
	other := *w
	other.Accounts = slices.Clone(w.Accounts)
	for i, a := range other.Accounts {
		other.Accounts[i].Shares = cmp.Or(shares[a.Name], a.Shares)
	}
	return &other
}

// describe are all metrics.
func describe() []Metric {
	var all []Metric
	for _, d := range metrics.Definitions {
		m := Metric{Name: d.Name, Unit: d.Unit, Formula: d.Formula}
		if d.Better != metrics.Neither {
			m.Better = d.Better.String()
		}
		all = append(all, m)
	}
	return all
}

// perAccount names metrics.
var perAccount = config.Kind[Setup]{
	Takes: "metrics with commas between them: " + strings.Join(accountMetrics(), ", "),
	Get:   func(s *Setup) string { return strings.Join(s.PerAccount, ", ") },
	Set: func(s *Setup, v string) error {
		s.PerAccount = nil
		for name := range strings.SplitSeq(v, ",") {
			name = strings.TrimSpace(name)
			if !slices.Contains(accountMetrics(), name) {
				return errors.New("must be metrics with commas between them: " + strings.Join(accountMetrics(), ", "))
			}
			s.PerAccount = append(s.PerAccount, name)
		}
		return nil
	},
}

// accountMetrics are those that each account has.
func accountMetrics() []string {
	var names []string
	for _, d := range metrics.Definitions {
		if d.PerAccount {
			names = append(names, d.Name)
		}
	}
	return names
}
