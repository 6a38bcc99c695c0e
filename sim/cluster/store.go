package cluster

import (
	"context"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
	"couchrelay/sim/fakefdb"
)

// storeWorld is what surrounds the fake store: the engine's time, and the decider's faults.
type storeWorld struct {
	w      *Cluster
	tables map[fakefdb.Kind]*decide.Table
	names  map[fakefdb.Kind][]string
	sites  map[siteKey]*decide.Site
	// downUntil is when the store answers again.
	downUntil instant.Time
	// at once: nothing fails and nothing takes time, for the checks of idempotence.
	atOnce bool
}

type siteKey struct {
	who  string
	kind fakefdb.Kind
	what string
}

func newStoreWorld(w *Cluster) *storeWorld {
	s := &storeWorld{w: w, tables: map[fakefdb.Kind]*decide.Table{}, names: map[fakefdb.Kind][]string{}, sites: map[siteKey]*decide.Site{}}
	for _, kind := range []fakefdb.Kind{fakefdb.ReadVersion, fakefdb.Read, fakefdb.Commit, fakefdb.StartWatch} {
		var names []string
		for _, f := range fakefdb.Faults(kind) {
			if f != fakefdb.Outage && w.Config.Rates[string(f)] > 0 {
				names = append(names, string(f))
			}
		}
		s.names[kind], s.tables[kind] = names, w.Config.table(names)
	}
	return s
}

func (s *storeWorld) heal() {
	s.downUntil = 0
	for kind := range s.tables {
		s.tables[kind], s.names[kind] = &decide.Table{}, nil
	}
}

// site is where a process's questions of one kind are asked.
func (s *storeWorld) site(who string, kind fakefdb.Kind, what string) *decide.Site {
	key := siteKey{who, kind, what}
	site := s.sites[key]
	if site == nil {
		site = s.w.Decider.Site(who + "/store/" + kind.String() + what)
		s.sites[key] = site
	}
	return site
}

// Now is fakefdb.World's.
func (s *storeWorld) Now() instant.Time { return s.w.Engine.Now() }

// Sleep is fakefdb.World's.
func (s *storeWorld) Sleep(ctx context.Context, d time.Duration) error {
	if s.atOnce {
		return ctx.Err()
	}
	return s.w.Engine.Sleep(ctx, d)
}

// Await is fakefdb.World's.
func (s *storeWorld) Await(ctx context.Context, arm func(wake func())) error {
	if s.atOnce {
		arm(func() {})
		return ctx.Err()
	}
	return s.w.Engine.Await(ctx, arm)
}

// After is fakefdb.World's.
func (s *storeWorld) After(d time.Duration, f func()) {
	if s.atOnce && d <= 0 { // a watch that was delayed before still is
		f()
		return
	}
	s.w.Engine.After(d, nil, "store", f)
}

// Decide is fakefdb.World's.
func (s *storeWorld) Decide(op fakefdb.Op) fakefdb.Outcome {
	w := s.w
	p := w.running()
	w.oracle.operation(op)
	if s.atOnce {
		return fakefdb.Outcome{}
	}
	who := "user"
	if p != nil {
		who = p.Name
	}
	if w.Watch != nil {
		w.watchTransaction(who, op)
	}
	if p != nil {
		p.stall(true)
	}
	if op.Kind == fakefdb.BackOff {
		return fakefdb.Outcome{Before: s.site(who, op.Kind, "").Duration(op.Wait/2, op.Wait)}
	}
	if until := max(s.downUntil, w.net.isolatedUntil(p)); until > w.Engine.Now() {
		if p != nil && p.tillGone {
			until = min(until, w.Engine.Now().Add(time.Second)) // it may end any moment
		}
		return fakefdb.Outcome{Fault: fakefdb.Outage, Before: until.Sub(w.Engine.Now())}
	}
	for _, name := range s.names[op.Kind] {
		if name != fakefdbStale || op.Limbo {
			w.Faults.reach(name)
		}
	}
	fault := s.site(who, op.Kind, "").Pick(s.tables[op.Kind])
	if fault == fakefdbStale && !op.Limbo {
		fault = ""
	}
	out := fakefdb.Outcome{Fault: fakefdb.Fault(fault)}
	switch {
	case op.Kind == fakefdb.Read && fault == "" && !s.slow(who) && !(p != nil && w.Engine.Paused(p.Process)):
		out.AtOnce = true
	case op.Kind != fakefdb.StartWatch:
		out.Before = s.site(who, op.Kind, " there").Duration(w.Config.StoreLatency/10, w.Config.StoreLatency)
		if op.Kind == fakefdb.Commit {
			out.After = w.Config.StoreLatency / 10
		}
	}
	if fault != "" {
		w.Faults.hit(fault)
		w.Engine.Logf(who, "~ %s of %s", fault, op.Kind)
		w.watch(Fault{Name: fault, Whom: who, Text: op.Kind.String()})
		s.stretch(&out, s.site(who, op.Kind, " late"))
	}
	return out
}

// slow says whether a read takes time.
func (s *storeWorld) slow(who string) bool {
	share := s.w.Config.SlowReads
	return share == 100 || share > 0 && s.site(who, fakefdb.Read, " slow").Chance(share*decide.Scale/100)
}

const fakefdbStale = string(fakefdb.StaleReadVersion)

// stretch gives a fault its times.
func (s *storeWorld) stretch(out *fakefdb.Outcome, site *decide.Site) {
	switch out.Fault {
	case fakefdb.SlowCommit:
		out.Before += site.Duration(100*time.Millisecond, 4*time.Second)
	case fakefdb.TimedOutLate, fakefdb.ClusterLate:
		out.Late = site.Duration(time.Millisecond, 60*time.Second)
	case fakefdb.WatchSpurious, fakefdb.WatchDelayed, fakefdb.WatchFailed:
		out.Late = site.Duration(time.Millisecond, 20*time.Second)
	case fakefdb.StaleReadVersion:
		out.Pick = uint64(site.Int(8))
	case fakefdb.UnknownLanded:
		out.After += site.Duration(0, 5*time.Second)
	}
}
