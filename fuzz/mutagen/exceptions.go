package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// exceptions are the reasons why mutants are no bugs, by the mutants' text.
type exceptions map[string]string

// readExceptions reads mutants as they are printed, each with an indented reason below. Lines that begin with #
// are comments.
func readExceptions(path string) (exceptions, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known := exceptions{}
	var last strings.Builder
	for n, line := range strings.Split(string(raw), "\n") {
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line[0] == '\t':
			if last.Len() == 0 {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", path, n+1)
			}
			known[last.String()] += strings.TrimSpace(line) + " "
		case strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "+ "):
			if known[last.String()] != "" || last.Len() == 0 {
				return nil, fmt.Errorf("%s:%d: lines without package, function and operator", path, n+1)
			}
			delete(known, last.String())
			last.WriteString(line + "\n")
			known[last.String()] = ""
		default:
			last.Reset()
			last.WriteString(line + "\n")
			known[last.String()] = ""
		}
	}
	for text, reason := range known {
		if reason == "" {
			return nil, fmt.Errorf("%s: no reason for %s", path, text)
		}
	}
	return known, nil
}

// stale returns the exceptions whose code does not exist any more. It leaves out those of packages that exist and that
// the module did not load.
func (e exceptions) stale(m *module) (gone []string) {
	functions := map[string][]string{} // their lines
	loaded := map[string]bool{}
	for _, p := range m.packages {
		loaded[p.path] = true
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				from, to := m.fset.Position(decl.Pos()).Offset, m.fset.Position(decl.End()).Offset
				name := functionName(decl)
				if name == "" {
					name = "-"
				}
				functions[p.path+": "+name] = append(functions[p.path+": "+name], trimmed(lines(f.text[from:to]))...)
			}
		}
	}
	for text := range e {
		all := strings.Split(strings.TrimSpace(text), "\n")
		name := all[0][:max(0, strings.LastIndex(all[0], ": "))]
		path, _, _ := strings.Cut(name, ": ")
		_, short, _ := strings.Cut(path, "/")
		if _, err := os.Stat(filepath.Join(m.root, short)); err == nil && !loaded[path] {
			continue
		}
		for _, line := range all[1:] {
			if old, is := strings.CutPrefix(line, "- "); is && !slices.Contains(functions[name], old) {
				gone = append(gone, text)
				break
			}
		}
	}
	slices.Sort(gone)
	return gone
}
