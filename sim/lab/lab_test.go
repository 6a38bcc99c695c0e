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

func base(w *workload.Workload) lab.Config {
	return lab.Config{
		Settings: settings(), Workload: w, Nodes: 1, Duration: 24 * time.Hour, Latency: 5 * time.Millisecond,
		Checkpoint: 30 * time.Second, StopTime: 100 * time.Millisecond, Seed: 1,
	}
}

// pace measures the time of the computer from one virtual moment on.
type pace struct {
	from  time.Duration
	began time.Time
}

func (p *pace) Observe(e lab.Event) {
	if p.began.IsZero() && e.At >= p.from {
		p.began = time.Now()
	}
}

// BenchmarkCycle plays a day with 500 slots and more and more jobs. It reports what an interval costs, as a multiple
// of what it costs with a thousand jobs, and how many times as fast as the clock that is. The first hour, in which
// the jobs are made, does not count.
func BenchmarkCycle(b *testing.B) {
	first := 0.0
	for _, n := range []int{1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n, " jobs"), func(b *testing.B) {
			w := steady([2]int{200, n / 5}, [2]int{100, n / 2}, [2]int{50, n * 3 / 10})
			spent, counted := 0.0, 23*time.Hour
			for b.Loop() {
				p := &pace{from: time.Hour}
				if err := lab.Run(context.Background(), base(w), p); err != nil {
					b.Fatal(err)
				}
				spent += time.Since(p.began).Seconds()
			}
			cycle := spent / float64(b.N) / counted.Minutes()
			if first == 0 {
				first = cycle
			}
			b.ReportMetric(cycle/first, "x-of-1000-jobs")
			b.ReportMetric(60/cycle, "x-real-time")
		})
	}
}
