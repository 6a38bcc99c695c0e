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
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		text, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, 0); err != nil {
			t.Errorf("%s: mutant %s: %v", m.At, m.Name, err)
		}
	}
}

func TestFind(t *testing.T) {
	every, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := Find(nil); err != nil || len(all) != len(every) {
		t.Errorf("%d of %d found without names: %v", len(all), len(every), err)
	}
	some, err := Find([]string{"checkpoint-ahead"})
	if err != nil || len(some) != 1 || some[0].Subject != "checkpoints" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := Find([]string{"no-such"}); err == nil || !strings.Contains(err.Error(), `"no-such"`) {
		t.Errorf("an unknown name is answered with %v", err)
	}
}
