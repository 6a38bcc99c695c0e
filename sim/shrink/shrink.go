package shrink

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/decide"
	"couchrelay/sim/oracle"
	"couchrelay/sim/scenario"
)

// Task is a failing run, and how long it may take to make it small.
type Task struct {
	World campaign.World
	// Seed answers what the decisions leave open. Any will do for a World without a seed.
	Seed uint64
	// Hook, when not nil, is called with every trial before it runs.
	Hook campaign.Hook
	// Budget is the real time that shrinking may take. When it is used up, the smallest run so far is the
	// result.
	Budget time.Duration
	// Workers is how many runs are tried at once; 0 means one on each core.
	Workers int
	// Progress, when not nil, is called after every pass.
	Progress func(pass string, decisions, runs int)
}

// Result is a run that still breaks the invariant.
type Result struct {
	Scenario *scenario.Scenario
	// Before is the violation of the run that was given, After that of the one that remains.
	Before, After *oracle.Violation
	// Decisions is how many answers of the given run were not benign; Runs is how many runs were tried.
	Decisions, Runs int
}

// Errors.
var (
	ErrHolds      = errors.New("shrink: the run breaks no invariant")
	ErrUnrepeated = errors.New("shrink: played from its decisions the run does not break the same invariant")
)

// shrinker is a run that is being shrunk.
type shrinker struct {
	Task
	limit    uint64 // events after which a candidate is given up; only falls
	deadline time.Time
	runs     int               // tried so far
	best     scenario.Scenario // the smallest that broke the invariant so far
	after    *oracle.Violation // the violation of best; nil before the first
	others   uint64            // number of seeds, beside its own, that a candidate is tried with
}

// Shrink makes a failing run small.
func Shrink(t Task) (*Result, error) {
	if t.Workers <= 0 {
		t.Workers = runtime.GOMAXPROCS(0)
	}
	began := time.Now()
	first := campaign.Play(t.World.Config, t.World.Decider().Recording(), t.hooks()...)
	if first.Violation == nil {
		return nil, ErrHolds
	}
	s := &shrinker{Task: t, limit: first.Events*5/4 + 5_000, deadline: began.Add(t.Budget), others: 3}
	s.best.Broke = first.Violation.ID
	plain := clone(t.World.Config) // no rate matters where decisions say what happens
	plain.Rates, plain.Actions = map[string]int{}, map[string]int{}
	told := scenario.Scenario{Broke: s.best.Broke, Config: plain, First: t.Seed, Last: t.Seed,
		Decisions: happenings(first.Choices)}
	whole := scenario.Scenario{Broke: s.best.Broke, Config: plain, Scripted: true, Decisions: first.Choices}
	drawn := scenario.Scenario{Broke: s.best.Broke, Config: t.World.Config, First: t.Seed, Last: t.Seed}
	if !s.adopt(told, whole, drawn) {
		return nil, fmt.Errorf("%w: %s", ErrUnrepeated, first.Violation)
	}
	s.deadline = began.Add(t.Budget * 2 / 3)
	s.shrink()
	s.unseed()
	s.events()
	s.values()
	s.deadline = began.Add(t.Budget)
	s.sift()
	s.draw(drawn)
	return &Result{Scenario: &s.best, Before: first.Violation, After: s.after, Decisions: len(first.Choices),
		Runs: s.runs}, nil
}

// draw tries another way when much is left: it lets the seed decide everything and makes the world smaller,
// with fewer faults.
func (s *shrinker) draw(drawn scenario.Scenario) {
	told, after := s.best, s.after
	if s.size() <= enough || !s.adopt(drawn) {
		return
	}
	for size := s.size() + 1; s.size() < size && !s.late(); {
		size = s.size()
		s.world()
	}
	if s.size() >= scenario.Lines(&told) {
		s.best, s.after = told, after
	}
	s.told("drawn")
}

// enough is the number of lines up to which a scenario is small enough to read.
const enough = 30

func happenings(all []decide.Choice) []decide.Choice {
	return without(all, func(c decide.Choice) bool { return !c.Happens() })
}

// shrink repeats the passes until none of them helps.
func (s *shrinker) shrink() {
	s.groups()
	for !s.late() {
		size := s.size()
		s.world()
		s.minimise()
		if s.size() >= size {
			return
		}
	}
}

// unseed leaves out the seed, too: its answers become decisions, many of which do not matter.
func (s *shrinker) unseed() {
	if s.best.Scripted || s.late() {
		return
	}
	seeded, after := s.best, s.after
	run := campaign.Play(s.best.Config, s.best.Decider(s.best.First).Recording(), s.hooks()...)
	bare, whole := s.best, s.best
	bare.Scripted, bare.First, bare.Last = true, 0, 0
	whole.Scripted, whole.First, whole.Last, whole.Decisions = true, 0, 0, run.Choices
	if s.adopt(bare, whole) {
		s.shrink()
	}
	if s.size() > scenario.Lines(&seeded)+most {
		s.best, s.after = seeded, after
	}
	s.told("seed")
}

// most is how many lines longer a scenario without a seed may be than one with it. The one without is better,
// since it survives more changes of the code.
const most = 8

// size is what shrinking reduces: the number of lines of the scenario.
func (s *shrinker) size() int { return scenario.Lines(&s.best) }

func (s *shrinker) late() bool { return time.Now().After(s.deadline) }

func (s *shrinker) told(pass string) {
	if s.Progress != nil {
		s.Progress(pass, len(s.best.Decisions), s.runs)
	}
}

// adopt tries candidates, several at once, and takes the first in their order that breaks the invariant.
func (s *shrinker) adopt(candidates ...scenario.Scenario) bool { return s.adoptFirst(candidates) >= 0 }

// adoptFirst does as adopt does and returns the index of the candidate that it took, or -1.
func (s *shrinker) adoptFirst(candidates []scenario.Scenario) int {
	tried := 0
	for len(candidates) > 0 && (s.after == nil || !s.late()) {
		n := min(len(candidates), s.Workers)
		outcomes := make([]campaign.Outcome, n)
		var workers sync.WaitGroup
		for i, c := range candidates[:n] {
			workers.Go(func() { outcomes[i] = s.play(c) })
		}
		workers.Wait()
		s.runs += n
		for i, o := range outcomes {
			if o.Violation != nil && o.Violation.ID == s.best.Broke {
				s.best, s.after = candidates[i], o.Violation
				s.limit = min(s.limit, o.Events*5/4+20_000) // without delays a short run may have many more
				return tried + i
			}
		}
		candidates, tried = candidates[n:], tried+n
	}
	return -1
}

func (s *shrinker) play(c scenario.Scenario) campaign.Outcome {
	return campaign.Play(c.Config, c.Decider(c.First), append(s.hooks(), campaign.Limit(s.limit))...)
}

// variants returns a candidate with its own seed and with others. Where a race is equally likely with any
// seed, one of them will break the invariant.
func (s *shrinker) variants(c scenario.Scenario) []scenario.Scenario {
	all := []scenario.Scenario{c}
	if !c.Scripted {
		for i := range s.others {
			other := c
			other.First = s.Seed + i + 1
			other.Last = other.First
			all = append(all, other)
		}
	}
	return all
}

func (t *Task) hooks() []campaign.Hook {
	if t.Hook == nil {
		return nil
	}
	return slices.Clone([]campaign.Hook{t.Hook})
}
