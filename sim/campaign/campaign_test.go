package campaign

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"couchrelay/sim/decide"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"
)

// stormy is a world with one fault that comes up all the time.
func stormy(seed uint64) World {
	w := calm(seed)
	w.Config.Rates = map[string]int{world.NodeCrash: 200_000, "fdb-conflict": 100_000, world.NetSwizzle: 0}
	return w
}

func TestReport(t *testing.T) {
	r := Campaign{World: stormy, First: 5, Seeds: 6, Sample: 2}.Run(t.Context())
	if r.Seeds != 6 || len(r.Hashes) != 6 || r.Hashes[5] == r.Hashes[6] || r.Events == 0 ||
		r.Virtual < 6*stormy(0).Config.Duration {
		t.Errorf("%+v", r)
	}
	crash, conflict := r.Faults[world.NodeCrash], r.Faults["fdb-conflict"]
	if crash.Enabled != 6 || crash.Fired == 0 || crash.Reached <= crash.Fired || crash.Sampled != 2 ||
		crash.Mattered != 2 {
		t.Errorf("%+v", crash)
	}
	if conflict.Fired == 0 || conflict.Mattered == 0 {
		t.Errorf("%+v", conflict)
	}
	if n := r.Faults[world.NetSwizzle]; n != nil && n.Enabled+n.Fired > 0 {
		t.Errorf("%+v", n)
	}
	again := Campaign{World: stormy, First: 5, Seeds: 6, Workers: 1, Sample: 2}.Run(t.Context())
	if !reflect.DeepEqual(again.Faults, r.Faults) {
		t.Errorf("on one core the faults are others")
	}
	for seed, hash := range r.Hashes {
		if again.Hashes[seed] != hash {
			t.Errorf("seed %d has two hashes", seed)
		}
	}
}

// breaking breaks an invariant in seeds from 3 on, and panics in seed 4.
func breaking(w *trial.Trial) {
	After(w, func() {
		if w.Engine.Played() != 500 {
			return
		}
		switch seed := w.Decider.Site("planted").Seed64(); {
		case seed == planted(4):
			panic("planted")
		case slices.Contains([]uint64{planted(3), planted(5), planted(6)}, seed):
			w.Fail("S99", "planted")
		}
	})
}

func planted(seed uint64) uint64 { return decide.New(decide.Seed(seed)).Site("planted").Seed64() }

func TestFailures(t *testing.T) {
	r := Campaign{World: calm, Seeds: 7, Hook: breaking}.Run(t.Context())
	var got []string
	for _, f := range r.Failures {
		got = append(got, f.Violation.ID)
	}
	if !slices.Equal(got, []string{"S99", Panicked, "S99", "S99"}) || r.Failures[0].Seed != 3 ||
		r.Failures[1].Stack == "" || r.Seeds != 7 {
		t.Errorf("%v %+v", got, r)
	}
	r = Campaign{World: calm, Seeds: 7, Hook: breaking, Stop: 1, Workers: 1}.Run(t.Context())
	if len(r.Failures) != 1 || r.Failures[0].Seed != 3 || r.Seeds != 4 {
		t.Errorf("%+v", r)
	}
}

// A panic inside of a coroutine is a violation that names the place.
func TestPanicInACoroutine(t *testing.T) {
	world := calm(1)
	o := Play(world.Config, world.Decider(), func(w *trial.Trial) {
		w.Engine.Go(nil, "bug", func() { panic("planted") })
	})
	const place = "panic: planted in sim/campaign.TestPanicInACoroutine.func1.1() (campaign_test.go:"
	if o.Violation == nil || o.Violation.ID != Panicked || !strings.HasPrefix(o.Violation.Text, place) {
		t.Errorf("%+v", o.Violation)
	}
}

func TestLimit(t *testing.T) {
	world := calm(1)
	o := Play(world.Config, world.Decider(), Limit(100))
	if !o.Abandoned || o.Violation != nil || o.Events != 101 {
		t.Errorf("%+v", o)
	}
}

// TestInterrupted: a campaign that is interrupted reports what it has played.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	progress := func(r *Report) {
		if r.Seeds == 3 {
			interrupt()
		}
	}
	r := Campaign{World: calm, Seeds: 100, Workers: 1, Progress: progress}.Run(ctx)
	if r.Seeds != 3 || len(r.Hashes) != 3 {
		t.Errorf("%d seeds, %d hashes after an interrupt at the third", r.Seeds, len(r.Hashes))
	}
}
