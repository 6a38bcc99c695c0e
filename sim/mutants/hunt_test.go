package mutants

import (
	"testing"

	"couchrelay/sim/oracle"
)

// TestBroken: whichever invariant a mutant breaks, the hunt finds its id in what couchsim says.
func TestBroken(t *testing.T) {
	for _, i := range oracle.Invariants {
		said := "profile small\n\n" + i.ID + "  What holds. what does not\n    seed 7 of profile small, event 1\n"
		found := broken.FindStringSubmatch(said)
		if found == nil || found[1] != i.ID || found[3] != "7" {
			t.Errorf("of %s it finds %q", i.ID, found)
		}
	}
}
