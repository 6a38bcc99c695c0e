package main

import (
	"fmt"
	"os"
	"strings"
)

// exceptions are the reasons for which mutants may survive, by the mutants' text.
type exceptions map[string]string

// readExceptions reads lines "file: TYPE: line of code" with an indented reason below each. Lines that
// begin with # are comments.
func readExceptions(path string) (exceptions, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known := exceptions{}
	last := ""
	for n, line := range strings.Split(string(raw), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#':
		case text == line:
			last = text
			known[last] = ""
		case last == "":
			return nil, fmt.Errorf("%s:%d: a reason without a mutant", path, n+1)
		default:
			known[last] += text
		}
	}
	for m, reason := range known {
		if reason == "" {
			return nil, fmt.Errorf("%s: no reason for %s", path, m)
		}
	}
	return known, nil
}

// row is a package's line in the table.
type row struct {
	killed, survived, explained int
	problems                    []error
}

// score returns the percentage of mutants that were killed. Explained survivors count as survivors.
func (r row) score() int { return 100 * r.killed / max(1, r.killed+r.survived) }

// judge counts, and looks for survivors without a reason and reasons without a survivor.
func (e exceptions) judge(pkg string, mutants []mutant) (r row) {
	met := map[string]bool{}
	for _, m := range mutants {
		if m.killed() {
			r.killed++
			continue
		}
		r.survived++
		if _, known := e[m.String()]; known {
			r.explained++
			met[m.String()] = true
			continue
		}
		r.problems = append(r.problems,
			fmt.Errorf("%s:%d:%d: %s survived: %s", m.file, m.Line, m.Column, m.Type, m.text))
	}
	for m := range e {
		if strings.HasPrefix(m, pkg+"/") && !met[m] &&
			!strings.Contains(strings.SplitN(m[len(pkg)+1:], ":", 2)[0], "/") {
			r.problems = append(r.problems,
				fmt.Errorf("%s explains what did not survive: %s", exceptionsFile, m))
		}
	}
	return r
}
