package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
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
		"lint a.ini --jobs 0":       "--jobs 0: must be 1 or more",
		"lint a.ini":                "",
		"plot --list --jobs 0":      "--jobs 0: must be 1 or more",
		"plot --list":               "",
		"run --seed 0":              "",
		"run --seeds 1":             "",
		"run a.txt":                 "",
		"":                          "",
		"version":                   "",
	} {
		before, _, empty := strings.Cut(line, "|")
		args := strings.Fields(before)
		if empty {
			args = append(args, "")
		}
		var c commands
		ctx, err := kong.Must(&c, kong.Name("couchsim")).Parse(args)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
		if line == "version" && err == nil && ctx.Command() != "version" {
			t.Errorf("version is taken for %s", ctx.Command())
		}
	}
}
