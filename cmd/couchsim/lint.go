package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"couchrelay/adapters/config"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/forecast"
	"couchrelay/sim/workload"
)

// exitWarned is the exit status of lint when something should be changed.
const exitWarned = 2

// lintCommand tells what scheduling will do under a configuration.
type lintCommand struct {
	File string `arg:"" help:"A configuration of couchrelay." placeholder:"FILE.ini"`
	demand
	JSON bool `help:"Print JSON, with all numbers of the forecast: times in seconds, parts from 0 to 1."`
}

// demand says which jobs there are.
type demand struct {
	Jobs     int64            `help:"How many jobs, divided among the accounts of the configuration." placeholder:"N"`
	Account  map[string]int64 `help:"How many jobs an account has; may be repeated." placeholder:"NAME=JOBS"`
	Workload string           `help:"Take accounts, jobs and start-up times from a workload." placeholder:"FILE"`
	Nodes    int              `help:"How many nodes run jobs, each with this configuration." default:"1"`
	Startup  time.Duration    `help:"Time from the start of a run to its first copied change." default:"5s"`
}

// Help is kong's.
func (lintCommand) Help() string {
	return `Predicts for a queue of continuous jobs that are always ready: the share of each account, how long its jobs
wait and run, how often they start. Package core/forecast has the model and how far it was off.
Without --jobs, --account or --workload there are 10,000 jobs. Exit status: 0 when all is well, 2 when something
should be changed, 1 for a configuration or queue that cannot be read.`
}

func (c *lintCommand) Run() error {
	warned, err := c.print(os.Stdout)
	if err == nil && warned {
		err = status(exitWarned)
	}
	return err
}

// print writes the report, and reports whether it has a warning.
func (c *lintCommand) print(out io.Writer) (warned bool, err error) {
	all, err := config.Load(c.File)
	if err != nil {
		return false, err
	}
	s := all.Settings
	q, from, err := c.queue(&s)
	if err != nil {
		return false, err
	}
	findings, f := forecast.Findings(s, q)
	for _, f := range findings {
		warned = warned || f.Warning
	}
	r := lintReport{title: c.File, from: from, settings: s, queue: q, forecast: f, findings: findings}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return warned, e.Encode(r.values())
	}
	return warned, r.write(out)
}

// most bounds numbers of jobs and nodes, so that products of them can be computed with.
const most = 1_000_000_000

// queue is what the flags describe, and where that is from. Shares of a workload's accounts that the configuration
// does not name are added to the settings.
func (d *demand) queue(s *coreconfig.Settings) (q forecast.Queue, from string, err error) {
	q = forecast.Queue{Nodes: d.Nodes, Startup: d.Startup}
	ways := 0
	for _, given := range []bool{d.Jobs != 0, len(d.Account) > 0, d.Workload != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return q, "", errors.New("--jobs, --account and --workload exclude each other")
	case d.Nodes < 1 || d.Nodes > 1000:
		return q, "", fmt.Errorf("--nodes %d: must be from 1 to 1000", d.Nodes)
	case d.Startup < 0:
		return q, "", fmt.Errorf("--startup %s: must not be negative", d.Startup)
	case len(d.Account) > 0:
		q.Accounts, err = accountsOf(d.Account)
		return q, "as given", err
	case d.Workload != "":
		w, err := workload.ReadFile(d.Workload, false)
		if err != nil {
			return q, "", err
		}
		return queueOf(w, s, q), "those of " + d.Workload + " when it has most", nil
	case d.Jobs < 0 || d.Jobs > most:
		return q, "", fmt.Errorf("--jobs %d: must be from 1 to %s", d.Jobs, forecast.Count(most))
	}
	jobs, how := d.Jobs, ""
	if jobs == 0 {
		jobs, how = 10_000, "an example, see --jobs; "
	}
	q.Accounts, from = divided(jobs, slices.Sorted(maps.Keys(s.Replicator.Sharing.Shares)))
	return q, how + from, nil
}

// accountsOf are those of --account.
func accountsOf(jobs map[string]int64) (list []forecast.Account, err error) {
	known, all := coreconfig.Default(), int64(0)
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		if err := known.SetShares(name, "1"); err != nil {
			return nil, fmt.Errorf("--account %s: %w", name, err)
		}
		if n := jobs[name]; n < 1 || n > most {
			return nil, fmt.Errorf("--account %s=%d: must be from 1 to %s jobs", name, n, forecast.Count(most))
		}
		if all += jobs[name]; all > most {
			return nil, fmt.Errorf("--account: %s jobs or more: must be up to %s of all accounts together",
				forecast.Count(all), forecast.Count(most))
		}
		list = append(list, forecast.Account{Name: name, Jobs: jobs[name]})
	}
	return list, nil
}

// divided gives each of the accounts as many jobs. If the configuration does not name two, it makes up a pair of
// which one has nine tenths of the jobs: what such a pair gets shows whether shares are kept.
func divided(jobs int64, names []string) (list []forecast.Account, how string) {
	if len(names) < 2 {
		few := max(1, jobs/10)
		list = []forecast.Account{{Name: "_replicator", Jobs: max(1, jobs-few)}, {Name: "other/_replicator", Jobs: few}}
		return list, "assumed: nine tenths of them belong to one of two accounts"
	}
	n := int64(len(names))
	for i, name := range names {
		part := jobs*(int64(i)+1)/n - jobs*int64(i)/n
		if part > 0 {
			list = append(list, forecast.Account{Name: name, Jobs: part})
		}
	}
	return list, "assumed: the accounts of [replicator.shares] have as many jobs each"
}

// queueOf is what a workload asks for at the moment at which it has most jobs, as if one-shots never waited.
func queueOf(w *workload.Workload, s *coreconfig.Settings, q forecast.Queue) forecast.Queue {
	for _, a := range w.Accounts {
		if s.Replicator.Sharing.Shares[a.Name] == 0 {
			s.Replicator.Sharing.Shares[a.Name] = a.Shares
		}
	}
	jobs, startup := make([]int64, len(w.Accounts)), time.Duration(0)
	present := w.Busiest()
	for _, j := range present {
		jobs[j.Account]++
		startup += j.Startup
		if !j.Continuous {
			q.OneShots++
		}
	}
	if len(present) > 0 {
		q.Startup = startup / time.Duration(len(present))
	}
	for i, n := range jobs {
		if n > 0 {
			q.Accounts = append(q.Accounts, forecast.Account{Name: w.Accounts[i].Name, Jobs: n})
		}
	}
	return q
}
