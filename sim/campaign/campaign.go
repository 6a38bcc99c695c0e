package campaign

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"couchrelay/sim/decide"
	"couchrelay/sim/model"
	"couchrelay/sim/protocol"
	"couchrelay/sim/world"
)

// World is the scenario of a seed with its decider.
type World struct {
	Config  world.Config
	Decider func() *decide.Decider // a new one with every call, since a run uses it up
}

// Drawn returns what draws a world of a profile's size for each seed, as couchsim plays them.
func Drawn(p world.Profile) func(seed uint64) World {
	return func(seed uint64) World {
		return World{
			Config:  world.Swarm(seed, p),
			Decider: func() *decide.Decider { return decide.New(decide.Seed(seed)) },
		}
	}
}

// Campaign is what to play.
type Campaign struct {
	// World returns the world of a seed. It is called by several goroutines at a time.
	World func(seed uint64) World
	// Hook, when not nil, is called with every trial before it runs.
	Hook Hook
	// First is the first seed. Seeds is how many are played; with 0 as many as start within Duration.
	First, Seeds uint64
	Duration     time.Duration
	// Workers is how many worlds run at once; 0 means one on each core.
	Workers int
	// Stop ends the campaign after so many violations; 0 means never. Which seeds are played after the
	// first violation depends on the machine; the lowest seed that fails is always among them.
	Stop int
	// Sample is how many firings of each fault are tried for whether they mattered, by playing the seed again
	// without the firing: those of the lowest seeds, after all seeds are played.
	Sample int
	// Progress, when not nil, is called after every seed, by one goroutine at a time.
	Progress func(*Report)
}

// Failure is a seed with a broken invariant.
type Failure struct {
	Seed uint64
	Outcome
}

// Count is how often a fault or an action came up in a campaign.
type Count struct {
	Enabled uint64 // seeds in which it could come up
	Reached uint64 // times that it could have come up
	Fired   uint64 // times that it did
	// Sampled is how many firings were tried, Mattered how many of them changed the run: without one of these
	// the run ends with another hash.
	Sampled, Mattered uint64
}

// Report is what a campaign did.
type Report struct {
	First    uint64
	Seeds    uint64
	Workers  int
	Events   uint64
	Virtual  time.Duration
	Took     time.Duration
	Failures []Failure // by seed
	Faults   map[string]*Count
	// Protocol counts the transitions of the replication protocol that runs took.
	Protocol protocol.Counts
	// Jobs counts the transitions of the job system's specification that jobs took.
	Jobs model.Counts
	// Hashes are the runs' by seed.
	Hashes map[uint64]uint64
}

// player is a campaign under way.
type player struct {
	Campaign
	mu      sync.Mutex
	next    uint64
	began   time.Time
	report  *Report
	samples map[string][]firing // by fault; those of the lowest seeds so far, ordered by them
}

// firing is one that is tried.
type firing struct {
	seed   uint64
	choice decide.Choice
}

// Run plays the campaign. When ctx ends, the seeds that are being played are the last.
func (c Campaign) Run(ctx context.Context) *Report {
	p := &player{Campaign: c, next: c.First, began: time.Now(), samples: map[string][]firing{}}
	if p.Workers <= 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	p.report = &Report{First: c.First, Workers: p.Workers, Faults: map[string]*Count{}, Hashes: map[uint64]uint64{}}
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() { p.work(ctx) })
	}
	workers.Wait()
	p.trySamples(ctx)
	p.report.Took = time.Since(p.began)
	slices.SortFunc(p.report.Failures, func(a, b Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	return p.report
}

// work plays seeds until there are none left.
func (p *player) work(ctx context.Context) {
	for ctx.Err() == nil {
		seed, ok := p.take()
		if !ok {
			return
		}
		world := p.World(seed)
		d := world.Decider()
		if p.Sample > 0 {
			d = d.Recording()
		}
		p.add(seed, world, Play(world.Config, d, p.hooks()...))
	}
}

// trySamples plays seeds again, each without one firing.
func (p *player) trySamples(ctx context.Context) {
	var all []firing
	for _, name := range slices.Sorted(maps.Keys(p.samples)) {
		all = append(all, p.samples[name]...)
	}
	next := make(chan firing)
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for f := range next {
				world := p.World(f.seed)
				again := Play(world.Config, world.Decider().Without(f.choice), p.hooks()...)
				p.mattered(f.choice.Value, again.Hash != p.report.Hashes[f.seed])
			}
		})
	}
	for _, f := range all {
		if ctx.Err() != nil {
			break
		}
		next <- f
	}
	close(next)
	workers.Wait()
}

func (p *player) hooks() []Hook {
	if p.Hook == nil {
		return nil
	}
	return []Hook{p.Hook}
}

// take returns the next seed to play. ok is false when the campaign is over.
func (p *player) take() (seed uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.Stop > 0 && len(p.report.Failures) >= p.Stop:
		return 0, false
	case p.Seeds > 0 && p.next-p.First >= p.Seeds:
		return 0, false
	case p.Duration > 0 && time.Since(p.began) >= p.Duration:
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

// add adds an outcome to the report, and chooses the firings of it that may be tried.
func (p *player) add(seed uint64, world World, o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.report
	r.Seeds++
	r.Events += o.Events
	r.Virtual += o.Virtual
	r.Hashes[seed] = o.Hash
	r.Protocol.Add(&o.Protocol)
	r.Jobs.Add(&o.Jobs)
	for _, rates := range []map[string]int{world.Config.Rates, world.Config.Actions} {
		for name, rate := range rates {
			if rate > 0 {
				r.count(name).Enabled++
			}
		}
	}
	for name, n := range o.Faults.Reached() {
		r.count(name).Reached += n
	}
	for name, n := range o.Faults.Fired {
		r.count(name).Fired += n
	}
	if o.Violation != nil {
		o.Choices = nil
		r.Failures = append(r.Failures, Failure{seed, o})
	} else if p.Sample > 0 {
		p.sample(seed, o)
	}
	if p.Progress != nil {
		r.Took = time.Since(p.began)
		p.Progress(r)
	}
}

// sample chooses at most one firing of each fault in a run, and not the same one in every run. Which seeds count does
// not depend on the order in which they end, so that a campaign tells the same on any number of cores.
func (p *player) sample(seed uint64, o Outcome) {
	firings := map[string][]decide.Choice{}
	for _, choice := range o.Choices {
		if o.Faults.Fired[choice.Value] > 0 {
			firings[choice.Value] = append(firings[choice.Value], choice)
		}
	}
	for name, list := range firings {
		all := append(p.samples[name], firing{seed, list[seed%uint64(len(list))]})
		slices.SortFunc(all, func(a, b firing) int { return cmp.Compare(a.seed, b.seed) })
		p.samples[name] = all[:min(len(all), p.Sample)]
	}
}

func (p *player) mattered(name string, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.report.count(name)
	c.Sampled++
	if yes {
		c.Mattered++
	}
}

func (r *Report) count(name string) *Count {
	c := r.Faults[name]
	if c == nil {
		c = &Count{}
		r.Faults[name] = c
	}
	return c
}
