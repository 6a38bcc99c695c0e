package sweep

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/workload"
)

// Shares of [replicator.shares] are those that are kept, and those that metrics compare with.
func TestSharesOfSettings(t *testing.T) {
	p, _ := begin(t, `duration = 4h
warm-up = 1h
seeds = 1..1
per-account = share, entitled-share
[replicator]
max_jobs = 10
max_churn = 5
[replicator.shares]
tenant1/_replicator = 900
[workload]
accounts = 2
jobs = 40
`)
	r, err := p.Try(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := r.Runs[0].Metrics
	if got := float64(m["entitled-share/tenant1/_replicator"]); math.Abs(got-90) > 0.01 {
		t.Errorf("is entitled to %f", got)
	}
	if got := float64(m["share/tenant1/_replicator"]); math.Abs(got-90) > 5 {
		t.Errorf("has %f", got)
	}
	if len(r.Header.Axes) > 0 || r.Header.Points != 1 {
		t.Errorf("%+v", r.Header)
	}
}

// Runs of one trace differ by their seeds, and each is the same the second time. What a sweep costs is told by run.
func TestSeedsOfATrace(t *testing.T) {
	dir := t.TempDir()
	w, err := (&workload.Recipe{}).Build(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFile(filepath.Join(dir, "t.jsonl")); err != nil {
		t.Fatal(err)
	}
	plan := func(seeds string) *Plan {
		e, err := Parse(filepath.Join(dir, "x.ini"),
			"duration = 2h\nseeds = "+seeds+"\n[workload]\nfile = t.jsonl\n[replicator]\nmax_jobs = 5\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Plan("", 1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	r, err := plan("1..2").Try(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := Results{Runs: r.Runs[:1]}, Results{Runs: r.Runs[1:]}
	if len(first.Differences(&second)) == 0 {
		t.Error("both seeds measure the same")
	}
	again, err := plan("2..2").Try(t.Context(), Options{})
	if err != nil || len(again.Differences(&second)) > 0 {
		t.Error(again.Differences(&second), err)
	}
	if one, four := plan("1").Estimate, plan("1..4").Estimate; one <= 0 || four != 4*one {
		t.Errorf("one run is to take %s, and four %s", one, four)
	}
}

// A plan tells what comes too late to have an effect, and what more than a lifetime of computing costs.
func TestPlanTells(t *testing.T) {
	p, _ := begin(t, "duration = 2h\n[workload]\njobs = 10\narrival = even\nover = 4h\nshares_at = 1h\n"+
		"outage_at = 1h\noutages = 3\noutage_every = 1h\nrestart_at = 3h\n")
	if want := []string{"13 of 18 jobs", "2 of 3 outages"}; !slices.Equal(p.Late, want) {
		t.Errorf("%q, want %q", p.Late, want)
	}
	if p, _ := begin(t, "duration = 2h\n"); p.Late != nil {
		t.Errorf("%q", p.Late)
	}
	p, _ = begin(t, "duration = 3650d\nseeds = 1..10000\nnodes = 1000\n[replicator]\ninterval = 1s\n")
	if years := p.Estimate.Hours() / 24 / 365; years < 100 {
		t.Errorf("%.0f years", years)
	}
}

// A run that is under way ends when the sweep is stopped.
func TestCancelled(t *testing.T) {
	p, out := begin(t, "duration = 3650d\nseeds = 1..1\n[workload]\njobs = 10\n")
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	_, err := p.Run(ctx, out, Options{})
	stopped, is := errors.AsType[*Stopped](err)
	if !is || stopped.Done != 0 || !stopped.Kept || !strings.Contains(err.Error(),
		"stopped after 0 of 1 runs (context deadline exceeded); the same command goes on") {
		t.Error(err)
	}
}

// Every axis does something: points that differ are not the same run.
func TestAxesHaveEffects(t *testing.T) {
	for _, axis := range []string{
		"nodes = 1, 2", "latency = 1ms, 5s", "max_jobs = 5, 9", "max_churn = 1, 4", "interval = 30s, 2m",
		"usage_coeff = 0, 0.9",
		"priority_coeff = 0.5, 0.999", "scheduling_policy = fairshare, tags, fifo", "min_run_time_sec = 0, 10m",
		"startup_jitter = 0, 60s", "replicator.shares/tenant1/_replicator = 10, 1000", "workload/jobs = 20, 30",
		"workload/oneshot = 0, 0.5", "warm-up = 0s, 1h", "duration = 2h, 3h",
	} {
		text := "duration = 3h\nseeds = 1..1\n[replicator]\nmax_jobs = 6\n" +
			"[workload]\naccounts = 2\njobs = 20:40\nshares = 300:100\n"
		key, _, _ := strings.Cut(axis, " ")
		for _, fixed := range []string{"duration = 3h\n", "max_jobs = 6\n", "jobs = 20:40\n"} {
			if strings.HasPrefix(fixed, strings.TrimPrefix(key, "workload/")+" ") {
				text = strings.Replace(text, fixed, "", 1)
			}
		}
		p, _ := begin(t, text+"[sweep]\n"+axis+"\n")
		r, err := p.Try(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Runs[1:] {
			a, b := Results{Runs: r.Runs[i : i+1]}, Results{Runs: r.Runs[i+1 : i+2]}
			if len(a.Differences(&b)) == 0 {
				t.Errorf("%s changes nothing", axis)
			}
		}
	}
}
