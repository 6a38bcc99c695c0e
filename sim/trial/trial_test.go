package trial

import (
	"testing"

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
