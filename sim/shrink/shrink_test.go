package shrink

import (
	"errors"
	"slices"
	"testing"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/decide"
	"couchrelay/sim/scenario"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"
)

// swarm is the world of a seed of the small profile, half an hour of it.
func swarm(seed uint64) campaign.World {
	c := world.Swarm(seed, world.Small)
	c.Duration = 30 * time.Minute
	for _, name := range []string{world.NodeCrash, world.DBRecreated, world.NodePause} {
		c.Rates[name] = 20_000
	}
	return campaign.World{Config: c, Decider: func() *decide.Decider { return decide.New(decide.Seed(seed)) }}
}

// plant breaks an invariant once a node has crashed and a database was recreated.
func plant(w *trial.Trial) {
	campaign.After(w, func() {
		if f := w.Faults.Fired; w.Violation() == nil && f[world.NodeCrash] > 0 && f[world.DBRecreated] > 0 {
			w.Fail("S2", "planted")
		}
	})
}

// What is planted is found again as the two events that cause it, in a world without anything else.
func TestPlanted(t *testing.T) {
	for seed := range uint64(3) {
		r, err := Shrink(Task{World: swarm(seed), Seed: seed, Hook: plant, Budget: time.Minute})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		s, text := r.Scenario, scenario.Format(r.Scenario)
		if s.Broke != "S2" || !s.Scripted || scenario.Lines(s) > 20 || s.Config.Jobs > 0 || s.Config.Nodes != 1 {
			t.Errorf("seed %d: %d decisions became in %d runs\n%s", seed, r.Decisions, r.Runs, text)
		}
		again, err := scenario.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if o := campaign.Play(again.Config, again.Decider(again.First), plant); o.Violation == nil ||
			o.Violation.ID != "S2" {
			t.Errorf("seed %d: the file does not repeat it: %+v", seed, o.Violation)
		}
		var happened []string
		for _, e := range s.Config.Events {
			happened = append(happened, e.What)
		}
		slices.Sort(happened)
		if !slices.Equal(happened, []string{world.DBRecreated, world.NodeCrash}) {
			t.Errorf("seed %d: not two events:\n%s", seed, text)
		}
	}
}

func TestNothingToShrink(t *testing.T) {
	calm := campaign.World{Config: world.Default(),
		Decider: func() *decide.Decider { return decide.New(decide.Seed(1)) }}
	if _, err := Shrink(Task{World: calm, Budget: time.Minute}); !errors.Is(err, ErrHolds) {
		t.Error(err)
	}
}

// The invariant stays the same: a run that breaks another one is no smaller version of this one.
func TestSameInvariant(t *testing.T) {
	other := func(w *trial.Trial) {
		campaign.After(w, func() {
			if w.Faults.Fired[world.NodeCrash] == 0 && w.Elapsed() > time.Minute && w.Violation() == nil {
				w.Fail("S3", "easy")
			}
			if w.Faults.Fired[world.NodeCrash] > 0 && w.Violation() == nil {
				w.Fail("S2", "planted")
			}
		})
	}
	drawn := swarm(1)
	drawn.Config.Events = []world.Event{{At: 30 * time.Second, What: world.NodeCrash}}
	r, err := Shrink(Task{World: drawn, Seed: 1, Hook: other, Budget: time.Minute})
	if err != nil || r.After.ID != "S2" || len(r.Scenario.Config.Events) != 1 {
		t.Errorf("%v %+v", err, r)
	}
}
