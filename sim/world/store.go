package world

import (
	"context"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/sim/decide"
	"couchrelay/sim/fakefdb"
)

// storeWorld is the store's fakefdb.World: it gives the store the engine's time and the decider's faults.
type storeWorld struct {
	w      *World
	tables map[fakefdb.Kind]*decide.Table
	faults map[fakefdb.Kind][]chance // the faults that can come up
	sites  map[siteKey]storeSites
	// downUntil is the end of the last outage; in the past when the store answers.
	downUntil instant.Time
	// readsHangUntil is the end of the last time in which reads were not answered.
	readsHangUntil instant.Time
	// undisturbed has nothing fail and nothing take time, for operations that are no part of the run.
	undisturbed bool
}

type siteKey struct {
	who  string
	kind fakefdb.Kind
}

// storeSites are the sites for one kind of operation of one client: which fault, how long the request
// travels, and how long a fault takes.
type storeSites struct{ fault, there, late *decide.Site }

func newStoreWorld(w *World) *storeWorld {
	s := &storeWorld{w: w, tables: map[fakefdb.Kind]*decide.Table{}, faults: map[fakefdb.Kind][]chance{},
		sites: map[siteKey]storeSites{}}
	for _, kind := range []fakefdb.Kind{fakefdb.ReadVersion, fakefdb.Read, fakefdb.Commit, fakefdb.StartWatch} {
		var names []string
		for _, f := range fakefdb.Faults(kind) {
			if f != fakefdb.Outage && w.Config.Rates[string(f)] > 0 {
				names = append(names, string(f))
			}
		}
		s.faults[kind], s.tables[kind] = w.Faults.chances(names), w.Config.table(names)
	}
	return s
}

func (s *storeWorld) heal() {
	s.downUntil, s.readsHangUntil = 0, 0
	for kind := range s.tables {
		s.tables[kind], s.faults[kind] = &decide.Table{}, nil
	}
}

func (s *storeWorld) sitesOf(who string, kind fakefdb.Kind) storeSites {
	key := siteKey{who, kind}
	sites, known := s.sites[key]
	if !known {
		name, d := who+"/store/"+kind.String(), s.w.Decider
		sites = storeSites{d.Site(name), d.Site(name + " there"), d.Site(name + " late")}
		s.sites[key] = sites
	}
	return sites
}

// Now is fakefdb.World's.
func (s *storeWorld) Now() instant.Time { return s.w.Engine.Now() }

// Sleep is fakefdb.World's.
func (s *storeWorld) Sleep(ctx context.Context, d time.Duration) error {
	if s.undisturbed {
		return ctx.Err()
	}
	if p := s.w.nodeOf(s.w.Engine.Owner()); p != nil && p.untilGivenUp && p.isolatedUntil > s.Now() {
		return p.sleepCutOff(ctx, d)
	}
	return s.w.Engine.Sleep(ctx, d)
}

// Await is fakefdb.World's.
func (s *storeWorld) Await(ctx context.Context, arm func(wake func())) error {
	if s.undisturbed {
		arm(func() {})
		return ctx.Err()
	}
	return s.w.Engine.Await(ctx, arm)
}

// After is fakefdb.World's.
func (s *storeWorld) After(d time.Duration, f func()) {
	if s.undisturbed && d <= 0 { // a watch that was delayed before still is
		f()
		return
	}
	s.w.Engine.After(d, nil, "store", f)
}

// Decide is fakefdb.World's.
func (s *storeWorld) Decide(op fakefdb.Op) fakefdb.Outcome {
	w := s.w
	p := w.nodeOf(w.Engine.Owner())
	if op.Kind == fakefdb.Commit {
		w.asks.commits(w.Engine.Self(), op.Tx)
	}
	if s.undisturbed {
		return fakefdb.Outcome{}
	}
	who := "user"
	if p != nil {
		who = p.Name
	}
	s.tellStep(who, op)
	if p != nil {
		p.stall(true)
	}
	sites := s.sitesOf(who, op.Kind)
	if op.Kind == fakefdb.BackOff {
		return fakefdb.Outcome{Before: sites.fault.Duration(op.Wait/2, op.Wait)}
	}
	until := s.outUntil(op.Kind)
	if p != nil {
		until = max(until, p.isolatedUntil)
	}
	if until > w.Engine.Now() {
		if p != nil {
			p.reachesSince = until
		}
		return fakefdb.Outcome{Fault: fakefdb.Outage, Before: until.Sub(w.Engine.Now())}
	}
	for _, f := range s.faults[op.Kind] {
		if op.Limbo || f.name != fakefdbStale {
			*f.reached++
		}
	}
	fault := sites.fault.Pick(s.tables[op.Kind])
	if fault == fakefdbStale && !op.Limbo || s.caughtUp(op, fakefdb.Fault(fault)) {
		fault = ""
	}
	out := fakefdb.Outcome{Fault: fakefdb.Fault(fault)}
	switch {
	case op.Kind == fakefdb.Read && fault == "" && !s.slow(op.Tx) && !(p != nil && w.Engine.Paused(p.Process)):
		out.AtOnce = true
	case op.Kind != fakefdb.StartWatch:
		out.Before = sites.there.Duration(w.Config.StoreLatency/10, w.Config.StoreLatency)
		if op.Kind == fakefdb.Commit {
			out.After = w.Config.StoreLatency / 10
		}
	}
	if fault != "" {
		w.Faults.hit(fault)
		w.Engine.Logf(who, "~ %s of %s", fault, op.Kind)
		w.emit(FaultHit{Name: fault, Whom: who, Text: op.Kind.String()})
		s.stretch(&out, sites.late)
	}
	return out
}

// attemptsBehind is how often a storage server may be behind for one transaction.
const attemptsBehind = 8

// caughtUp reports whether a storage server is behind no more, after some attempts. One with hundreds of reads would
// never get through, and its attempts, which follow on each other at once, would be most of what happens.
func (s *storeWorld) caughtUp(op fakefdb.Op, f fakefdb.Fault) bool {
	return op.Attempt > attemptsBehind && (f == fakefdb.FutureVersion || f == fakefdb.TooOldEarly)
}

// outUntil returns the end of the last outage that met operations of a kind; in the past when it is over.
func (s *storeWorld) outUntil(kind fakefdb.Kind) instant.Time {
	if kind == fakefdb.Read {
		return max(s.downUntil, s.readsHangUntil)
	}
	return s.downUntil
}

// slow reports whether the reads of a transaction take time. The decider is not asked, since there would be
// as many questions as reads. Slow transactions are spread evenly, since 61 and 100 have no divisor in
// common.
func (s *storeWorld) slow(tx uint64) bool { return tx*61%100 < uint64(s.w.Config.SlowReads) }

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
	case fakefdb.Misread:
		out.Pick = uint64(site.Int(1 << 16))
	case fakefdb.UnknownLanded:
		out.After += site.Duration(0, 5*time.Second)
	}
}

// tellStep tells observers of the step that an operation is of its transaction, if it is one.
func (s *storeWorld) tellStep(who string, op fakefdb.Op) {
	step := CommitSent
	if op.Kind == fakefdb.BackOff {
		switch {
		case op.Code == kv.NotCommitted:
			step = Conflicted
		case kv.MaybeCommitted(kv.NewError(op.Code)):
			step = ResultUnknown
		default:
			step = TriedAgain
		}
	} else if op.Kind != fakefdb.Commit {
		return
	}
	s.w.emit(Transacted{who, step})
}
