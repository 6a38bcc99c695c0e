package engine_test

import (
	"context"
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/engine"
)

// Coroutines wait in virtual time, which takes no real time. The one whose wait ends first goes on first.
func Example() {
	e := engine.New(0)
	for _, c := range []struct {
		name  string
		every time.Duration
	}{{"slow", 3 * time.Second}, {"fast", 2 * time.Second}} {
		e.Go(nil, c.name, func() {
			for range 2 {
				_ = e.Sleep(context.Background(), c.every)
				fmt.Println(c.name, "at", e.Now().Unix())
			}
		})
	}
	e.Run(instant.Never, nil)
	// Output:
	// fast at 2
	// slow at 3
	// fast at 4
	// slow at 6
}

// While a process is paused, none of its events happen. Those that fall due meanwhile happen when the pause
// ends.
func ExampleEngine_Pause() {
	e := engine.New(0)
	laptop := &engine.Process{Name: "laptop"}
	for _, at := range []time.Duration{time.Second, 2 * time.Second, time.Minute} {
		e.After(at, laptop, "tick", func() { fmt.Println("due at", at, "happens at", e.Now().Unix()) })
	}
	e.Pause(laptop, 10*time.Second)
	e.Run(instant.Never, nil)
	// Output:
	// due at 1s happens at 10
	// due at 2s happens at 10
	// due at 1m0s happens at 60
}

// The hash covers the time and the name of every event, and what is noted: equal runs have equal hashes.
func ExampleEngine_Hash() {
	play := func(balance uint64) uint64 {
		e := engine.New(0)
		e.After(time.Second, nil, "deposit", func() { e.Note(balance) })
		e.Run(instant.Never, nil)
		return e.Hash()
	}
	first, second := play(100), play(100)
	fmt.Println("equal runs:", first == second)
	fmt.Println("another balance:", first == play(99))
	// Output:
	// equal runs: true
	// another balance: false
}
