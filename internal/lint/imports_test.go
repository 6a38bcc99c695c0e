package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

const module = "couchrelay/"

// above has the folders of the module that those of a folder may import, beside those below the folder itself.
var above = map[string][]string{
	"core":      {},
	"adapters":  {"core"},
	"sim":       {"core"},
	"cmd":       {"core", "adapters", "sim"},
	"fuzz":      {"core", "adapters", "sim"},
	"scenarios": {"core", "sim"},
	"internal":  {},
}

// exception allows imports against the order. One that is not used is reported.
type exception struct {
	files string // beginning of their path
	tests bool   // only tests
	to    string // beginning of the package's path, below the module
	why   string
}

var exceptions = []exception{
	{"core/", true, "sim/fakefdb", "tests of what keeps things in a store need one; this one has faults"},
	{"core/jobs/store_fdb_test.go", true, "adapters/fdb/fdbtest", "tag fdb: so that the model runs there too"},
	{"adapters/capture/", false, "sim/workload", "what is captured is a workload; its types are data"},
	{"adapters/", true, "sim/", "stores are compared with the simulator's and pass one conformance suite"},
	{"adapters/fdb/fdbctest/", false, "sim/fakefdb", "tag fdbctest: the double of the C client is this store"},
	{"cmd/", true, "internal/handbook", "tests compare the manual with the commands that it shows"},
	{"adapters/fdb/fdbtest/", false, "sim/fakefdb", "tag fdbctest: gives tests that double, with its faults"},
}

// forbidden are imports within a folder that go the wrong way.
var forbidden = [][2]string{
	{"sim/world", "sim/oracle"}, // the oracle sees the world, which does not know that it is looked at
}

var imports = rule{
	name: "imports",
	why: "imports go one way: the core knows nothing of what drives it, and production and the simulator nothing of " +
		"each other, so that each of the three can be read and changed without the others",
	canaries: []string{
		`core/p.go: package p; import "couchrelay/sim/engine"`,
		`core/p_test.go: package p; import "couchrelay/adapters/couch"`,
		`adapters/p.go: package p; import "couchrelay/sim/fakefdb"`,
		`sim/p.go: package p; import "couchrelay/adapters/couch"`,
		`sim/world/p.go: package p; import "couchrelay/sim/oracle/jobs"`,
		`fuzz/p.go: package p; import "couchrelay/cmd/couchsim"`,
		`elsewhere/p.go: package p; import "couchrelay/core/kv"`,
	},
	check: checkImports,
}

func checkImports(s *source) (found []finding) {
	used := make([]bool, len(exceptions))
	for _, f := range s.files {
		if f.ast == nil {
			continue
		}
		for _, imp := range f.ast.Imports {
			to, own := strings.CutPrefix(importPath(imp), module)
			if !own || allowed(f, to) {
				continue
			}
			i := slices.IndexFunc(exceptions, func(e exception) bool {
				return strings.HasPrefix(f.path, e.files) && strings.HasPrefix(to, e.to) && (f.test() || !e.tests)
			})
			if i < 0 {
				found = append(found, finding{at: s.at(imp.Pos()), text: top(f.path) + " must not import " + to})
				continue
			}
			used[i] = true
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			text := "the exception for imports of " + e.to + " is used by nothing: remove it"
			found = append(found, finding{at: e.files, text: text})
		}
	}
	return found
}

func importPath(imp *ast.ImportSpec) string {
	p, _ := strconv.Unquote(imp.Path.Value)
	return p
}

func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

func allowed(f file, to string) bool {
	for _, way := range forbidden {
		if within(f.path, way[0]) && within(to, way[1]) {
			return false
		}
	}
	folders, known := above[top(f.path)]
	return known && (top(to) == top(f.path) || slices.Contains(folders, top(to)))
}

// within reports whether p is dir or below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

var groups = rule{
	name:    "groups",
	why:     "one order for all files needs no thought, and merges well: " + groupOrder,
	ratchet: true,
	canaries: []string{
		"core/p.go: package p\nimport (\n\"fmt\"\n\n\"example.com/a\"\n\n\"couchrelay/core/kv\"\n)",
		"core/p.go: package p\nimport (\n\"couchrelay/core/kv\"\n\n\"fmt\"\n)",
		"core/p.go: package p\nimport (\n\"fmt\"\n\"couchrelay/core/kv\"\n)",
		"core/p.go: package p\nimport (\n\"fmt\"\n\n\"io\"\n)",
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			if f.ast != nil && !ordered(s.fset, f.ast) {
				text := "imports are not in groups: " + groupOrder
				found = append(found, finding{at: f.path, text: text, what: f.dir(), n: 1})
			}
		}
		return found
	},
}

const groupOrder = "the standard library, this module, others; an empty line between them"

// ordered reports whether the imports of a file are in groups, in their order.
func ordered(fset *token.FileSet, f *ast.File) bool {
	list := slices.Clone(f.Imports)
	list = slices.DeleteFunc(list, func(imp *ast.ImportSpec) bool { return importPath(imp) == "C" })
	for i, imp := range list {
		if i == 0 {
			continue
		}
		before := list[i-1]
		was, is := group(importPath(before)), group(importPath(imp))
		apart := fset.Position(imp.Pos()).Line - fset.Position(before.End()).Line
		if is < was || is > was && apart < 2 || is == was && apart > 1+comments(imp) {
			return false
		}
	}
	return true
}

// comments returns the number of lines of the comment above an import.
func comments(imp *ast.ImportSpec) int {
	if imp.Doc == nil {
		return 0
	}
	return len(imp.Doc.List)
}

func group(p string) int {
	switch first := top(p); {
	case first+"/" == module:
		return 1
	case strings.Contains(first, "."):
		return 2
	}
	return 0
}
