package figures

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/sim/sweep"
	"couchrelay/sim/workload"
)

// TestLeftOut: figures tell of points that they do not show, and of means of some seeds only.
func TestLeftOut(t *testing.T) {
	r := results(t, strings.Replace(small, "priority_coeff = 0.5, 0.98", "scheduling_policy = fairshare, tags", 1))
	r.Summaries[0].Metrics[longest] = sweep.Interval{Mean: sweep.Number(math.NaN())}
	r.Summaries[2].Metrics[longest] = sweep.Interval{Mean: 1, Seeds: 2}
	for name, want := range map[string]string{
		"compare": "left out: 1 points without a value of longest-gap",
		"axis":    "left out: 2 points without a number for max_churn, or a value",
		"tau":     "left out: 3 points without τ, L or a value",
		"pareto":  "left out: 1 points without a value of both",
	} {
		c := Choice{Metrics: []string{longest}, Over: "max_churn"}
		if name == "pareto" {
			c.Metrics = []string{shareError, longest}
		}
		if name == "axis" {
			r.Summaries[1].Settings["max_churn"] = "many"
		}
		f, _ := Find(name)
		d, err := f.OfResults(r, c)
		if err != nil {
			t.Fatal(err)
		}
		r.Summaries[1].Settings["max_churn"] = "1"
		says := strings.Join(Says(d), "\n")
		if !strings.Contains(says, want) || !strings.HasSuffix(says, "1 points have means of some of the 3 seeds") {
			t.Errorf("%s says %q, want %q", name, says, want)
		}
	}
}

// TestLongNames: bars whose names have no room have the numbers of their points, which are told.
func TestLongNames(t *testing.T) {
	r := results(t, strings.Replace(small, "[sweep]", "[sweep]\ninterval = 30s, 1m", 1))
	f, _ := Find("compare")
	d, err := f.OfResults(r, Choice{})
	if err != nil {
		t.Fatal(err)
	}
	const name = "interval=30s, max_churn=1, priority_coeff=0.98"
	if says := Says(d); len(says) != 8 || says[1] != "2  "+name {
		t.Errorf("%q", says)
	}
	for width, want := range map[float64]string{0: ">2<", 180: ">" + name + "<"} {
		svg := string(drawn(t, d, Size{Width: width}, SVG))
		if !strings.Contains(svg, want) || strings.Contains(svg, "…") {
			t.Errorf("no %s in a figure of %v mm", want, width)
		}
	}
}

// TestTauOfAnotherTrace: turns are not computed of jobs that were not played.
func TestTauOfAnotherTrace(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "a.jsonl")
	write := func(jobs string) {
		var recipe workload.Recipe
		if err := recipe.Set("jobs", jobs); err != nil {
			t.Fatal(err)
		}
		w, err := recipe.Build(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteFile(trace); err != nil {
			t.Fatal(err)
		}
	}
	write("20")
	const text = "duration = 10m\nseeds = 1\n[replicator]\nmax_jobs = 4\n[workload]\nfile = a.jsonl\n[sweep]\n" +
		"max_churn = 1, 2"
	e, err := sweep.Parse(filepath.Join(dir, "a.ini"), text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Plan("test", 10)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Try(t.Context(), sweep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := Find("tau")
	if _, err := f.OfResults(r, Choice{}); err != nil {
		t.Error(err)
	}
	write("40")
	if _, err := f.OfResults(r, Choice{}); err == nil || !strings.Contains(err.Error(), "a.jsonl: is not the trace") {
		t.Error(err)
	}
}
