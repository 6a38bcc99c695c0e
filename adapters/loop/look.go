package loop

import (
	"context"

	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// Meter counts what the machines do. The goroutine of Run calls it, and waits for it.
type Meter interface {
	host.Observer
	// Tallied takes over what all runs have done so far.
	Tallied(replication.Tally)
}

// observerOf returns the observer of a loop's host, nil for none.
func observerOf(o Options) host.Observer {
	switch {
	case o.Meter == nil && o.Log == nil:
		return nil
	case o.Meter == nil:
		return o.Log
	case o.Log == nil:
		return o.Meter
	}
	return both{o.Log, o.Meter}
}

// both is two observers.
type both [2]host.Observer

// NodeStepped is host.Observer's.
func (b both) NodeStepped(c node.Clock, ev node.Event, effects []node.Effect) {
	for _, o := range b {
		o.NodeStepped(c, ev, effects)
	}
}

// RunBegins is host.Observer's.
func (b both) RunBegins(run uint64, plan replication.Plan) {
	for _, o := range b {
		o.RunBegins(run, plan)
	}
}

// RunStepped is host.Observer's.
func (b both) RunStepped(run uint64, now instant.Time, ev replication.Event, effects []replication.Effect) {
	for _, o := range b {
		o.RunStepped(run, now, ev, effects)
	}
}

// Numbers returns what the runs that copy say of themselves at present, by job: the store hears of it later. It is
// empty before Run and after it, when ctx ends, and of a nil Loop. Any goroutine may call it.
func (l *Loop) Numbers(ctx context.Context) map[string]jobstore.Stats {
	return look(ctx, l, func() map[string]jobstore.Stats {
		n := map[string]jobstore.Stats{}
		l.host.Numbers(func(jobID string, info replication.Info) { n[jobID] = jobstore.StatsOf(info) })
		return n
	})
}

// Lags returns how far the runs are behind their sources, by database. It is nil where Numbers is empty.
func (l *Loop) Lags(ctx context.Context) map[string]host.Lag {
	return look(ctx, l, func() map[string]host.Lag { return l.host.Lags(l.time.steady()) })
}

// look has Run look at the host.
func look[T any](ctx context.Context, l *Loop, at func() T) (none T) {
	if l == nil {
		return none
	}
	seen := make(chan T, 1)
	select {
	case l.looks <- func() { seen <- at() }:
		return <-seen // Run answers each question that it takes
	case <-l.ended:
	case <-ctx.Done():
	}
	return none
}
