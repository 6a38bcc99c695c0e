package main

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"strings"
)

// block is a piece of code that coverage counts.
type block struct {
	fromLine, fromColumn, toLine, toColumn int
	reached                                bool
}

func (b block) has(line, column int) bool {
	after := line > b.fromLine || line == b.fromLine && column >= b.fromColumn
	before := line < b.toLine || line == b.toLine && column <= b.toColumn
	return after && before
}

// coverage is what a run reached, by package and base name of a file.
type coverage map[string][]block

// readCoverage reads a profile of go test or go tool covdata.
func readCoverage(profile []byte) (coverage, error) {
	c := coverage{}
	scanner := bufio.NewScanner(bytes.NewReader(profile))
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, "mode:") || line == "" {
			continue
		}
		file, rest, _ := strings.Cut(line, ":")
		var b block
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn,
			&statements, &count); err != nil {
			return nil, fmt.Errorf("coverage %q: %w", line, err)
		}
		b.reached = count > 0
		c[file] = append(c[file], b)
	}
	return c, scanner.Err()
}

// reaches reports whether a run can have noticed the damage at a point. Conditions of cases and some others are in
// no block; then it is enough if anything in the function was reached. What stands outside of functions is reached
// by whoever has the file.
func (c coverage) reaches(p *point, functions []span) bool {
	blocks := c[p.file.path+"/"+path.Base(p.file.name)]
	if p.function == "" {
		return len(blocks) > 0
	}
	inside := false
	for _, b := range blocks {
		if b.has(p.line, p.column) {
			if b.reached {
				return true
			}
			inside = true
		}
	}
	if inside {
		return false
	}
	for _, b := range blocks {
		for _, f := range functions {
			if b.reached && f.has(p.line) && f.has(b.fromLine) {
				return true
			}
		}
	}
	return false
}

// span is the lines of a function.
type span struct{ from, to int }

func (s span) has(line int) bool { return line >= s.from && line <= s.to }

// functions returns the lines of a file's declarations.
func (m *module) functions(f *file) (all []span) {
	for _, decl := range f.ast.Decls {
		all = append(all, span{m.fset.Position(decl.Pos()).Line, m.fset.Position(decl.End()).Line})
	}
	return all
}
