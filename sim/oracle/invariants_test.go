package oracle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An id stands for one promise: each that a file uses is in that file's list of invariants and in no other
// list, and each in a list is used.
func TestIDs(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	where := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		listed, used := idsOf(t, name)
		for _, id := range listed {
			if other := where[id]; other != "" {
				t.Errorf("%s is in the lists of %s and %s", id, other, name)
			}
			where[id] = name
		}
		for _, id := range used {
			if !slices.Contains(listed, id) {
				t.Errorf("%s uses %s, which is not in its list", name, id)
			}
		}
		for _, id := range listed {
			if !slices.Contains(used, id) && id != panics {
				t.Errorf("%s lists %s, and has no check for it", name, id)
			}
		}
	}
}

// panics is the id of panics, which a campaign notices itself.
const panics = "P1"

var isID = regexp.MustCompile(`^[SLBP][0-9]+[a-z]?$`)

// idsOf finds the ids in a file: in its lists of invariants, and in all other places.
func idsOf(t *testing.T, name string) (listed, used []string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	collect := func(in ast.Node, ids *[]string) func(ast.Node) bool {
		return func(n ast.Node) bool {
			if pair, is := n.(*ast.KeyValueExpr); is && n != in {
				if key, is := pair.Key.(*ast.Ident); is && key.Name == "invariants" {
					return false
				}
			}
			if lit, is := n.(*ast.BasicLit); is {
				if s, err := strconv.Unquote(lit.Value); err == nil && isID.MatchString(s) {
					*ids = append(*ids, s)
				}
			}
			return true
		}
	}
	ast.Inspect(file, collect(nil, &used))
	ast.Inspect(file, func(n ast.Node) bool {
		if pair, is := n.(*ast.KeyValueExpr); is {
			if key, is := pair.Key.(*ast.Ident); is && key.Name == "invariants" {
				ast.Inspect(pair, collect(pair, &listed))
			}
		}
		return true
	})
	return listed, used
}
