// Package shrink makes a failing run small: it leaves out decisions, troubles and parts of the world as
// long as the same invariant breaks (delta debugging: Zeller and Hildebrandt, Simplifying and Isolating
// Failure-Inducing Input, 2002). What remains is a scenario without a seed.
package shrink

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/campaign"
	"couchrelay/sim/cluster"
	"couchrelay/sim/decide"
	"couchrelay/sim/scenario"
)

// Task is a failing run, and how long it may take to make it small.
type Task struct {
	World campaign.World
	// Hook, when set, sees every world before it runs.
	Hook campaign.Hook
	// Budget is real time; when it is used up the result is what was reached.
	Budget time.Duration
	// Workers is how many runs are tried at once; 0 means one on each core.
	Workers int
	// Progress, when set, is told of every pass.
	Progress func(pass string, decisions, runs int)
}

// Result is a run that still breaks the invariant.
type Result struct {
	Scenario *scenario.Scenario
	// Before is the violation of the run that was given, After that of the one that remains.
	Before, After *cluster.Violation
	// Decisions is how many answers of the given run were not benign; Runs is how many were tried.
	Decisions, Runs int
}

// Errors.
var (
	ErrHolds      = errors.New("shrink: the run breaks no invariant")
	ErrUnrepeated = errors.New("shrink: played from its decisions the run does not break the same invariant")
)

// candidate is a run that may break the invariant.
type candidate struct {
	config    cluster.Config
	decisions []decide.Choice
}

// shrinker is a run on its way.
type shrinker struct {
	Task
	id       string
	limit    uint64 // events
	deadline time.Time
	runs     int
	best     candidate
	end      instant.Time // of the best run, when its invariant broke
	after    *cluster.Violation
}

// Shrink makes a failing run small.
func Shrink(t Task) (*Result, error) {
	if t.Workers <= 0 {
		t.Workers = runtime.GOMAXPROCS(0)
	}
	first := campaign.Play(t.World.Config, t.World.Decider().Recording(), t.hooks()...)
	if first.Violation == nil {
		return nil, ErrHolds
	}
	s := &shrinker{Task: t, id: first.Violation.ID, limit: 2*first.Events + 10_000, deadline: time.Now().Add(t.Budget)}
	whole := candidate{t.World.Config, first.Choices}
	if !s.adopt(whole) {
		return nil, fmt.Errorf("%w: %s", ErrUnrepeated, first.Violation)
	}
	s.shrink()
	r := &Result{Before: first.Violation, After: s.after, Decisions: len(first.Choices), Runs: s.runs}
	r.Scenario = &scenario.Scenario{Broke: s.id, Scripted: true, Config: s.best.config, Decisions: s.best.decisions}
	return r, nil
}

// shrink repeats the passes until none of them helps.
func (s *shrinker) shrink() {
	s.groups()
	for {
		size := s.size()
		s.world()
		s.minimise()
		s.events()
		s.values()
		if s.size() >= size || s.late() {
			return
		}
	}
}

// size is what shrinking is about: the length of the file.
func (s *shrinker) size() int {
	return len(scenario.Format(&scenario.Scenario{Scripted: true, Config: s.best.config, Decisions: s.best.decisions}))
}

func (s *shrinker) late() bool { return time.Now().After(s.deadline) }

func (s *shrinker) told(pass string) {
	if s.Progress != nil {
		s.Progress(pass, len(s.best.decisions), s.runs)
	}
}

// adopt tries candidates, several at once, and takes the first in their order that breaks the invariant.
func (s *shrinker) adopt(candidates ...candidate) bool { return s.adoptFirst(candidates) >= 0 }

// adoptFirst is adopt and tells which was taken; -1 for none.
func (s *shrinker) adoptFirst(candidates []candidate) int {
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
			if o.Violation != nil && o.Violation.ID == s.id {
				s.best, s.after, s.end = candidates[i], o.Violation, o.Violation.At
				s.limit = min(s.limit, 2*o.Events+10_000)
				return tried + i
			}
		}
		candidates, tried = candidates[n:], tried+n
	}
	return -1
}

func (s *shrinker) play(c candidate) campaign.Outcome {
	return campaign.Play(c.config, decide.Script(c.decisions), append(s.hooks(), campaign.Limit(s.limit))...)
}

func (t *Task) hooks() []campaign.Hook {
	if t.Hook == nil {
		return nil
	}
	return []campaign.Hook{t.Hook}
}
