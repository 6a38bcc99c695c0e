package campaign

import (
	"errors"
	"fmt"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/sim/trial"
)

// Probe says what to record of a run, to compare it with another run of the same seed. Equal runs have equal
// hashes after every event.
type Probe struct {
	Seed uint64
	// Every is the number of events between two recorded hashes; 0 for none.
	Every uint64
	// From and To ask for the events after From up to To, each with its hash, and for the state after To.
	// With a To of 0 none are recorded.
	From, To uint64
}

// Trail is what was recorded of a run.
type Trail struct {
	Seed, Events, Hash uint64
	Violation          string   `json:",omitempty"`
	Marks              []uint64 `json:",omitempty"` // hashes, as Probe.Every asks
	Steps              []Step   `json:",omitempty"` // as Probe.From and To ask
	State              []string `json:",omitempty"`
}

// Step is an event.
type Step struct {
	Number, Hash uint64
	Lines        []string // of the trace
}

// Prober plays a seed, in this process or another.
type Prober func(Probe) (Trail, error)

// Play plays a run and records it.
func (p Probe) Play(world World, hooks ...Hook) Trail {
	t := Trail{Seed: p.Seed}
	o := Play(world.Config, world.Decider(), append(hooks, func(w *trial.Trial) { p.watch(w, &t) })...)
	t.Events, t.Hash = o.Events, o.Hash
	if o.Violation != nil {
		t.Violation = o.Violation.String()
	}
	return t
}

// watch collects what the probe asks for.
func (p Probe) watch(w *trial.Trial, t *Trail) {
	var lines []string
	if p.To > 0 {
		w.Engine.Trace = func(at instant.Time, step uint64, actor, text string) {
			if step >= p.From && step <= p.To {
				lines = append(lines, fmt.Sprintf("%s %s %s", at, actor, text))
			}
		}
	}
	After(w, func() {
		n := w.Engine.Played()
		if p.Every > 0 && n%p.Every == 0 {
			t.Marks = append(t.Marks, w.Engine.Hash())
		}
		if n > p.From && n <= p.To {
			t.Steps = append(t.Steps, Step{n, w.Engine.Hash(), lines})
		}
		lines = nil
		if p.To > 0 && n == p.To {
			t.State = w.Dump()
		}
	})
}

// Difference is the first difference between two runs of a seed.
type Difference struct {
	Seed uint64
	// Event is the number of the first event after which the hashes differ. Here and There are that event in
	// both runs; the step of a run that was over by then has no lines.
	Event       uint64
	Here, There Step
	// OnlyHere and OnlyThere are the lines of the states after the event that only one of the runs has.
	OnlyHere, OnlyThere []string
}

// ErrFleeting means that two runs differed, and did not when they were played again.
var ErrFleeting = errors.New("campaign: the runs differed once and not again")

// Part finds the event at which two runs of a seed part: first among hashes of every 1,000th event, then
// among those of the events between. It returns nil when they are equal.
func Part(seed uint64, here, there Prober) (*Difference, error) {
	a, b, err := both(Probe{Seed: seed, Every: window}, here, there)
	if err != nil || a.Hash == b.Hash && a.Events == b.Events && a.Violation == b.Violation {
		return nil, err
	}
	first := 0
	for first < len(a.Marks) && first < len(b.Marks) && a.Marks[first] == b.Marks[first] {
		first++
	}
	from := uint64(first) * window
	a, b, err = both(Probe{Seed: seed, From: from, To: from + window}, here, there)
	if err != nil {
		return nil, err
	}
	for i := range max(len(a.Steps), len(b.Steps)) {
		x, y := step(a.Steps, i, from), step(b.Steps, i, from)
		if x.Hash != y.Hash {
			return compare(seed, x, y, here, there)
		}
	}
	if a.Hash != b.Hash { // the events were the same, and what is left at the end is not
		return compare(seed, Step{Number: a.Events}, Step{Number: b.Events}, here, there)
	}
	return nil, ErrFleeting
}

const window = 1000

func both(p Probe, here, there Prober) (a, b Trail, err error) {
	if a, err = here(p); err == nil {
		b, err = there(p)
	}
	return a, b, err
}

func step(steps []Step, i int, from uint64) Step {
	if i < len(steps) {
		return steps[i]
	}
	return Step{Number: from + uint64(i) + 1}
}

// compare compares the states after the events at which two runs part.
func compare(seed uint64, x, y Step, here, there Prober) (*Difference, error) {
	d := &Difference{Seed: seed, Event: x.Number, Here: x, There: y}
	a, b, err := both(Probe{Seed: seed, From: x.Number, To: x.Number}, here, there)
	if err != nil {
		return nil, err
	}
	d.OnlyHere, d.OnlyThere = minus(a.State, b.State), minus(b.State, a.State)
	return d, nil
}

// minus returns the lines of a that b does not have.
func minus(a, b []string) (only []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			only = append(only, line)
		}
	}
	return only
}
