package campaign

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"
)

const probeVariable = "COUCHRELAY_TEST_PROBE"

// TestMain plays a probe when the test runs itself as another process.
func TestMain(m *testing.M) {
	var p Probe
	if text := os.Getenv(probeVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			panic(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(p.Play(calm(p.Seed), plantClock)); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// calm is a world without faults.
func calm(seed uint64) World {
	c := world.Default()
	c.Duration = 2 * time.Minute
	return World{Config: c, Decider: func() *decide.Decider { return decide.New(decide.Seed(seed)) }}
}

// plantedAt is when the planted nondeterminism shows.
const plantedAt = 70 * time.Second

// plantClock lets seed 1 depend on the real clock.
func plantClock(w *trial.Trial) {
	w.Engine.After(plantedAt, nil, "planted", func() {
		if w.Decider.Site("planted").Int(1000) == marked {
			w.Engine.Note(uint64(time.Now().UnixNano()))
		}
	})
}

// marked is what seed 1 draws at the site of the planted nondeterminism.
var marked = decide.New(decide.Seed(1)).Site("planted").Int(1000)

func here(p Probe) (Trail, error) { return p.Play(calm(p.Seed), plantClock), nil }

// elsewhere plays in another process on one core.
func elsewhere(p Probe) (t Trail, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return t, err
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), probeVariable+"="+string(text), "GOMAXPROCS=1")
	out, err := command.Output()
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(out, &t)
}

func TestEqualRuns(t *testing.T) {
	if d, err := Part(2, here, elsewhere); d != nil || err != nil {
		t.Errorf("%+v %v", d, err)
	}
}

// A planted dependence on the real clock is found, at the very event.
func TestPlantedNondeterminism(t *testing.T) {
	d, err := Part(1, here, elsewhere)
	if err != nil || d == nil {
		t.Fatal(d, err)
	}
	lines := strings.Join(d.Here.Lines, "\n")
	if !strings.Contains(lines, "planted") || strings.Join(d.There.Lines, "\n") != lines ||
		d.Here.Hash == d.There.Hash {
		t.Errorf("%+v", d)
	}
	if len(d.OnlyHere)+len(d.OnlyThere) > 0 {
		t.Errorf("the states differ: %v %v", d.OnlyHere, d.OnlyThere)
	}
}

// A run that does something else shows in its states.
func TestStatesDiffer(t *testing.T) {
	other := func(p Probe) (Trail, error) {
		return p.Play(calm(p.Seed), plantClock, func(w *trial.Trial) {
			w.Engine.After(80*time.Second, nil, "restored",
				func() { w.Do(world.Event{What: world.DBRecreated, Whom: "s1/a1"}) })
		}), nil
	}
	d, err := Part(2, here, other)
	if err != nil || d == nil || len(d.OnlyHere) == 0 || len(d.OnlyThere) == 0 ||
		!strings.Contains(strings.Join(d.There.Lines, " "), "restored") {
		t.Errorf("%+v %v", d, err)
	}
}

// TestTracesAreTheSame: what a replay shows of a seed is the same each time, without addresses of this process.
func TestTracesAreTheSame(t *testing.T) {
	trace := func(seed uint64) (lines []string) {
		Play(world.Swarm(seed, world.Small), decide.New(decide.Seed(seed)), Limit(20_000), func(w *trial.Trial) {
			w.Engine.Trace = func(at instant.Time, step uint64, actor, text string) {
				lines = append(lines, fmt.Sprint(at, step, actor, text))
			}
		})
		return lines
	}
	for seed := range uint64(4) {
		first, again := trace(seed), trace(seed)
		if len(first) < 1000 || len(first) != len(again) {
			t.Errorf("seed %d: %d lines, and %d", seed, len(first), len(again))
			continue
		}
		for i := range first {
			if first[i] != again[i] {
				t.Errorf("seed %d: %.300s\nand\n%.300s", seed, first[i], again[i])
				break
			}
		}
	}
}
