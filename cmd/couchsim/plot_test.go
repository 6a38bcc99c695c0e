package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/figures"
	"couchrelay/sim/sweep"

	"github.com/alecthomas/kong"
)

const plotted = `duration = 1h
seeds = 3..4
[replicator]
max_jobs = 4
[workload]
jobs = 20
[sweep]
max_churn = 1, 2
`

// plotFiles writes an experiment and its results.
func plotFiles(t *testing.T) (experiment, results string) {
	t.Helper()
	dir := t.TempDir()
	experiment, results = filepath.Join(dir, "a.ini"), filepath.Join(dir, "a.results.jsonl")
	if err := os.WriteFile(experiment, []byte(plotted), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := sweep.Load(experiment)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Plan("couchsim sweep a.ini", 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), results, sweep.Options{}); err != nil {
		t.Fatal(err)
	}
	return experiment, results
}

// plot runs the command with arguments, and returns what it writes to the terminal and to its file.
func plot(t *testing.T, args ...string) (says, warns string, file []byte, err error) {
	t.Helper()
	var c plotCommand
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		return "", "", nil, err
	}
	var out, notes bytes.Buffer
	if err := c.draw(&out, &notes); err != nil {
		return "", "", nil, err
	}
	file, err = os.ReadFile(c.Out)
	return out.String(), notes.String(), file, err
}

func TestPlot(t *testing.T) {
	experiment, results := plotFiles(t)
	svg := filepath.Join(filepath.Dir(experiment), "a.svg")
	for _, c := range []struct{ args, want string }{
		{experiment + " --figure shares", "couchsim plot a.ini --figure shares --seed 3, couchrelay"},
		{experiment + " --figure lag --window 2m", "--seed 3 --window 2m0s, couchrelay"},
		{experiment + " --figure lag --seed 7 --window 2m --width 120 --height 50", `="340.16pt" height="141.73pt"`},
		{experiment + " --figure shares --set max_churn=1,max_jobs=8", "--set max_churn=1,max_jobs=8, couchrelay"},
		{experiment + " --figure churn --vary scheduling_policy=fairshare,tags", ">tags<"},
		{experiment + " --figure waits --vary max_churn=1,2", ">max_churn=2<"},
		{experiment + " --figure gantt --jobs 5", ">waiting<"},
		{experiment + " --figure gantt --jobs 6", "--seed 3 --jobs 6, couchrelay"},
		{results + " --figure compare", "compare of a.results.jsonl: couchsim sweep a.ini, couchrelay"},
		{results + " --figure axis --over max_churn --metrics rotations", ">rotations (1/h)<"},
	} {
		args := append(strings.Fields(c.args), "-o", svg)
		says, _, first, err := plot(t, args...)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if !strings.Contains(string(first), c.want) || says != "wrote "+svg+"\n" {
			t.Errorf("%s: %q is missing; %s", c.args, c.want, says)
		}
		if _, _, second, _ := plot(t, args...); !bytes.Equal(first, second) {
			t.Errorf("%s: other bytes the second time", c.args)
		}
	}
	says, _, _, err := plot(t, results, "--figure", "pareto", "-o", svg)
	if err != nil || !strings.HasPrefix(says, "1  ") {
		t.Error(says, err)
	}
	_, warns, _, err := plot(t, experiment, "--figure", "jain", "-o", svg)
	if err != nil || !strings.Contains(warns, "max_churn") {
		t.Error(warns, err)
	}
	if _, warns, _, _ := plot(t, experiment, "--figure", "jain", "-o", svg, "--set", "max_churn=2"); warns != "" {
		t.Error(warns)
	}
}

func TestPlotRefuses(t *testing.T) {
	experiment, results := plotFiles(t)
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(filepath.Dir(experiment), "later.jsonl")
	text = bytes.Replace(text, []byte(`"format":1`), []byte(`"format":9`), 1)
	if err := os.WriteFile(later, text, 0o600); err != nil {
		t.Fatal(err)
	}
	svg := filepath.Join(filepath.Dir(experiment), "refused.svg")
	for _, c := range []struct{ args, want string }{
		{experiment + " --figure share", `--figure "share": no such figure; there are shares`},
		{experiment + " --figure pareto", "is made of results (.jsonl), which couchsim sweep writes"},
		{results + " --figure shares", "give an experiment (.ini) instead"},
		{later + " --figure tau", "has format 9, and this couchsim reads 1 only"},
		{results + "x.jsonl --figure tau", "no such file"},
		{experiment + " --figure gantt --jobs 601", "--jobs 601: must be from 1 to 600"},
		{experiment + " --figure gantt --jobs=-1", "--jobs -1: must be"},
		{experiment + " --figure gantt --window 5m", "--window has no meaning for --figure gantt"},
		{experiment + " --figure shares --jobs 5", "--jobs has no meaning for --figure shares"},
		{experiment + " --figure shares --vary max_churn=1,2", "--vary has no meaning for --figure shares"},
		{experiment + " --figure shares --where a=b", "--where has no meaning"},
		{experiment + " --figure jain --vary max_churn", "--vary max_churn="},
		{experiment + " --figure jain --vary max_churn=1,1", "is there twice"},
		{experiment + " --figure jain --vary max_churn=1,2,3,4,5,6,7,8,9", "9 runs, and a figure tells 8 apart"},
		{experiment + " --figure jain --set churn=1", "--set churn: no such key"},
		{experiment + " --figure jain --window 2h", "--window 2h0m0s: must be from 1s to the 1h0m0s that are"},
		{experiment + " --figure jain --width 5", "--width or --height: 5 mm: must be from 20 to 1000"},
		{results + " --figure compare --seed 1", "--seed has no meaning"},
		{results + " --figure compare --by max_churn", "--by has no meaning"},
		{results + " --figure compare --metrics a", "a: no such metric"},
	} {
		_, _, _, err := plot(t, append(strings.Fields(c.args), "-o", svg)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
		if _, err := os.Stat(svg); err == nil {
			t.Fatalf("%s has left a file", c.args)
		}
	}
	directory := filepath.Join(t.TempDir(), "is.svg")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]string{"a.pdf": "must end in .svg or .png",
		"none/a.svg": "--out: open none/a.svg: no such file", directory: "--out: open " + directory} {
		_, _, _, err := plot(t, experiment, "--figure", "jain", "-o", out)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", out, err)
		}
	}
	if err := (&plotCommand{File: experiment}).Run(); err == nil || !strings.Contains(err.Error(), "--list") {
		t.Error(err)
	}
}

// TestPlotTooMuch: an error tells how to show less.
func TestPlotTooMuch(t *testing.T) {
	experiment, _ := plotFiles(t)
	c := plotCommand{File: experiment, Figure: "gantt", Jobs: 600, Out: "a.svg"}
	c.Set = "jobs=600,duration=7d,interval=10s"
	err := c.draw(&bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "--jobs, or --set duration") {
		t.Error(err)
	}
}

func TestListOfFigures(t *testing.T) {
	var out bytes.Buffer
	if err := listFigures(&out); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures.Catalogue {
		if !strings.Contains(out.String(), "  "+f.Name+" ") || !strings.Contains(out.String(), f.Shows) {
			t.Errorf("%s is missing in\n%s", f.Name, out.String())
		}
	}
}

// TestWindows: there are neither too many values nor too few.
func TestWindows(t *testing.T) {
	for _, c := range []struct{ measured, given, want time.Duration }{
		{30 * time.Second, 0, 30 * time.Second},
		{time.Hour, 0, time.Minute},
		{7 * 24 * time.Hour, 0, 2 * time.Hour},
		{365 * 24 * time.Hour, 0, 7 * 24 * time.Hour},
		{time.Hour, 7 * time.Minute, 7 * time.Minute},
	} {
		if got, err := window(c.measured, c.given); got != c.want || err != nil {
			t.Errorf("%v of %v: %v, %v", c.given, c.measured, got, err)
		}
	}
}
