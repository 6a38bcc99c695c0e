package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// rule is one of those that the source obeys.
type rule struct {
	name string
	why  string
	// check returns what breaks the rule.
	check func(*source) []finding
	// ratchet says that findings are allowed as far as ratchet.txt lists them.
	ratchet bool
	// canaries break the rule. Each is one file: its path, a colon and its text.
	canaries []string
}

// finding is one place that breaks a rule.
type finding struct {
	at   string // file:line
	text string // what is wrong there, and what to do
	// what and n are for ratchets: n is a size, or how many files, of what.
	what string
	n    int
}

// source is what rules look at: the files of the module, or a canary.
type source struct {
	fset  *token.FileSet
	files []file
	types typeChecker
}

type file struct {
	path string // below the root, with slashes
	text string
	ast  *ast.File // nil unless it is Go
}

func (f file) dir() string { return path.Dir(f.path) }
func (f file) test() bool  { return strings.HasSuffix(f.path, "_test.go") }
func (f file) lines() int  { return strings.Count(f.text, "\n") }
func (s *source) at(p token.Pos) string {
	at := s.fset.Position(p)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

func (s *source) add(name, text string) error {
	f := file{path: name, text: text}
	if strings.HasSuffix(name, ".go") {
		parsed, err := parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f.ast = parsed
	}
	s.files = append(s.files, f)
	return nil
}

// other are the files beside Go's that rules look at.
var other = []string{"go.mod", "staticcheck.conf", "Makefile"}

// load reads the module's source.
func load(t *testing.T) *source {
	s := &source{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		below, _ := filepath.Rel(root, name)
		hidden := below != "." && strings.HasPrefix(d.Name(), ".")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || d.Name() == "node_modules" || below == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".md"}, path.Ext(below)) && !slices.Contains(other, below):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return s.add(filepath.ToSlash(below), string(text))
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var rules = []rule{imports, groups, width, sizes, purity, invariants, packageComments, tools, exclusions, tagSets,
	events, advice, links}

func TestRules(t *testing.T) {
	s := load(t)
	s.types = loadTypes(t)
	listed := readRatchet(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			found := r.check(s)
			if r.ratchet {
				found = listed.compare(r.name, found)
			}
			for _, f := range found {
				t.Errorf("%s: %s", f.at, f.text)
			}
			if len(found) > 0 {
				t.Log("The rule is there because " + r.why)
			}
		})
	}
	listed.unknown(t)
	listed.write(t)
}

// TestCanaries proves that each rule can fail.
func TestCanaries(t *testing.T) {
	types := loadTypes(t)
	for _, r := range rules {
		if len(r.canaries) == 0 || r.why == "" {
			t.Errorf("rule %s has no canary or no reason", r.name)
		}
		for _, c := range r.canaries {
			name, text, _ := strings.Cut(c, ": ")
			s := &source{fset: token.NewFileSet(), types: types.canary()}
			if err := s.add(name, text); err != nil {
				t.Fatal(err)
			}
			found := r.check(s)
			if !slices.ContainsFunc(found, func(f finding) bool { return strings.HasPrefix(f.at, name) }) {
				t.Errorf("rule %s reports nothing in %s", r.name, c)
			}
		}
	}
}
