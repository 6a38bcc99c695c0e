package shrink

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/node"
	"couchrelay/sim/decide"
	"couchrelay/sim/scenario"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"
)

// world makes the world small, and its settings the usual ones.
func (s *shrinker) world() {
	base := scenario.Base()
	s.change(func(c *world.Config) {
		c.Continuous, c.Filtered, c.Attached, c.Denied = base.Continuous, base.Filtered, base.Attached, base.Denied
		c.NumericServers, c.BareServers, c.Objects = base.NumericServers, base.BareServers, base.Objects
	})
	s.change(func(c *world.Config) { c.RetryRefused, c.FailRefused, c.MaxRefused = 0, 0, 0 })
	s.dropRates()
	s.dropEvents()
	s.shorten()
	s.lessen(0, func(c *world.Config) *int { return &c.Jobs })
	s.lessen(0, func(c *world.Config) *int { return &c.LongURLs })
	s.lessen(0, func(c *world.Config) *int { return &c.FrontendOnly })
	s.lessen(0, func(c *world.Config) *int { return &c.ReplicationOnly })
	s.lessen(1, func(c *world.Config) *int { return &c.Nodes })
	s.lessen(1, func(c *world.Config) *int { return &c.Tenants })
	s.lessen(0, func(c *world.Config) *int { return &c.Docs })
	s.lessen(1, func(c *world.Config) *int { return &c.Servers })
	s.lessen(1, func(c *world.Config) *int { return &c.Databases })
	s.plain(base)
	s.told("world")
}

// change tries another world.
func (s *shrinker) change(edit func(*world.Config)) bool {
	c := clone(s.best.Config)
	edit(&c)
	if same(&c, &s.best.Config) {
		return false
	}
	if slices.ContainsFunc(c.Events, func(e world.Event) bool { return c.CheckEvent(e) != nil }) {
		return false
	}
	changed := s.best
	changed.Config = c
	return s.adopt(s.variants(changed)...)
}

func clone(c world.Config) world.Config {
	c.Rates, c.Actions, c.Events = maps.Clone(c.Rates), maps.Clone(c.Actions), slices.Clone(c.Events)
	return c
}

func same(a, b *world.Config) bool {
	return reflect.DeepEqual(a, b)
}

// dropRates leaves out rates one by one.
func (s *shrinker) dropRates() {
	for _, name := range slices.Sorted(maps.Keys(s.best.Config.Rates)) {
		s.change(func(c *world.Config) { delete(c.Rates, name) })
	}
	for _, name := range slices.Sorted(maps.Keys(s.best.Config.Actions)) {
		s.change(func(c *world.Config) { delete(c.Actions, name) })
	}
}

func (s *shrinker) dropEvents() {
	for i := len(s.best.Config.Events) - 1; i >= 0; i-- {
		s.change(func(c *world.Config) { c.Events = slices.Delete(c.Events, i, i+1) })
	}
}

// shorten ends the time of trouble earlier. The time to settle stays: with less of it healthy worlds
// would fail.
func (s *shrinker) shorten() {
	for _, d := range []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour,
	} {
		if d < s.best.Config.Duration && s.change(func(c *world.Config) { c.Duration = d }) {
			return
		}
	}
}

// lessen looks for the least value of a number with which the invariant still breaks.
func (s *shrinker) lessen(least int, of func(*world.Config) *int) {
	for n := least; n < *of(&s.best.Config); n = max(n+1, (n+*of(&s.best.Config))/2) {
		if s.change(func(c *world.Config) { *of(c) = n }) {
			return
		}
	}
}

// plain gives every setting the value that it has in base.
func (s *shrinker) plain(base world.Config) {
	if s.change(func(c *world.Config) {
		size := *c
		*c = base
		c.Nodes, c.Servers, c.Databases = size.Nodes, size.Servers, size.Databases
		c.Tenants, c.Jobs, c.Docs = size.Tenants, size.Jobs, size.Docs
		c.FrontendOnly, c.ReplicationOnly = size.FrontendOnly, size.ReplicationOnly
		c.Rates, c.Actions, c.Events, c.Duration = size.Rates, size.Actions, size.Events, size.Duration
	}) {
		return
	}
	s.change(func(c *world.Config) {
		c.StoreLatency, c.NetLatency, c.SlowReads = base.StoreLatency, base.NetLatency, base.SlowReads
	})
	s.change(func(c *world.Config) { c.Sharing = base.Sharing })
	s.change(func(c *world.Config) { c.Sharing.Shares = nil })
	s.change(func(c *world.Config) { c.Namesakes = base.Namesakes })
	s.change(func(c *world.Config) { c.Older = base.Older })
	s.change(func(c *world.Config) { c.Think = base.Think })
	s.change(func(c *world.Config) { c.BatchSize, c.Workers = base.BatchSize, base.Workers })
	s.change(func(c *world.Config) { c.Memory = base.Memory })
	s.change(func(c *world.Config) { c.Retries = base.Retries })
	s.change(func(c *world.Config) { c.CheckpointInterval = base.CheckpointInterval })
	s.change(func(c *world.Config) { c.TransientMaxAge = base.TransientMaxAge })
	s.change(func(c *world.Config) { c.Backoff = backoff.Policy(base.Backoff) })
	for _, edit := range []func(*node.Settings){
		func(s *node.Settings) { *s = base.Settings },
		func(s *node.Settings) { s.MaxJobs, s.MaxChurn = base.Settings.MaxJobs, base.Settings.MaxChurn },
		func(s *node.Settings) { s.Interval = base.Settings.Interval },
		func(s *node.Settings) { s.ActivityTimeout = base.Settings.ActivityTimeout },
		func(s *node.Settings) { s.StallTimeout = base.Settings.StallTimeout },
	} {
		s.change(func(c *world.Config) { edit(&c.Settings) })
	}
}

// events turns decisions of the nemesis into events with a time and a name, which stay what they are when
// the code asks other questions.
func (s *shrinker) events() {
	if !slices.ContainsFunc(s.best.Decisions, ofNemesis) {
		return
	}
	var happened []world.NemesisTurn
	if s.watch(&happened); s.adopt(s.variants(s.instead(happened))...) {
		s.told("events")
		return
	}
	for _, h := range happened {
		s.adopt(s.instead([]world.NemesisTurn{h}))
	}
	s.told("events")
}

// sift leaves out events in ever smaller pieces. While there are too many to read it tries many seeds: what
// events were good for is often no more than that a race took its course, which it takes without them with
// another seed.
func (s *shrinker) sift() {
	for size := (len(s.best.Config.Events) + 1) / 2; size > 0 && !s.late(); size /= 2 {
		for at := len(s.best.Config.Events) - size; at > -size && !s.late(); at -= size {
			s.others = 3
			if s.size() > enough {
				s.others = 30
			}
			s.change(func(c *world.Config) { c.Events = slices.Delete(c.Events, max(at, 0), at+size) })
		}
	}
	s.told("sifted")
}

func ofNemesis(c decide.Choice) bool { return c.Site == world.NemesisSite }

// watch plays the best run and collects what the nemesis did.
func (s *shrinker) watch(happened *[]world.NemesisTurn) {
	watched := *s
	watched.Hook = func(w *trial.Trial) {
		if s.Hook != nil {
			s.Hook(w)
		}
		w.OnNemesis = func(h world.NemesisTurn) { *happened = append(*happened, h) }
	}
	s.runs++
	watched.play(s.best)
}

// instead replaces decisions by events.
func (s *shrinker) instead(happened []world.NemesisTurn) scenario.Scenario {
	c := s.best
	c.Config = clone(c.Config)
	for _, h := range happened {
		c.Decisions = without(c.Decisions,
			func(d decide.Choice) bool { return ofNemesis(d) && d.Index >= h.From && d.Index < h.To })
		c.Config.Events = append(c.Config.Events, h.Event)
	}
	return c
}
