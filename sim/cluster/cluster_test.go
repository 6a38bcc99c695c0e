package cluster

import (
	"fmt"
	"testing"
	"time"

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

func TestTrace(t *testing.T) {
	c := Default()
	c.Jobs, c.Duration = 2, time.Minute
	w := New(c, decide.New(decide.Seed(1)))
	began := time.Now()
	v := w.Run()
	fmt.Println(v, w.Engine.Played(), w.Engine.Now(), time.Since(began), w.Hash())
}
