package oracle

import (
	"testing"
	"time"

	"couchrelay/sim/world"
)

func TestLoad(t *testing.T) {
	events := func(r *rig, n int) {
		for range n {
			r.see(world.Stepped{})
		}
	}
	const perMinute = maxPerJob * (baseJobs + 8)   // the default world begins with 8 jobs
	more := func(r *rig) { r.w.Config.Jobs = 100 } // so many that events of an instant break B1a before B1b
	check(t, &loadSubject, []case_{
		{"as many events as an instant may have", func(r *rig) { more(r); events(r, maxInInstant) }, ""},
		{"one more", func(r *rig) { more(r); events(r, maxInInstant+1) }, "B1a"},
		{"another instant", func(r *rig) {
			more(r)
			events(r, maxInInstant)
			r.pass(time.Second)
			events(r, maxInInstant)
		}, ""},
		{"as many events as a minute may have", func(r *rig) { events(r, perMinute) }, ""},
		{"one more, a second later", func(r *rig) {
			events(r, perMinute)
			r.pass(time.Second)
			events(r, 1)
		}, "B1b"},
		{"one more, a minute later", func(r *rig) {
			events(r, perMinute)
			r.pass(time.Minute)
			events(r, 1)
		}, ""},
		{"one more, in a world with more jobs", func(r *rig) {
			r.w.Config.Jobs = 9
			events(r, perMinute+1)
		}, ""},
	})
}
