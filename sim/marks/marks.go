// Package marks reports whether simulations reach the rare branches of the core. A mark is a comment in such
// a branch,
//
//	// Reached: <what happens here>
//
// and costs nothing: a campaign is played by a binary built with -cover, and its coverage profile tells how
// often the block around each mark ran. A mark that no seed reaches shows that the worlds lack something.
package marks

import (
	"bufio"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Mark is a marked place.
type Mark struct {
	File  string // below the root of the module
	Line  int
	What  string
	Count int // how often its block ran
	code  int // the line below the comment, which is in the block for certain
}

// prefix begins a mark's comment.
const prefix = "// Reached: "

// Find finds the marks of the Go files below a folder of the module, in order.
func Find(root fs.FS, folder string) ([]Mark, error) {
	var found []Mark
	err := fs.WalkDir(root, folder, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range parsed.Comments {
			for _, c := range group.List {
				if what, is := strings.CutPrefix(c.Text, prefix); is {
					line, code := files.Position(c.Pos()).Line, files.Position(group.End()).Line+1
					found = append(found, Mark{File: name, Line: line, What: what, code: code})
				}
			}
		}
		return nil
	})
	return found, err
}

// Count sets the counts of marks from a coverage profile, which is the output of `go tool covdata textfmt`
// for this source. A mark counts as often as the innermost block around it.
func Count(marks []Mark, profile io.Reader, module string) error {
	size := make([]int, len(marks)) // lines of the innermost block so far
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		file, rest, ok := strings.Cut(lines.Text(), ":")
		if !ok || file == "mode" {
			continue
		}
		var first, firstColumn, last, lastColumn, statements, count int
		_, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &first, &firstColumn, &last, &lastColumn, &statements, &count)
		if err != nil {
			return fmt.Errorf("coverage profile: line %q: %w", lines.Text(), err)
		}
		name := strings.TrimPrefix(file, module+"/")
		for i := range marks {
			m := &marks[i]
			if m.File != name || m.code < first || m.code > last {
				continue
			}
			switch lines := last - first + 1; {
			case size[i] == 0 || lines < size[i]:
				size[i], m.Count = lines, count
			case lines == size[i]:
				m.Count = max(m.Count, count)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("coverage profile: %w", err)
	}
	for i, m := range marks {
		if size[i] == 0 {
			return fmt.Errorf("coverage profile: knows nothing of %s:%d; was it made of another version, "+
				"or without -coverpkg?", m.File, m.Line)
		}
	}
	return nil
}
