package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/core/forecast"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// Bounds of what a forecast reads and takes for granted.
const (
	forecastAccounts = 10_000           // accounts that are read
	forecastTime     = 10 * time.Second // for the store
	forecastStartup  = 5 * time.Second  // from the start of a run to its first copied change
)

// forecast logs what scheduling will do with the jobs in the store under a configuration, as couchsim lint prints
// it. A store that does not answer is logged elsewhere; then there is no forecast.
func (s *service) forecast(ctx context.Context, c config.Config) {
	if !c.Roles.Has(node.Replication) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forecastTime)
	defer cancel()
	q, err := kv.Run(ctx, s.db,
		func(tx kv.Tx) (forecast.Queue, error) { return queueIn(tx.Snapshot(), s.store, s.name) })
	if err != nil {
		s.logger.Debug("forecast", "error", err)
		return
	}
	findings, _ := forecast.Findings(c.Settings, q)
	for _, f := range findings {
		var better []string
		for _, b := range f.Better {
			better = append(better, fmt.Sprintf("%s = %s: %s", b.Key, b.Value, b.Then))
		}
		about := []any{"finding", f.Name, "key", f.Key, "value", f.Value, "detail", f.Says}
		if better != nil {
			about = append(about, "better", strings.Join(better, "; "))
		}
		if f.Warning {
			s.logger.Warn("forecast", about...)
		} else {
			s.logger.Info("forecast", about...)
		}
	}
}

// queueIn reads the queue from the store: the nodes that run jobs, this one among them whether it has a lease yet or
// not, and the jobs of each account. It reads a bounded number of accounts; the others count with the mean.
func queueIn(r kv.Reader, store *jobstore.Store, name string) (forecast.Queue, error) {
	q := forecast.Queue{Nodes: 1, Startup: forecastStartup}
	list, total, err := jobstore.Demands(r, store, forecastAccounts)
	if err != nil {
		return q, err
	}
	members, err := node.Members(r, store)
	if err != nil {
		return q, err
	}
	for _, m := range members {
		if !m.Expired && m.Info.Name != name && m.Info.Roles.Has(node.Replication) {
			q.Nodes++
		}
	}
	q.Accounts = accountsOf(list, total)
	return q, nil
}

// accountsOf are the accounts that were read, and those of the other jobs, which have as many as these on the average.
// Where none was read there is one.
func accountsOf(list []jobstore.Demand, total int64) (accounts []forecast.Account) {
	read := int64(0)
	for _, d := range list {
		accounts = append(accounts, forecast.Account{Name: d.Account, Jobs: d.Jobs})
		read += d.Jobs
	}
	mean := max(1, total)
	if len(list) > 0 {
		mean = max(1, read/int64(len(list)))
	}
	for ; read < total; read += mean {
		accounts = append(accounts, forecast.Account{Name: "(others)", Jobs: min(mean, total-read)})
	}
	return accounts
}
