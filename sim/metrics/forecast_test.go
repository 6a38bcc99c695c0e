package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/forecast"
	"couchrelay/core/prng"
	"couchrelay/sim/lab"
	"couchrelay/sim/metrics"
	"couchrelay/sim/workload"
)

// TestForecast: what core/forecast predicts is what the nodes of production do: shares in points, the mean run and
// wait of each account in percent, starts, and what they cost.
func TestForecast(t *testing.T) {
	for _, c := range []struct {
		name         string
		keys         string
		nodes        int
		shares, jobs []int64
		points, time float64
		turns        time.Duration // how long it is played; turns brought forward come once in sixteen
	}{
		{"CouchDB's K2", "priority_coeff=0.98", 1, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 5, 9},
		{"auto", "", 1, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.7, 5, 9},
		{"extremes", "min_run_time_sec=0", 1, []int64{1000, 100, 1}, []int64{125, 150, 900}, 1, 50, 9},
		{"a least run", "", 1, []int64{1000, 100, 1}, []int64{125, 150, 900}, 1, 50, 9},
		{"a long least run", "min_run_time_sec=300", 1, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.7, 5, 9},
		{"two nodes", "max_jobs=50 max_churn=2", 2, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.7, 5, 9},
		{"tags", "scheduling_policy=tags", 1, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 2, 9},
		{"tags at 900:100", "max_jobs=50 max_churn=10 scheduling_policy=tags", 1, []int64{900, 100},
			[]int64{100, 100}, 0.5, 5, 60},
		{"tags at 1000:100:1", "max_jobs=75 max_churn=10 scheduling_policy=tags", 1, []int64{1000, 100, 1},
			[]int64{125, 150, 900}, 0.5, 5, 96},
		{"tags, some wait for fourteen turns", "max_jobs=20 scheduling_policy=tags", 1, []int64{200, 10},
			[]int64{80, 120}, 0.5, 5, 96},
		{"tags and a long least run", "max_jobs=20 min_run_time_sec=600 scheduling_policy=tags", 1,
			[]int64{200, 10}, []int64{80, 120}, 0.7, 5, 96},
		{"tags on two nodes", "max_jobs=10 max_churn=2 scheduling_policy=tags", 2, []int64{200, 5},
			[]int64{80, 120}, 0.7, 5, 96},
		{"fifo", "scheduling_policy=fifo", 1, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 2, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := config.Default()
			s.Node.MaxJobs, s.Node.MaxChurn = 100, 4
			for _, pair := range strings.Fields(c.keys) {
				key, value, _ := strings.Cut(pair, "=")
				if err := s.Set(key, value); err != nil {
					t.Fatal(err)
				}
			}
			w := &workload.Workload{}
			q := forecast.Queue{Nodes: c.nodes, Startup: 5 * time.Second}
			for a, n := range c.jobs {
				name := fmt.Sprintf("%c/_replicator", 'a'+a)
				s.Replicator.Sharing.Shares[name] = c.shares[a]
				w.Accounts = append(w.Accounts, workload.Account{Name: name, Shares: c.shares[a]})
				q.Accounts = append(q.Accounts, forecast.Account{Name: name, Jobs: n})
				for range n {
					w.Jobs = append(w.Jobs, workload.Job{
						Account: a, Continuous: true, Startup: q.Startup, Speed: 100, Rate: 1,
					})
				}
			}
			w.Jobs = shuffled(w.Jobs) // which job came first is remembered for many turns
			f := forecast.Of(s, q)
			cycle := f.Turn + scaledTurn(f)
			warm, until := c.turns/3*cycle, c.turns*cycle
			m, err := metrics.New(w, metrics.Options{WarmUp: warm, Duration: until})
			if err != nil {
				t.Fatal(err)
			}
			err = lab.Run(context.Background(), lab.Config{
				Settings: s, Workload: w, Nodes: c.nodes, Duration: until, Latency: 5 * time.Millisecond,
				Checkpoint: 30 * time.Second, StopTime: 100 * time.Millisecond, Seed: 1,
			}, m)
			if err != nil {
				t.Fatal(err)
			}
			r := m.Result()
			near := func(what string, predicted, measured, within float64) {
				t.Logf("%s: %.2f, measured %.2f", what, predicted, measured)
				if !(measured-within <= predicted && predicted <= measured+within) {
					t.Errorf("%s: %.2f, measured %.2f", what, predicted, measured)
				}
			}
			for a, o := range f.Accounts {
				near("share of "+o.Name, float64(o.Expected)/10_000, r.AccountValue(a, "share"), c.points)
				wait, run := r.Distribution("wait-turn", a).Mean(), r.Distribution("run-length", a).Mean()
				near("wait of "+o.Name, o.Wait.Seconds(), wait, wait*c.time/100)
				near("run of "+o.Name, o.Run.Seconds(), run, run*c.time/100)
				longest := r.AccountValue(a, "longest-gap")
				t.Logf("longest wait of %s: %.0f, measured %.0f", o.Name, o.LongestWait.Seconds(), longest)
				most := o.LongestWait.Seconds()
				if f.Memory < min(f.Turn, o.Wait) && (longest > 1.1*most || f.Memory == 0 && most > 1.5*longest) {
					t.Errorf("longest wait of %s: %.0f, measured %.0f", o.Name, o.LongestWait.Seconds(), longest)
				}
			}
			near("starts an hour", float64(f.Starts), r.Value("starts"), r.Value("starts")*0.05)
			near("cost of starts", float64(f.StartupCost)/10_000, r.Value("startup-share"), 0.1)
		})
	}
}

// scaledTurn is how long the jobs that have slots need for a turn at the speed of those that wait.
func scaledTurn(f forecast.Forecast) time.Duration {
	return f.Turn * time.Duration(f.Slots) / time.Duration(f.Waiting)
}

// shuffled has jobs come one after the other, in any order.
func shuffled(jobs []workload.Job) []workload.Job {
	rng, list := prng.New(1), make([]workload.Job, len(jobs))
	for i, j := range rng.Sample(len(jobs), len(jobs)) {
		list[i] = jobs[j]
		list[i].ID, list[i].Submit = fmt.Sprint(i), time.Duration(i)*time.Millisecond
	}
	return list
}
