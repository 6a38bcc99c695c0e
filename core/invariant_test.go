package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestInvariantsAreNamed: each invariant is told from all others by its name, which says where to look for
// it.
func TestInvariantsAreNamed(t *testing.T) {
	names := map[string]string{}
	form := regexp.MustCompile(`^([a-z]+\.[a-z-]+): .`)
	for _, path := range coreFiles(t) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			kind, is := spec.Type.(*ast.SelectorExpr)
			if !is || kind.Sel.Name != "ID" {
				return true
			}
			if pkg, is := kind.X.(*ast.Ident); !is || pkg.Name != "invariant" {
				return true
			}
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found := form.FindStringSubmatch(text)
			if found == nil {
				t.Errorf("%s: %q is not of the form \"package.name: what holds\"", path, text)
				return true
			}
			if other := names[found[1]]; other != "" {
				t.Errorf("%s and %s both have an invariant %s", path, other, found[1])
			}
			if pkg := filepath.Base(filepath.Dir(path)); !strings.HasPrefix(found[1], pkg+".") {
				t.Errorf("%s: invariant %s is not named after package %s", path, found[1], pkg)
			}
			names[found[1]] = path
			return true
		})
	}
	if len(names) == 0 {
		t.Error("no invariants found")
	}
}
