// Package scenario reads and writes the worlds of simulations as text: their size and settings, what goes
// wrong how often or when, and what users do. A file is made to be read: it says at its top what it shows.
//
//	# A store that is gone for two minutes.
//	# What must hold: no job is lost (S3a); all goes on by itself (L1).
//	seeds 1..20
//	nodes 3
//	duration 30m
//	rate doc-edit 50%
//	at 10m fdb-down for 2m
//	[replicator]
//	max_jobs = 10
//
// A line is a word and what belongs to it; "#" begins a comment. Times have units, as in 90s or 1h30m;
// parts are percent. The blocks [replicator] and [replicator.shares] have the keys, values and meaning that they
// have in production.
package scenario

import (
	"fmt"
	"os"

	"couchrelay/sim/decide"
	"couchrelay/sim/world"
)

// Scenario is what a file says.
type Scenario struct {
	// Text has the lines of the comment at the top, which says what the scenario shows and what must hold.
	Text []string
	// Broke is the invariant that the scenario once broke; empty for scenarios that are no regressions.
	Broke string
	// First and Last are the seeds to play. Both are 0 when Scripted.
	First, Last uint64
	// Scripted reports that no seed decides: all answers but those of Decisions are benign.
	Scripted bool
	// Decisions are recorded answers. With seeds and decisions, nothing happens but what the decisions say,
	// and seeds answer which, how many and how long.
	Decisions []decide.Choice
	Config    world.Config
	// Unused are keys that have no meaning in a simulation: those of connections and certificates, and shares
	// of accounts that the world does not have.
	Unused []string
}

// Base returns the world of an empty file: world.Default without faults and actions.
func Base() world.Config {
	c := world.Default()
	c.Rates, c.Actions = map[string]int{}, map[string]int{}
	return c
}

// Load reads a file.
func Load(path string) (*Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return s, nil
}

// Seeds returns the number of runs.
func (s *Scenario) Seeds() uint64 {
	if s.Scripted {
		return 1
	}
	return s.Last - s.First + 1
}

// Decider returns a new decider for the run of a seed.
func (s *Scenario) Decider(seed uint64) *decide.Decider {
	switch {
	case s.Scripted:
		return decide.Script(s.Decisions)
	case len(s.Decisions) > 0:
		return decide.Told(decide.Seed(seed), s.Decisions)
	}
	return decide.New(decide.Seed(seed))
}
