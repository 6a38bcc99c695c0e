package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"couchrelay/sim/metrics"
	"couchrelay/sim/sweep"
)

const tiny = `# Two settings of a small queue.
duration = 1h
seeds = 1..3
[replicator]
max_jobs = 5
[workload]
jobs = 20
[sweep]
max_churn = 1, 4
`

// swept plays an experiment, and returns the directory that it is in.
func swept(t *testing.T) (dir, results string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tiny.ini", []byte(tiny), 0o644); err != nil {
		t.Fatal(err)
	}
	c := sweepCommand{File: "tiny.ini", PointsLimit: 10}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return ".", "tiny.results.jsonl"
}

func TestSweepThenReproduce(t *testing.T) {
	dir, results := swept(t)
	again := reproduceCommand{File: results}
	if err := again.Run(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 4 {
		t.Errorf("left are %v", left)
	}
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("tiny.results.reproduced.jsonl", text, 0o644); err != nil { // left by an earlier one
		t.Fatal(err)
	}
	if err := again.Run(); err != nil {
		t.Error(err)
	}
	other := bytes.Replace(text, []byte(`"starts":`), []byte(`"starts":1`), 1)
	if err := os.WriteFile(results, other, 0o644); err != nil {
		t.Fatal(err)
	}
	was, err := sweep.Open(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("is.jsonl", text, 0o644); err != nil {
		t.Fatal(err)
	}
	is, err := sweep.Open("is.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := again.judge(&out, was, is, "is.jsonl"); err == nil || !strings.Contains(out.String(),
		"point 1, seed 1: starts is ") ||
		!strings.Contains(out.String(), "1 values differ; the new results are in is.jsonl") {
		t.Error(err, out.String())
	}
}

// TestOverlappingMetrics: a metric that two names fit counts for both; one without a value takes nothing from others.
func TestOverlappingMetrics(t *testing.T) {
	_, results := swept(t)
	show := func(names ...string) (string, error) {
		c := compareCommand{File: results, Set: []string{"1", "2"}, Metrics: names}
		var out strings.Builder
		err := c.ofResults(&out)
		return out.String(), err
	}
	if text, err := show("start*", "starts", "recovery"); err != nil || !strings.Contains(text, "\nstarts ") {
		t.Error(err, text)
	}
	if text, err := show(); err != nil || !strings.Contains(text, "\nwaiting-at-end ") {
		t.Error("quantiles of waits are shown, and not how many did not end", err, text)
	}
	if _, err := show("recovery"); err == nil || !strings.Contains(err.Error(), "recovery: no metric of that name") {
		t.Error(err)
	}
}

// Tables fit into 100 columns, and all forms say the same.
func TestCompare(t *testing.T) {
	_, results := swept(t)
	show := func(format string) string {
		c := compareCommand{File: results, Set: []string{"max_churn=1", "2"}, Format: format, Metrics: []string{"*"}}
		var out strings.Builder
		if err := c.ofResults(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := show("table")
	for line := range strings.Lines(text) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, part := range []string{"a: max_churn=1\nb: max_churn=4\n", "\nstarts ", "worse\n", "better\n", "other\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(show("csv"))).ReadAll()
	var pairs []pair
	if err := json.Unmarshal([]byte(show("json")), &pairs); err != nil {
		t.Fatal(err)
	}
	if err != nil || len(pairs) != 1 || len(rows) != 1+len(pairs[0].Differences) ||
		len(rows) != strings.Count(text, "\n")-4 { // the lines of the header
		t.Fatalf("%v: %d rows, %d pairs", err, len(rows), len(pairs))
	}
	for _, d := range pairs[0].Differences { // no account can be behind when there is one
		if strings.HasPrefix(d.Metric.Name, "lag-") && (d.A.Mean != 0 || d.B.Mean != 0) {
			t.Errorf("%s: %v and %v", d.Metric.Name, d.A.Mean, d.B.Mean)
		}
	}
}

func TestFrontAndEffects(t *testing.T) {
	_, results := swept(t)
	c := compareCommand{File: results, Pareto: []string{"starts", "wait-turn-p50"}, Sensitivity: []string{"starts"}}
	var out strings.Builder
	if err := c.ofResults(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1      max_churn=1", "2      max_churn=4", "starts (1/h)  max_churn  1     4   ",
		"rank correlation", "  starts (1/h)  wait-turn-p50 (s)\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestFrontForPrograms: as CSV and JSON the numbers of fronts and effects are those of the results, with all digits.
func TestFrontForPrograms(t *testing.T) {
	_, results := swept(t)
	r, err := sweep.Open(results)
	if err != nil {
		t.Fatal(err)
	}
	show := func(c compareCommand) string {
		c.File = results
		var out strings.Builder
		if err := c.ofResults(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const metric = "utilisation"
	var front []map[string]any
	text := show(compareCommand{Pareto: []string{metric}, Format: "json"})
	if err := json.Unmarshal([]byte(text), &front); err != nil || len(front) != 1 {
		t.Fatal(err, text)
	}
	point, _ := front[0]["point"].(float64)
	best := float64(max(r.Summaries[0].Metrics[metric].Mean, r.Summaries[1].Metrics[metric].Mean))
	if point < 1 || front[0][metric] != best {
		t.Errorf("the best mean is %v: %s", best, text)
	}
	text = show(compareCommand{Pareto: []string{metric}, Format: "csv"})
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][2] != full(sweep.Number(best)) {
		t.Errorf("the best mean is %v: %v %v", best, rows, err)
	}
	var effects []map[string]any
	text = show(compareCommand{Sensitivity: []string{metric}, Format: "json"})
	change := float64(r.Summaries[1].Metrics[metric].Mean - r.Summaries[0].Metrics[metric].Mean)
	if err := json.Unmarshal([]byte(text), &effects); err != nil || effects[0]["change"] != change ||
		effects[0]["pairs"] != 1.0 {
		t.Errorf("%v; the change is %v: %s", err, change, text)
	}
}

// An experiment is compared with itself under other settings; what it sweeps is left out.
func TestCompareExperiment(t *testing.T) {
	swept(t)
	c := compareCommand{File: "tiny.ini", Set: []string{"scheduling_policy=fifo,max_churn=3"}, Out: "pair.jsonl"}
	r, err := c.playSets()
	if err != nil || len(r.Summaries) != 2 || settingsOf(r, 1) != "as in the file" ||
		settingsOf(r, 2) != "scheduling_policy=fifo, max_churn=3" {
		t.Fatal(r, err)
	}
	again := reproduceCommand{File: "pair.jsonl"}
	if err := again.Run(); err != nil {
		t.Error(err)
	}
}

func TestRefusedComparisons(t *testing.T) {
	_, results := swept(t)
	for want, c := range map[string]compareCommand{
		"--set KEY=VALUE must be given": {File: "tiny.ini"},
		"--set x: no such key":          {File: "tiny.ini", Set: []string{"x=1"}},
		"max_churn=1: two of the points": {File: "tiny.ini", Set: []string{"max_churn=1",
			"max_churn=1"}},
		"tiny.ini: [replicator] max_churn = x":               {File: "tiny.ini", Set: []string{"max_churn=x"}},
		"--pareto and --sensitivity are for results":         {File: "tiny.ini", Pareto: []string{"starts"}},
		"of results, --set must be given twice or more":      {File: results, Set: []string{"1"}},
		"--set 7: there is no such point; must be from 1 to": {File: results, Set: []string{"1", "7"}},
		"--out, --workers and --restart are for experiments": {File: results, Set: []string{"1", "2"}, Out: "x"},
		"--metrics q*: no metric of that name": {File: results, Set: []string{"1", "2"},
			Metrics: []string{"q*"}},
		"--pareto q: no such metric; known are": {File: results, Pareto: []string{"q"}},
		"--pareto turnaround-p50,starts: no point has a value of each": {File: results,
			Pareto: []string{"turnaround-p50", "starts"}},
		"--sensitivity q: no such metric": {File: results, Sensitivity: []string{"q"}},
		"--out x.csv: must end in .jsonl": {File: "tiny.ini", Set: []string{"nodes=1"}, Out: "x.csv"},
		"open none.jsonl":                 {File: "none.jsonl"},
		"open none.ini":                   {File: "none.ini", Set: []string{"nodes=1"}},
	} {
		if err := c.Run(); err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(),
			want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// The metrics that are shown unless told otherwise are there.
func TestUsualMetrics(t *testing.T) {
	for _, p := range usual {
		name, _, _ := strings.Cut(p, "/") // ACCOUNT
		if !slices.ContainsFunc(metrics.Definitions, func(d metrics.Definition) bool { return fits(name, d.Name) }) {
			t.Errorf("no metric is called %s", p)
		}
	}
}

// TestRestart: what is told to restart can be restarted, and begins anew whatever is there.
func TestRestart(t *testing.T) {
	_, results := swept(t)
	set := []string{"max_churn=1", "max_churn=2"}
	out := "both.jsonl"
	for _, c := range []interface{ Run() error }{
		&compareCommand{File: "tiny.ini", Set: set, Out: out, Restart: true},
		&compareCommand{File: "tiny.ini", Set: set, Out: out, Restart: true},
		&reproduceCommand{File: results, Out: out, Restart: true},
		&sweepCommand{File: "tiny.ini", PointsLimit: 10, Out: out, Restart: true},
	} {
		if err := os.WriteFile(out+".partial", []byte("of another program"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(); err != nil {
			t.Errorf("%T: %v", c, err)
		}
	}
	for _, c := range []interface{ Run() error }{
		&compareCommand{File: "tiny.ini", Set: set, Restart: true},
		&compareCommand{File: results, Set: set, Restart: true},
	} {
		if err := c.Run(); err == nil || !strings.Contains(err.Error(), "--restart") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSomeSeedsHaveAValue: a table tells which differences are of fewer seeds than the others.
func TestSomeSeedsHaveAValue(t *testing.T) {
	_, results := swept(t)
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	value := regexp.MustCompile(`"wait-turn-p50":[0-9.]+`).FindIndex(text) // of the first seed
	text = slices.Concat(text[:value[0]], []byte(`"wait-turn-p50":null`), text[value[1]:])
	if err := os.WriteFile(results, text, 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := compareCommand{File: results, Set: []string{"1", "2"}, Format: "table"}
	if err := c.ofResults(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		is := strings.HasSuffix(line, "  better (2 of 3 seeds)\n")
		if is != strings.HasPrefix(line, "wait-turn-p50 ") || !is && strings.Contains(line, " of 3 seeds") {
			t.Error(line)
		}
	}
}

// TestOtherSummaries: results whose summaries are not those of their runs are not reproduced.
func TestOtherSummaries(t *testing.T) {
	_, results := swept(t)
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte(`{"summary"`))
	other := slices.Concat(text[:at], bytes.Replace(text[at:], []byte(`"seeds":3`), []byte(`"seeds":2`), 1))
	if err := os.WriteFile(results, other, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (&reproduceCommand{File: results}).Run(); err != status(1) {
		t.Errorf("reproduced: %v", err)
	}
}

// errFull is the error of a full disk, and fullDisk a file on it.
var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestComparisonOnAFullDisk: a comparison that is not written whole is an error.
func TestComparisonOnAFullDisk(t *testing.T) {
	_, results := swept(t)
	for _, format := range []string{"table", "csv", "json"} {
		for _, c := range []compareCommand{
			{Set: []string{"1", "2"}}, {Pareto: []string{"starts"}}, {Sensitivity: []string{"starts"}},
		} {
			c.File, c.Format = results, format
			if err := c.ofResults(fullDisk{}); !errors.Is(err, errFull) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
	if err := printCatalogue(fullDisk{}, nil); !errors.Is(err, errFull) {
		t.Errorf("faults: %v", err)
	}
}

// TestNoSuchMetric: a name that no metric has is refused before anything is played.
func TestNoSuchMetric(t *testing.T) {
	for _, name := range []string{"nosuch", "wait-[", "turnaround", "share-error/_replicator"} {
		c := compareCommand{File: "none.ini", Set: []string{"max_churn=1"}, Metrics: []string{"wait-*", name}}
		if _, err := c.playSets(); err == nil || !strings.HasPrefix(err.Error(), "--metrics "+name+": no metric has") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"*", "starts", "share/_replicator", "wait-*/*"} {
		if err := (&compareCommand{Metrics: []string{name}}).checkMetrics(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
