package lint

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTidy runs go mod tidy, which says what it would change.
func TestTidy(t *testing.T) {
	tidy := exec.Command("go", "mod", "tidy", "-diff")
	tidy.Dir = root
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Errorf("go.mod or go.sum is not tidy: %v\n%s", err, out)
	}
}

// programs are the tools that the module may declare.
var programs = []string{"honnef.co/go/tools/cmd/staticcheck"}

// declared finds tools in a go.mod: a block of them, or one.
var declared = regexp.MustCompile(`(?m)^tool (?:\(([^)]*)\)|(\S+)$)`)

var tools = rule{
	name: "tools",
	why: "a tool is a program that the Makefile runs with go tool, and that is staticcheck alone; a library is " +
		"required since code imports it, and as a tool would stay when none does any more",
	canaries: []string{
		"go.mod: tool pgregory.net/rapid\n",
		"go.mod: tool (\n\thonnef.co/go/tools/cmd/staticcheck\n\tpgregory.net/rapid\n)\n",
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			if f.path != "go.mod" {
				continue
			}
			for _, match := range declared.FindAllStringSubmatch(f.text, -1) {
				for _, name := range strings.Fields(match[1] + match[2]) {
					if !slices.Contains(programs, name) {
						found = append(found, finding{at: f.path, text: name + " is declared as a tool"})
					}
				}
			}
		}
		return found
	},
}

// excluded is a line that disables a check and says why.
var excluded = regexp.MustCompile(`^\s*"-[A-Z0-9*]+",? # \w`)

var exclusions = rule{
	name: "exclusions",
	why:  "a check that is disabled without a reason is never enabled again",
	canaries: []string{
		"staticcheck.conf: checks = [\n\t\"all\",\n\t\"-ST1000\",\n]\n",
		"staticcheck.conf: checks = [\"all\", \"-ST1000\"] # why\n",
		"staticcheck.conf: \"-ST1000\", \"-ST1003\" # why\n",
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			if f.path != "staticcheck.conf" {
				continue
			}
			for i, line := range strings.Split(f.text, "\n") {
				if n := strings.Count(line, `"-`); n > 0 && (n > 1 || !excluded.MatchString(line)) {
					text := "a disabled check stands on a line of its own, with its reason behind #"
					found = append(found, finding{at: fmt.Sprintf("staticcheck.conf:%d", i+1), text: text})
				}
			}
		}
		return found
	},
}
