package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDifferencesAreTold: DESIGN.md has each reason for differences from CouchDB, with the number of cases, and how
// many cases there are.
func TestDifferencesAreTold(t *testing.T) {
	raw, err := os.ReadFile("../../DESIGN.md")
	check(err)
	design := strings.Join(strings.Fields(string(raw)), " ")
	cases, differ := map[string]map[string]bool{}, map[string]bool{}
	for line, reason := range readReasons() {
		if cases[reason] == nil {
			cases[reason] = map[string]bool{}
		}
		name, _, _ := strings.Cut(line, ":")
		cases[reason][name], differ[name] = true, true
	}
	for reason, names := range cases {
		if row := fmt.Sprintf("| %d | %s |", len(names), reason); !strings.Contains(design, row) {
			t.Errorf("DESIGN.md does not have %q", row)
		}
	}
	seen := map[string]bool{}
	for _, c := range compareCases() {
		name := strings.Replace(c.kind, "late", "doc", 1) + " " + c.name
		if seen[name] {
			t.Errorf("two cases have the name %s", name)
		}
		seen[name] = true
	}
	for _, said := range []string{
		fmt.Sprint(len(seen), " documents and requests, each with"),
		fmt.Sprint(len(differ), " differ, each for a reason"),
	} {
		if !strings.Contains(design, said) {
			t.Errorf("DESIGN.md does not say %q", said)
		}
	}
}
