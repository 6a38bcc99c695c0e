package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/workload"
)

// small is a workload of two databases with 20 continuous jobs each, as a file.
func small(t *testing.T) string {
	t.Helper()
	w := &workload.Workload{Accounts: []workload.Account{
		{Name: "_replicator", Shares: 100}, {Name: "b/_replicator", Shares: 300},
	}}
	for i := range 40 {
		w.Jobs = append(w.Jobs, workload.Job{
			ID: string(rune('A' + i)), Account: i % 2, Continuous: true, Startup: 3 * time.Second, Speed: 10,
			Rate: 0.1,
		})
	}
	path := filepath.Join(t.TempDir(), "small.jsonl")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhatIf: both sides are played, compared and forecast, with the settings of the file on the one and the changes
// on the other. What is kept can be compared again.
func TestWhatIf(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "new")
	settings := "max_jobs = 10\nmax_churn = 1\nmin_backoff_penalty_sec = 40s\n[replicator.shares]\n_replicator = 50\n"
	const endpoints = "[replicator]\npassword = of a key file\nworker_batch_size = 9\n"
	c := whatIfCommand{
		From: small(t), Config: lintFile(t, endpoints+settings), Keep: keep,
		Set: []string{"max_churn=4", "replicator.shares/b/_replicator=50"}, Nodes: 1, Seeds: 2,
		Duration: 6 * time.Hour, Metrics: []string{"starts", "wait-turn-p50", "share/*"},
	}
	var out bytes.Buffer
	if err := c.play(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 seeds; b - a of each seed",
		"b: max_churn=4, replicator.shares/b/_replicator=50", "starts ", "worse",
		"\nshare/b/_replicator ",
		"As it is: 40 jobs for 10 slots of 1 node", "With max_churn=4, replicator.shares/b/_replicator=50: 40 jobs",
		"300    20    85.7 %", "50    20    50.0 %", "68 jobs start in an hour. With 3s",
		"274 jobs start in an hour. With 3s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	kept, err := os.ReadFile(filepath.Join(keep, "what-if.ini"))
	if err != nil || !strings.Contains(string(kept), settings) {
		t.Errorf("%v\n%s", err, kept)
	}
	again := compareCommand{File: filepath.Join(keep, "what-if.ini"), Set: []string{"max_churn=4"}}
	if _, err := again.playSets(); err != nil {
		t.Error(err)
	}
}

// TestWhatIfMistakes: nothing is played for a wrong question.
func TestWhatIfMistakes(t *testing.T) {
	from, bad, empty := small(t), lintFile(t, "x"), filepath.Join(t.TempDir(), "empty.jsonl")
	if err := (&workload.Workload{}).WriteFile(empty); err != nil {
		t.Fatal(err)
	}
	asked := func(change string) whatIfCommand {
		return whatIfCommand{From: from, Set: []string{change}, Nodes: 1, Seeds: 1}
	}
	with := func(spoil func(*whatIfCommand)) whatIfCommand {
		c := asked("max_churn=4")
		spoil(&c)
		return c
	}
	for want, c := range map[string]whatIfCommand{
		"--set max_chrn: no such key":                        asked("max_chrn=4"),
		"--set max_churn=: must be KEY=VALUE":                asked("max_churn="),
		"max_churn = x: must be a whole number":              asked("max_churn=x"),
		"--set workload/jobs: must be a key of [replicator]": asked("workload/jobs=5"),
		"--nodes 0: must be from 1":                          with(func(c *whatIfCommand) { c.Nodes = 0 }),
		"--seeds 0: must be from 1":                          with(func(c *whatIfCommand) { c.Seeds = 0 }),
		"--duration -1ns: must be 1s or more":                with(func(c *whatIfCommand) { c.Duration = -1 }),
		"--duration 1ms: must be 1s or more":                 with(func(c *whatIfCommand) { c.Duration = 1e6 }),
		"--watch is for a server":                            with(func(c *whatIfCommand) { c.Watch = time.Minute }),
		"neither the address of a server":                    with(func(c *whatIfCommand) { c.From = "nowhere" }),
		"--from: there are no jobs":                          with(func(c *whatIfCommand) { c.From = empty }),
		"line 1: neither [section]":                          with(func(c *whatIfCommand) { c.Config = bad }),
	} {
		if err := c.play(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// TestWhatIfWithoutSettings: it tells that a workload is played under defaults unless a configuration is given.
func TestWhatIfWithoutSettings(t *testing.T) {
	for _, file := range []string{"", lintFile(t, "[replicator]\nmax_jobs = 10\n")} {
		c := whatIfCommand{From: small(t), Config: file, Set: []string{"max_churn=4"}, Nodes: 1, Seeds: 1,
			Duration: time.Hour, Metrics: []string{"starts"}}
		var out bytes.Buffer
		if err := c.play(&out); err != nil {
			t.Fatal(err)
		}
		if noted := strings.Contains(out.String(), "note: a workload has no settings"); noted != (file == "") {
			t.Errorf("with %q:\n%s", file, &out)
		}
	}
}

// TestWhatIfOfEvents: what a workload does at and behind its beginning is measured, and not dropped as warm-up.
func TestWhatIfOfEvents(t *testing.T) {
	from := filepath.Join(t.TempDir(), "events.jsonl")
	recipe := workloadCommand{Out: from, Set: []string{"jobs=30", "oneshot=1", "arrival=even", "over=1h", "size=100"}}
	if err := recipe.Run(); err != nil {
		t.Fatal(err)
	}
	c := whatIfCommand{From: from, Set: []string{"max_jobs=3"}, Nodes: 1, Seeds: 1, Metrics: []string{"completed"}}
	var out bytes.Buffer
	if err := c.play(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "completed                jobs          30        30 ") {
		t.Error(out.String())
	}
}
