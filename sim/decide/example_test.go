package decide_test

import (
	"fmt"
	"strings"
	"time"

	"couchrelay/sim/decide"
)

// deliver sends five messages over a network whose faults are decided by d. An arrow is a message that
// arrived.
func deliver(d *decide.Decider) string {
	var faults decide.Table
	faults.Add("lost", decide.Scale/4)
	faults.Add("late", decide.Scale/4)
	network := d.Site("network")
	var log []string
	for range 5 {
		switch network.Pick(&faults) {
		case "lost":
			log = append(log, "lost")
		case "late":
			log = append(log, fmt.Sprint("late by ", network.Duration(time.Second, 9*time.Second).Round(time.Second)))
		default:
			log = append(log, "->")
		}
	}
	return strings.Join(log, ", ")
}

// A seed decides a whole run. The recorded choices replay the run, and leaving one out makes it simpler.
func Example() {
	d := decide.New(3).Recording()
	fmt.Println("seed 3:", deliver(d))
	choices := d.Choices()
	for _, c := range choices {
		fmt.Println("choice:", c)
	}
	fmt.Println("replayed:", deliver(decide.Script(choices)))
	fmt.Println("less one:", deliver(decide.Script(choices[1:])))
	fmt.Println("less all:", deliver(decide.Script(nil)))
	// Output:
	// seed 3: ->, lost, late by 2s, ->, ->
	// choice: network 1 lost
	// choice: network 2 late
	// choice: network 3 1.949105s
	// replayed: ->, lost, late by 2s, ->, ->
	// less one: ->, ->, late by 2s, ->, ->
	// less all: ->, ->, ->, ->, ->
}
