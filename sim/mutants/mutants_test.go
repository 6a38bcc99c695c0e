package mutants

import (
	"strings"
	"testing"
)

const root = "../.."

// TestApply proves that every mutant is still a change of the core, in the one place that it means.
func TestApply(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if _, err := m.Apply(root); err != nil {
			t.Error(err)
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
