package oracle

import (
	"testing"
	"time"

	"couchrelay/core/node"
)

func TestSpread(t *testing.T) {
	starts := func(delays ...time.Duration) func(*rig) {
		return func(r *rig) {
			var effects []node.Effect
			for i, d := range delays {
				effects = append(effects, node.StartRun{Run: uint64(i), Delay: d})
			}
			r.step(node.Wake{}, effects...)
		}
	}
	beats := func(gaps ...time.Duration) func(*rig) {
		return func(r *rig) {
			for _, d := range gaps {
				r.pass(d)
				r.step(node.Wake{}, ask(1, node.Beat{}))
			}
		}
	}
	const second = time.Second
	check(t, &spreadSubject, []case_{
		{"a start within the jitter", starts(time.Second), ""},
		{"a start after the jitter", starts(1001 * time.Millisecond), "S31a"},
		{"three starts together", starts(0, 0, 0), ""},
		{"four starts together", starts(0, 0, 0, 0), "S31b"},
		{"four starts, one later", starts(0, 0, 0, 1), ""},
		{"heartbeats in step", beats(second, second, second, second, second, second), "S31c"},
		{"fewer of them", beats(second, second, second, second, second), ""},
		{"one out of step", beats(second, second, second, 2*second, second, second, second, second), ""},
	})
}
