package metrics

import (
	"regexp"
	"testing"
)

// TestDefinitions checks what tables and CSV files rely on.
func TestDefinitions(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, d := range Definitions {
		if !name.MatchString(d.Name) || seen[d.Name] {
			t.Errorf("%q is no name, or that of two metrics", d.Name)
		}
		seen[d.Name] = true
		if len(d.Formula) < 10 || d.Source == "" || d.value == nil || !d.Overall && !d.PerAccount {
			t.Errorf("%s lacks a formula, a source, or accounts: %+v", d.Name, d)
		}
		if d.Better.String() == "" {
			t.Errorf("%s does not say what is better", d.Name)
		}
	}
}
