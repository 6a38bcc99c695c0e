package lab_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

// steady is a workload of accounts with shares and numbers of continuous jobs.
func steady(accounts ...[2]int) *workload.Workload {
	w := &workload.Workload{}
	for a, n := range accounts {
		w.Accounts = append(w.Accounts, workload.Account{Name: fmt.Sprintf("t%d/_replicator", a), Shares: int64(n[0])})
		for j := range n[1] {
			w.Jobs = append(w.Jobs, workload.Job{
				ID: fmt.Sprintf("j%d-%d", a, j), Account: a, Continuous: true,
				Startup: time.Second, Speed: 100, Rate: 1,
			})
		}
	}
	return w
}

func settings() config.Settings { return config.Default() }

// slots sums up the time for which each account had slots.
type slots struct {
	w     *workload.Workload
	since map[int]time.Duration
	Held  []time.Duration
	Count map[lab.What]int
}

func (s *slots) Observe(e lab.Event) {
	s.Count[e.What]++
	switch e.What {
	case lab.Started:
		s.since[e.Job] = e.At
	case lab.Ended:
		s.Held[s.w.Jobs[e.Job].Account] += e.At - s.since[e.Job]
	}
}

func newSlots(w *workload.Workload) *slots {
	held := make([]time.Duration, len(w.Accounts))
	return &slots{w: w, since: map[int]time.Duration{}, Held: held, Count: map[lab.What]int{}}
}

func base(w *workload.Workload) lab.Config {
	return lab.Config{
		Settings: settings(), Workload: w, Nodes: 1, Duration: 24 * time.Hour, Latency: 5 * time.Millisecond,
		Checkpoint: 30 * time.Second, StopTime: 100 * time.Millisecond, Seed: 1,
	}
}

func BenchmarkDay(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n, " jobs"), func(b *testing.B) {
			w := steady([2]int{200, n / 5}, [2]int{100, n / 2}, [2]int{50, n * 3 / 10})
			for b.Loop() {
				s := newSlots(w)
				if err := lab.Run(context.Background(), base(w), s); err != nil {
					b.Fatal(err)
				}
				b.Log(s.Held, s.Count)
			}
			b.ReportMetric(24*3600*float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
		})
	}
}
