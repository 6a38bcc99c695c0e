package cluster

import (
	"testing"

	"couchrelay/sim/decide"
)

func TestCalm(t *testing.T) {
	for seed := range 20 {
		w := New(Default(), decide.New(decide.Seed(seed)))
		if v := w.Run(); v != nil {
			t.Fatalf("seed %d: %s", seed, v)
		}
	}
}
