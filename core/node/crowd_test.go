package node

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// crowd is a node with many runs, and a store that has nothing but answers. The test decides when those come.
type crowd struct {
	*Node
	now   instant.Time
	ready []jobstore.Work
	asked []Ask // of runs, not answered yet
}

// newCrowd starts a node and has it take jobs.
func newCrowd(size int) *crowd {
	cfg := Config{Settings: DefaultSettings(), Name: "n", Worker: "n-1", Roles: AllRoles, Exclusive: true}
	cfg.MaxJobs = size
	c := &crowd{Node: New(cfg), now: instant.Seconds(1_700_000_000)}
	for i := range size {
		c.ready = append(c.ready, jobstore.Work{
			JobID:  fmt.Sprintf("0123456789abcdef0123456789abcdef|%032d", i),
			Record: &jobstore.Record{Database: "_replicator"}, Replication: &spec.Replication{Continuous: true},
		})
	}
	c.tell(Start{})
	return c
}

// tell steps the node, and answers what it asks for itself at once.
func (c *crowd) tell(ev Event) {
	for _, e := range c.Step(Clock{Steady: c.now, Wall: c.now}, ev) {
		ask, is := e.(Ask)
		if !is {
			continue
		}
		switch q := ask.Request.(type) {
		case EndsTurn, Record:
			c.asked = append(c.asked, ask)
		case Accept:
			some := min(len(c.ready), q.Demand.Max)
			work := c.ready[:some]
			c.ready = c.ready[some:]
			c.tell(Done{ID: ask.ID, Result: Accepted{Work: work}})
		case Sweep, Retire:
			c.tell(Done{ID: ask.ID, Result: Progressed{Done: true}})
		case Beat:
			c.tell(Done{ID: ask.ID, Result: Beaten{}})
		case ListLeases:
			c.tell(Done{ID: ask.ID, Result: Leases{}})
		case Join, Charge:
			c.tell(Done{ID: ask.ID, Result: Ok{}})
		}
	}
	_ = c.Deadline() // which a driver asks for after each step
}

// answer has the store answer all that runs asked for.
func (c *crowd) answer(fault Outcome) {
	for len(c.asked) > 0 {
		ask := c.asked[0]
		c.asked = c.asked[1:]
		c.tell(Done{ID: ask.ID, Result: Ok{}, Fault: fault})
	}
}

// each tells the node something of each run, in the order of their starts.
func (c *crowd) each(what func(run uint64) Event) {
	for id := uint64(1); id <= c.nextRun; id++ {
		c.tell(what(id))
	}
}

func progress(run uint64) Event { return RunProgress{Run: run} }

func stopped(run uint64) Event {
	return RunEnded{Run: run, End: replication.End{Cause: replication.Stopped}}
}

// ends are ways in which all runs of a crowd may end at once.
var ends = map[string]func(c *crowd){
	"stop": func(c *crowd) { // with a record of each under way, as after an outage
		c.each(progress)
		c.tell(Drain{})
		c.each(stopped)
		c.answer(Committed)
		c.answer(Committed)
	},
	"killed": func(c *crowd) {
		c.tell(Drain{})
		c.now = c.now.Add(c.cfg.StopTimeout)
		c.tell(Wake{})
		c.answer(Committed)
	},
	"halted": func(c *crowd) {
		c.each(progress)
		c.answer(Halted)
	},
	"taken away": func(c *crowd) {
		c.each(progress)
		c.now = c.now.Add(time.Second)
		c.onOwned(&call{id: 1, sent: c.now}, Owned{})
		c.each(stopped)
	},
	"taken away at their ends": func(c *crowd) { // which are not stored yet, since a record is under way
		c.each(progress)
		c.each(stopped)
		c.now = c.now.Add(time.Second)
		c.onOwned(&call{id: 1, sent: c.now}, Owned{})
		c.tell(Wake{})
	},
	"lost lease": func(c *crowd) {
		c.each(progress)
		c.loseLease("gone")
		c.tell(Wake{})
	},
}

// TestManyRunsEnd: what a run costs at its end does not grow with the number of the others.
func TestManyRunsEnd(t *testing.T) {
	const few, many = 200, 2000
	for name, end := range ends {
		cost := map[int]uint64{}
		for _, size := range []int{few, many} {
			c := newCrowd(size)
			if c.Running() != size {
				t.Fatalf("%d run", c.Running())
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			end(c)
			runtime.ReadMemStats(&after)
			cost[size] = (after.TotalAlloc - before.TotalAlloc) / uint64(size)
			if c.Running() != 0 {
				t.Errorf("%s: %d of %d runs are left", name, c.Running(), size)
			}
		}
		if cost[many] > 2*cost[few] {
			t.Errorf("%s: a run of %d costs %d bytes, one of %d %d", name, many, cost[many], few, cost[few])
		}
	}
}

// BenchmarkCrowd has a node take 5,000 jobs, and all their runs end at once. Outage has each repeat a request first.
func BenchmarkCrowd(b *testing.B) {
	const size = 5000
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			newCrowd(size)
		}
	})
	b.Run("progress", func(b *testing.B) {
		c := newCrowd(size)
		for b.Loop() {
			c.each(progress)
			c.answer(Committed)
		}
	})
	b.Run("outage", func(b *testing.B) {
		c := newCrowd(size)
		for b.Loop() {
			c.each(progress)
			c.answer(StoreDown)
			for range 1000 {
				c.now = c.now.Add(time.Millisecond)
				c.tell(Wake{})
			}
			c.answer(Committed)
		}
	})
	for name, end := range ends {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := newCrowd(size)
				b.StartTimer()
				end(c)
			}
		})
	}
}
