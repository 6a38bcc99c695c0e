package mutants

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestTimeRunsOut: a hunt that its limit ends has found nothing, and is like no other. One that its user ends is an
// error.
func TestTimeRunsOut(t *testing.T) {
	program := filepath.Join(t.TempDir(), "couchsim")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	known := Catch{Mutant: Mutant{Name: "slow"}, Seeds: 9}
	h := Hunt{Dir: t.TempDir(), Seeds: 10, Cores: 1, Limit: 50 * time.Millisecond}
	for _, known.Invariant = range []string{"", "S1"} {
		h.Known = map[string]Catch{"slow": known}
		found, err := h.look(t.Context(), program, known.Mutant)
		if err != nil || !found.OutOfTime || found.Invariant != "" || found.Seeds != 0 || found.Same(known) {
			t.Errorf("known as %q: %+v, %v", known.Invariant, found, err)
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	if found, err := h.look(over, program, known.Mutant); err == nil {
		t.Errorf("ended by its user: %+v", found)
	}
}
