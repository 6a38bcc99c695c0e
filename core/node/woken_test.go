package node

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/replication"

	"pgregory.net/rapid"
)

// TestWokenWithoutPolls: whatever nodes join, leave, vanish or get another number of slots, a new job is taken soon if
// a slot is free anywhere, although no node looks for jobs by itself: nodes wait for all jobs together, also for those
// that were in the parts of others.
func TestWokenWithoutPolls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		start := func() *driven {
			slots := rapid.SampledFrom([]int{0, 1, 3, 20}).Draw(rt, "slots")
			return w.start(fmt.Sprint("n", len(w.nodes)), func(c *Config) {
				c.PollInterval, c.MaxJobs = 24*time.Hour, slots
			})
		}
		start()
		jobs, settles := 0, 6 // until nodes have looked at each other
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			d := rapid.SampledFrom(w.nodes).Draw(rt, "node")
			switch what := rapid.IntRange(0, 5).Draw(rt, "what"); {
			case what == 0 && len(w.nodes) < 6:
				start()
			case what == 1 && !d.paused && !d.exited:
				d.step(Drain{})
				d.stopAll()
			case what == 2:
				d.paused, settles = true, 60 // until others have given it up
			case what == 3 && !d.paused && !d.exited:
				s := d.cfg.Settings
				s.MaxJobs = rapid.SampledFrom([]int{0, 2, 20}).Draw(rt, "slots")
				d.step(Configure{Settings: s})
				d.stopAll()
			case what == 4 && len(d.running) > 0 && !d.paused && !d.exited:
				for id := range d.running {
					d.endRun(id, replication.Completed)
					break
				}
			}
			w.pass(time.Duration(rapid.IntRange(settles, settles+30).Draw(rt, "wait")) * time.Second)
			doc := fmt.Sprint("j", jobs)
			w.put(doc, fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b"}`, jobs))
			jobs++
			w.pass(patience + time.Second)
			free := false
			for _, n := range w.nodes {
				free = free || !n.paused && n.accepts() && n.lease == live && n.Running() < n.cfg.MaxJobs
			}
			if free && w.state(doc) == jobstore.Pending {
				rt.Fatalf("%s waits, though a slot is free", doc)
			}
		}
	})
}
