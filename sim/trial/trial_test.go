package trial

import (
	"testing"
	"time"

	"couchrelay/sim/decide"
	"couchrelay/sim/world"
)

func TestCalm(t *testing.T) {
	for seed := range 20 {
		w := New(world.Default(), decide.New(decide.Seed(seed)))
		if v := w.Run(); v != nil {
			t.Fatalf("seed %d: %s", seed, v)
		}
	}
}

// TestOracleChangesNothing: a world goes on as it does whether it is judged or not.
func TestOracleChangesNothing(t *testing.T) {
	for seed := range uint64(30) {
		c := world.Swarm(seed, world.Small)
		c.Duration = 20 * time.Minute
		judged := New(c, decide.New(decide.Seed(seed)))
		judged.Begin()
		judged.Engine.Run(judged.End(), judged.broken)
		alone := world.New(c, decide.New(decide.Seed(seed)))
		alone.Begin()
		alone.Engine.Run(alone.End(), nil)
		if v := judged.Violation(); v != nil {
			t.Errorf("seed %d: %s", seed, v)
		} else if judged.Hash() != alone.Hash() {
			t.Errorf("seed %d: %016x when it is judged, %016x when not", seed, judged.Hash(), alone.Hash())
		}
		judged.Close()
		alone.Close()
	}
}
