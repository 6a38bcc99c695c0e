package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/workload"
)

// turns counts the starts of each account from a time on.
type turns struct {
	w    *workload.Workload
	from time.Duration
	each [2]int
}

func (s *turns) Observe(e Event) {
	if e.What == Started && e.At >= s.from {
		s.each[s.w.Jobs[e.Job].Account]++
	}
}

// TestChangedShares: an account has at least four times as many turns as another once it has nine times the shares,
// by a change or by the settings, and as many before.
func TestChangedShares(t *testing.T) {
	for _, c := range []struct {
		exact, set bool
		change     time.Duration
	}{
		{change: 3 * time.Hour}, {exact: true, change: 3 * time.Hour}, {set: true}, {set: true, exact: true},
	} {
		l := hand(make([]job, 24)...)
		w := l.Workload
		w.Accounts = append(w.Accounts, workload.Account{Name: "b/_replicator", Shares: 100})
		for i := range w.Jobs {
			w.Jobs[i].Account, w.Jobs[i].Continuous = i/12, true
		}
		l.Exact, l.Duration, l.Settings.Replicator.Sharing.Policy = c.exact, 7*time.Hour, schedule.Tags
		if c.set {
			l.Settings.Replicator.Sharing.Shares = map[string]int64{"b/_replicator": 900}
		} else {
			w.Changes = []workload.Change{{At: c.change, Account: 1, Shares: 900}}
		}
		all, late := turns{w: w, from: 0}, turns{w: w, from: c.change}
		later := turns{w: w, from: c.change + 90*m} // tags of before the change are used up
		if err := Run(context.Background(), l, &all, &late, &later); err != nil {
			t.Fatal(err)
		}
		if d := all.each[0] - late.each[0] - (all.each[1] - late.each[1]); d < -2 || d > 2 {
			t.Errorf("%+v: one account has %d turns more while shares are equal", c, d)
		}
		if n := later.each; n[0] == 0 || n[1] < 4*n[0] {
			t.Errorf("%+v: %d turns", c, n)
		}
	}
}

// TestTuned: what nodes have the queue remember of usage grows with the number of waiting jobs, unless it is set.
func TestTuned(t *testing.T) {
	for _, coeff := range []int64{0, 980_000} {
		c := hand(make([]job, 300)...)
		for i := range c.Workload.Jobs {
			j := &c.Workload.Jobs[i]
			j.ID, j.Continuous, j.Submit = fmt.Sprint(i), i%5 > 0, time.Duration(i/7)*sec
			j.Backlog = float64(i)
		}
		c.Nodes, c.Settings.Node.MaxJobs, c.Latency, c.Duration = 2, 2, 5*time.Millisecond, 10*m
		c.Settings.Replicator.Sharing.Policy, c.Settings.Replicator.Sharing.PriorityCoeff = schedule.FairShare, coeff
		if err := playBoth(c); err != nil {
			t.Error(err)
		}
	}
}

// TestLostLease: the model refuses a worker whose jobs were given to others, as production's queue does, and
// returns its jobs in parts.
func TestLostLease(t *testing.T) {
	c := hand(job{}, job{}, job{})
	now := begin
	exact, err := NewExact(c, func() instant.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	b := &both{model: NewModel(c), exact: exact, beats: map[string][10]byte{}}
	for i := range c.Workload.Jobs {
		if err := b.Submit(i, now); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(q node.Request) (node.Result, node.Outcome) {
		t.Helper()
		now = now.Add(sec)
		r, err := b.Perform(q, now)
		if node.OutcomeOf(err) == node.StoreDown {
			t.Fatal(err)
		}
		return r, node.OutcomeOf(err)
	}
	accept := node.Accept{Worker: "w", Demand: jobs.Demand{Batch: 1, Max: 3}}
	if _, fault := ask(accept); fault != node.LeaseLost {
		t.Errorf("accept without a lease: %v", fault)
	}
	ask(node.Join{Worker: "w"})
	ask(node.Join{Worker: "v"})
	ask(accept)
	beat := func() *[10]byte { // of w, as seen now
		r, _ := ask(node.ListLeases{})
		return &r.(node.Leases).List[1].Beat
	}
	seen := beat()
	ask(node.Beat{Worker: "w"})
	ask(node.Expire{Worker: "w", Beat: seen, Limit: 2})
	if _, fault := ask(node.Beat{Worker: "w"}); fault != node.Committed {
		t.Errorf("a heartbeat after one that came in between: %v", fault)
	}
	seen = beat()
	for _, done := range []bool{false, true} {
		if r, _ := ask(node.Expire{Worker: "w", Beat: seen, Limit: 2}); r != (node.Progressed{Done: done}) {
			t.Errorf("%+v, want done: %t", r, done)
		}
		if _, fault := ask(node.Beat{Worker: "w"}); fault != node.LeaseLost {
			t.Errorf("heartbeat of an expired worker: %v", fault)
		}
		ask(node.ListLeases{})
		ask(node.ListOwned{Worker: "w"})
	}
	accept.Worker = "v"
	if r, _ := ask(accept); len(r.(node.Accepted).Work) != 3 {
		t.Errorf("accepted %+v", r)
	}
}

// TestRefused: what no run is possible with is an error that names the field.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		mistake func(c *Config)
		want    string
	}{
		{func(c *Config) { c.Workload = nil }, "no workload"},
		{func(c *Config) { c.Nodes = 0 }, "nodes = 0"},
		{func(c *Config) { c.Nodes = 1001 }, "nodes = 1001"},
		{func(c *Config) { c.Duration = 0 }, "duration = 0s"},
		{func(c *Config) { c.Latency = -1 }, "latency = -1ns"},
		{func(c *Config) { c.Checkpoint = 0 }, "checkpoint = 0s"},
		{func(c *Config) { c.StopTime = -1 }, "stop time = -1ns"},
		{func(c *Config) { c.Failures = []Failure{{Node: 1}} }, "failure of node 1"},
		{func(c *Config) { c.Failures = []Failure{{Node: -1}} }, "failure of node -1"},
		{func(c *Config) { c.Failures = []Failure{{At: -1}} }, "at -1ns"},
		{func(c *Config) { c.Failures = []Failure{{For: -1}} }, "for -1ns"},
		{func(c *Config) { c.Workload.Accounts[0].Name = "x" }, `account "x"`},
	} {
		l := hand(job{})
		c.mistake(&l)
		if err := Run(context.Background(), l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	signal := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(signal)
	if err := Run(ctx, hand(job{})); !errors.Is(err, signal) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestSettling: nodes of a fleet take no jobs for cluster_start_period after their start.
func TestSettling(t *testing.T) {
	l := hand(job{}, job{})
	l.Nodes, l.Settings.Settling = 2, 10*m
	l.Workload.Jobs[0].Continuous, l.Workload.Jobs[1].Continuous = true, true
	early, all := turns{w: l.Workload}, turns{w: l.Workload, from: 10 * m}
	if err := Run(context.Background(), l, &early, &all); err != nil {
		t.Fatal(err)
	}
	if all.each[0] == 0 || early.each[0] != all.each[0] {
		t.Errorf("%d starts, of which %d came after the period", early.each[0], all.each[0])
	}
}
