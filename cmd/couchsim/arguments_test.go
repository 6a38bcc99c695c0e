package main

import (
	"cmp"
	"io"
	"strings"
	"testing"
)

// TestArguments: what would be ignored is refused.
func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"faults a.txt":              "a scenario is played for --report alone",
		"faults a.txt --report":     "",
		"faults":                    "",
		"run|":                      "must not be empty",
		"replay|":                   "must not be empty",
		"run --seeds 0":             "--seeds 0: must be 1 or more",
		"determinism --seeds 0":     "--seeds 0: must be 1 or more",
		"faults --report --seeds 0": "--seeds 0: must be 1 or more",
		"run --duration=-1s":        "--duration -1s: must not be negative",
		"run --duration 1s":         "",
		"run --duration 0s":         "--duration 0s: must be above 0",
		"lint a.ini --jobs 0":       "--jobs 0: must be 1 or more",
		"lint a.ini":                "",
		"plot --list --jobs 0":      "--jobs 0: must be 1 or more",
		"plot --list":               "",
		"plot --list --width 0":     "--width 0: must be above 0",
		"plot --list --window 0s":   "--window 0s: must be above 0",
		"run --seed 0":              "",
		"run --seeds 1":             "",
		"run a.txt":                 "",

		"run a.txt --profile small":             "--profile means nothing here: the scenario tells",
		"shrink a.txt --profile standard":       "--profile means nothing here",
		"run --profile standard":                "",
		"replay --grep x --timeline x.html":     "--grep means nothing here: a picture shows",
		"replay --timeline x.html":              "",
		"replay --log main.go --profile small":  "--profile means nothing here: a log is played",
		"replay --log main.go --grep x":         "",
		"lint a.ini --workload b --startup 5s":  "--startup means nothing here: the workload has",
		"lint a.ini --jobs 9 --startup 5s":      "",
		"workload a.swf --seed 1":               "--seed means nothing here: a file has its jobs",
		"workload a.swf --gaps":                 "",
		"workload --set jobs=9 --seed 1":        "",
		"plot a.ini --seed 1 --figure shares":   "",
		"faults a.txt --report --profile small": "--profile means nothing here",
		"":                                      "",
		"version":                               "",
	} {
		before, _, empty := strings.Cut(line, "|")
		args := strings.Fields(before)
		if empty {
			args = append(args, "")
		}
		var c commands
		ctx, err := newParser(&c, func(int) {}).Parse(args)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
		if line == "version" && err == nil && ctx.Command() != "version" {
			t.Errorf("version is taken for %s", ctx.Command())
		}
	}
}

// TestStatusOfMistakes: a wrong command line is everything else, as help has it, and no violation.
func TestStatusOfMistakes(t *testing.T) {
	for line, want := range map[string]int{"run --sed 1": 1, "sweep": 1, "run --help": 0} {
		var c commands
		got := -1
		parser := newParser(&c, func(status int) { got = cmp.Or(status, max(got, 0)) })
		parser.Stdout, parser.Stderr = io.Discard, io.Discard
		_, err := parser.Parse(strings.Fields(line))
		parser.FatalIfErrorf(err)
		if got != want {
			t.Errorf("%s: status %d, want %d", line, got, want)
		}
	}
}
