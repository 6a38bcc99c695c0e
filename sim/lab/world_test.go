package lab_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/schedule"
	"couchrelay/sim/decide"
	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
	"couchrelay/sim/world"
)

// TestAsFullWorlds: a lab shares slots as a full world does, with servers, documents and the replications of
// production, when both have the same jobs. A run in a full world stops when its requests are over, so the two
// part by milliseconds; what accounts get, and how often jobs start, is the same.
func TestAsFullWorlds(t *testing.T) {
	for _, c := range []struct {
		policy schedule.Policy
		nodes  int
	}{{schedule.FairShare, 1}, {schedule.FairShare, 3}, {schedule.Tags, 2}, {schedule.FIFO, 1}} {
		t.Run(fmt.Sprintf("%s on %d", c.policy, c.nodes), func(t *testing.T) {
			config := calm(c.policy, c.nodes)
			full := playFull(config)
			small := playLab(t, config, full.jobs)
			for account, held := range full.held {
				want, got := held.Seconds()/full.total(), small.held[account].Seconds()/small.total()
				t.Logf("%s: %.3f in a full world, %.3f in a lab", account, want, got)
				if math.Abs(want-got) > 0.015 {
					t.Errorf("%s has %.3f of the slots in a full world, and %.3f in a lab", account, want, got)
				}
			}
			t.Logf("%d starts in a full world, %d in a lab", full.starts, small.starts)
			if d := math.Abs(float64(full.starts - small.starts)); d > 0.03*float64(full.starts) {
				t.Errorf("%d starts in a full world, and %d in a lab", full.starts, small.starts)
			}
		})
	}
}

// outcome is what accounts got.
type outcome struct {
	held   map[string]time.Duration // slots, by account
	jobs   map[string]int           // continuous jobs that ran more than once, by account
	starts int
}

func (o *outcome) total() (sum float64) {
	for _, d := range o.held {
		sum += d.Seconds()
	}
	return sum
}

// calm is a full world in which nothing goes wrong, with three accounts and more jobs than slots.
func calm(p schedule.Policy, nodes int) world.Config {
	c := world.Default()
	c.Nodes, c.Servers, c.Databases, c.Tenants, c.Jobs, c.Docs = nodes, 40, 4, 3, 60, 2
	c.Continuous, c.Filtered, c.Attached, c.Denied, c.NumericServers, c.BareServers = 100, 0, 0, 0, 0, 0
	c.Duration, c.Think, c.SlowReads = 5*time.Hour, time.Hour, 0
	c.Rates, c.Actions = map[string]int{}, map[string]int{}
	c.Settings.MaxJobs, c.Settings.MaxChurn = 12/nodes, max(1, 3/nodes)
	c.Sharing.Policy = p
	c.Sharing.Shares = map[string]int64{"_replicator": 200, "t1/_replicator": 100, "t2/_replicator": 50}
	return c
}

// settled is the time at the beginning that does not count.
const settled = time.Hour

func playFull(c world.Config) *outcome {
	o := &outcome{held: map[string]time.Duration{}, jobs: map[string]int{}}
	w := world.New(c, decide.New(decide.Seed(7)))
	defer w.Close()
	turns := map[string]int{} // of jobs; those whose replication another job has get one
	from := func(at instant.Time) instant.Time { return max(at, w.End().Add(settled-c.Duration)) }
	add := func(r *world.Run) {
		if now := w.View().Now(); now > from(r.Began()) {
			o.held[r.Record().Account()] += now.Sub(from(r.Began()))
		}
	}
	w.Observe(func(f world.Fact) {
		switch f := f.(type) {
		case world.RunStarted:
			o.starts++
			if turns[f.Run.JobID()]++; turns[f.Run.JobID()] == 2 {
				o.jobs[f.Run.Record().Account()]++
			}
		case world.RunEnded:
			add(f.Run)
		}
	})
	w.Begin()
	w.Engine.Run(w.End(), func() bool { return false })
	for _, p := range w.View().Nodes() {
		for _, r := range p.Runs() {
			add(r)
		}
	}
	return o
}

// labOutcome observes a lab.
type labOutcome struct {
	outcome
	w     *workload.Workload
	since map[int]time.Duration
}

// Observe is lab.Observer's.
func (o *labOutcome) Observe(e lab.Event) {
	switch e.What {
	case lab.Started:
		o.starts++
		o.since[e.Job] = e.At
	case lab.Ended:
		o.end(e.Job, e.At)
	}
}

func (o *labOutcome) end(job int, at time.Duration) {
	if from := max(o.since[job], settled); at > from {
		o.held[o.w.Accounts[o.w.Jobs[job].Account].Name] += at - from
	}
	delete(o.since, job)
}

func playLab(t *testing.T, c world.Config, jobs map[string]int) *outcome {
	w := &workload.Workload{}
	for _, account := range []string{"_replicator", "t1/_replicator", "t2/_replicator"} {
		w.Accounts = append(w.Accounts, workload.Account{Name: account, Shares: 100})
		for n := range jobs[account] {
			w.Jobs = append(w.Jobs, workload.Job{
				ID: fmt.Sprintf("%s%d", strings.TrimSuffix(account, "/_replicator"), n), Account: len(w.Accounts) - 1,
				Continuous: true, Speed: 1,
			})
		}
	}
	o := &labOutcome{outcome: outcome{held: map[string]time.Duration{}}, w: w, since: map[int]time.Duration{}}
	s := settings()
	s.Node, s.Replicator.Sharing, s.Replicator.Backoff = c.Settings, c.Sharing, c.Backoff
	err := lab.Run(context.Background(), lab.Config{
		Settings: s, Workload: w, Nodes: c.Nodes, Duration: c.Duration, Latency: c.StoreLatency,
		Checkpoint: c.CheckpointInterval, StopTime: 100 * time.Millisecond, Seed: 7,
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	for job := range o.since {
		o.end(job, c.Duration)
	}
	return &o.outcome
}
