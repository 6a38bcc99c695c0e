package metrics

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

// agreement observes a lab with a meter, and compares what both say that a run has copied when it ends in order.
type agreement struct {
	*Meter
	t    *testing.T
	runs int
}

func (a *agreement) Observe(e lab.Event) {
	if j := e.Job; e.What == lab.Ended && e.Why == lab.GaveWay && a.w.Jobs[j].Continuous {
		a.advance(e.At)
		a.follow(j)
		if got := a.jobs[j].copied - a.jobs[j].base; math.Abs(got-e.Copied) > 1e-3*(1+e.Copied) {
			a.t.Errorf("%v: a run of job %d has copied %v changes for the meter, and %v for the lab",
				e.At, j, got, e.Copied)
		}
		a.runs++
	}
	a.Meter.Observe(e)
}

// TestLab plays 60 jobs on two nodes with 10 slots each, one of which fails, and has a server away for a while.
func TestLab(t *testing.T) {
	w := &workload.Workload{Outages: []workload.Outage{{Server: 1, From: 8 * hour, To: 9 * hour}}}
	for a, shares := range []int64{100, 100, 200} {
		w.Accounts = append(w.Accounts, workload.Account{Name: fmt.Sprintf("a%d/_replicator", a), Shares: shares})
	}
	for n := range 60 {
		j := workload.Job{ID: fmt.Sprint(n), Account: n % 3, Server: n / 50}
		j.Startup, j.Speed, j.Backlog = 7*second, 20, 3000
		if j.Continuous = n%10 > 0; j.Continuous {
			j.Rate = float64(n % 7)
		}
		if n%4 == 0 {
			j.Every, j.Burst, j.Phase = 13*minute, minute, time.Duration(n%13)*minute/2
		}
		if n%5 == 0 {
			j.MTBF = 3 * hour
		}
		w.Jobs = append(w.Jobs, j)
	}
	c := lab.Config{
		Settings: config.Default(), Workload: w, Nodes: 2, Duration: 24 * hour, Latency: 5 * time.Millisecond,
		Checkpoint: 30 * second, StopTime: second, Seed: 1,
		Failures: []lab.Failure{{Node: 1, At: 12 * hour, For: hour}},
	}
	c.Settings.Node.MaxJobs, c.Settings.Node.MaxChurn = 10, 4
	c.Settings.Replicator.Sharing.Shares = map[string]int64{"a1/_replicator": 500}
	m, err := New(w, Options{WarmUp: 2 * hour, Duration: c.Duration, Series: true})
	if err != nil {
		t.Fatal(err)
	}
	both := &agreement{Meter: m, t: t}
	if err := lab.Run(context.Background(), c, both); err != nil {
		t.Fatal(err)
	}
	r := m.Result()
	if both.runs < 100 || math.IsNaN(r.Value("recovery")) || r.Value("lost-work") == 0 {
		t.Errorf("%d runs, recovery %v, lost work %v", both.runs, r.Value("recovery"), r.Value("lost-work"))
	}
	if got := r.AccountValue(1, "entitled-share"); got < 55 || got > 65 {
		t.Errorf("account 1 with 500 of 800 shares is entitled to %v %%", got)
	}
}
