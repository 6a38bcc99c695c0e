// Package mutants plants bugs, to measure the simulator: each is a small change of the core, of the kind that
// people make, which some seed must bring to light. They are kept as patches of the source and compiled into a
// copy of couchsim of their own, so that the core knows nothing of them.
package mutants

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Mutant is one planted bug.
type Mutant struct {
	Name   string
	Family string
	File   string // below the module's root
	What   string // the bug, in words
	Old    string // what the file says, in one place only
	New    string // what it says instead
}

// All are all mutants, by family.
func All() []Mutant {
	var all []Mutant
	for _, f := range []struct {
		name    string
		members []Mutant
	}{
		{"leases", leases}, {"results", results}, {"queue", queue}, {"scheduling", scheduling}, {"backoff", backoff},
		{"checkpoints", checkpoints}, {"copying", copying}, {"duplicates", duplicates}, {"documents", documents}, {"clock", clock},
		{"load", load}, {"told", told}, {"kept", kept}, {"turns", turns}, {"stored", stored}, {"overlooked", overlooked}, {"unwatched", unwatched},
	} {
		for _, m := range f.members {
			m.Family = f.name
			all = append(all, m)
		}
	}
	return all
}

// Find returns the mutants of these names, in their order; all when there are none.
func Find(names []string) ([]Mutant, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var found []Mutant
	for _, name := range names {
		i := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("mutant %q does not exist; couchsim mutants --list has all", name)
		}
		found = append(found, all[i])
	}
	return found, nil
}

// Apply is the text of the mutant's file, below root, with the bug.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("mutant %s: %s has %d places that read %q, and must have one", m.Name, m.File, n, m.Old)
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}
