package mutants

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

const root = "../.."

// TestApply proves that every mutant is still a change of the core, in the one place that it means, and Go.
func TestApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		if names[m.Name] {
			t.Errorf("two mutants are called %s", m.Name)
		}
		names[m.Name] = true
		if !strings.HasPrefix(m.File, "core/") || m.What == "" || m.Old == m.New {
			t.Errorf("mutant %s is none: %+v", m.Name, m)
		}
		text, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, 0); err != nil {
			t.Errorf("mutant %s: %v", m.Name, err)
		}
	}
}

func TestFind(t *testing.T) {
	if all, err := Find(nil); err != nil || len(all) != len(All()) {
		t.Errorf("%d of %d found without names: %v", len(all), len(All()), err)
	}
	if some, err := Find([]string{"checkpoint-ahead"}); err != nil || len(some) != 1 || some[0].Family != "checkpoints" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := Find([]string{"no-such"}); err == nil || !strings.Contains(err.Error(), `"no-such"`) {
		t.Errorf("an unknown name is answered with %v", err)
	}
}
