// Package scenarios has worlds as files: those that show something, and under regressions those that once
// broke an invariant.
package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/sim/campaign"
	"couchrelay/sim/oracle"
	"couchrelay/sim/scenario"
)

// Every scenario holds, with every seed that it names.
func TestScenarios(t *testing.T) {
	play(t, "*.txt", func(t *testing.T, s *scenario.Scenario) {
		if text := strings.Join(s.Text, " "); !strings.Contains(text, "What must hold:") {
			t.Error("does not say at its top what must hold")
		}
		if s.Broke != "" {
			t.Error("is a regression; must be under regressions")
		}
	})
}

// What once broke does not break any more.
func TestRegressions(t *testing.T) {
	play(t, "regressions/*.txt", func(t *testing.T, s *scenario.Scenario) {
		if oracle.Says(s.Broke) == "" {
			t.Error("does not say which invariant it broke")
		}
	})
}

func play(t *testing.T, pattern string, check func(*testing.T, *scenario.Scenario)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			check(t, s)
			if len(s.Text) == 0 {
				t.Error("does not say at its top what it shows")
			}
			for seed := s.First; seed < s.First+s.Seeds(); seed++ {
				o := campaign.Play(s.Config, s.Decider(seed))
				if o.Violation != nil {
					t.Errorf("seed %d: %s\n%s\ngo run ./cmd/couchsim replay scenarios/%s --seed %d", seed,
						o.Violation, o.Stack, file, seed)
				}
			}
		})
	}
}

// TestGuide: the example of README.md is a scenario.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Write one\n\n")
	example, _, _ := strings.Cut(rest, "\n\n- ")
	var lines []string
	for line := range strings.Lines(example) {
		lines = append(lines, strings.TrimPrefix(line, "    "))
	}
	s, err := scenario.Parse(strings.Join(lines, ""))
	if err != nil || len(s.Config.Events) != 2 || len(s.Unused) > 0 {
		t.Errorf("%v, %+v", err, s)
	}
}
