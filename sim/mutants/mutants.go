package mutants

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one planted bug.
type Mutant struct {
	Name    string
	Subject string // the part of the product that it breaks: the patch's file, without .diff
	What    string // the bug, in words
	File    string // below the module's root, with slashes
	Old     string // whole lines, which File must have exactly once
	New     string // whole lines that take their place
	At      string // file:line of the patch, for messages
}

//go:embed bugs/*.diff
var bugs embed.FS

// All returns all mutants, ordered by subject.
func All() ([]Mutant, error) {
	files, err := bugs.ReadDir("bugs")
	if err != nil {
		return nil, err
	}
	var all []Mutant
	at := map[string]string{}
	for _, f := range files {
		name := path.Join("bugs", f.Name())
		text, err := bugs.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if at[m.Name] != "" {
				return nil, fmt.Errorf("%s: %s is already the name of the bug at %s", m.At, m.Name, at[m.Name])
			}
			at[m.Name] = m.At
		}
		all = append(all, found...)
	}
	return all, nil
}

// Find returns the mutants of these names, in their order; all when there are none.
func Find(names []string) ([]Mutant, error) {
	all, err := All()
	if err != nil || len(names) == 0 {
		return all, err
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

// Apply returns the text of the mutant's file, below root, with the bug.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("%s: mutant %s: %w", m.At, m.Name, err)
	}
	changed, err := m.apply(string(text))
	return []byte(changed), err
}

func (m Mutant) apply(text string) (string, error) {
	at, n := 0, 0
	for i := 0; i < len(text); { // over the beginnings of lines
		if strings.HasPrefix(text[i:], m.Old) {
			at, n = i, n+1
		}
		_, rest, _ := strings.Cut(text[i:], "\n")
		i = len(text) - len(rest)
	}
	if n != 1 {
		return "", fmt.Errorf("%s: mutant %s: the old lines are in %d places of %s, and must be in one:\n%s",
			m.At, m.Name, n, m.File, m.Old)
	}
	return text[:at] + m.New + text[at+len(m.Old):], nil
}
