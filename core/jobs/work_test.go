package jobs

import (
	"testing"

	"couchrelay/core/kv/tuple"
)

// TestDemandsShareNoBytes: accepts that run at once in one process look where each of them has to, also when the
// queue's prefix has room behind it, as prefixes have that were made of others.
func TestDemandsShareNoBytes(t *testing.T) {
	ready := tuple.Subspace(tuple.Pack("q")).Sub("ready")
	soon := Demand{MaxPriority: "a", Behind: "a"}.within(ready)
	begin, end := string(soon.Begin), string(soon.End)
	later := Demand{MaxPriority: "bb", Behind: "bb"}.within(ready)
	if string(soon.Begin) != begin || string(soon.End) != end {
		t.Errorf("another demand turned %q to %q into %q to %q", begin, end, soon.Begin, soon.End)
	}
	if later.Contains(soon.Begin) || !later.Contains(append(ready.Begin(2), "bbb"...)) {
		t.Errorf("%q to %q", later.Begin, later.End)
	}
}
