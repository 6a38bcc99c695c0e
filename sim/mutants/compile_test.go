package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestCompile proves that every mutant compiles. One that does not would end a hunt for all of them.
func TestCompile(t *testing.T) {
	fset := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{
		Dir: root, Fset: fset,
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedExportFile | packages.NeedTypes | packages.NeedSyntax,
	}, "./core/...")
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*packages.Package{}
	for _, p := range loaded {
		byPath[p.PkgPath] = p
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		p := byPath[path.Join("couchrelay", path.Dir(m.File))]
		if p == nil {
			t.Errorf("%s: mutant %s is of no package of the core", m.At, m.Name)
			continue
		}
		if err := checkTypes(fset, p, m); err != nil {
			t.Errorf("%s: mutant %s does not compile: %v", m.At, m.Name, err)
		}
	}
}

// checkTypes checks a package with the file of a mutant in place of its own.
func checkTypes(fset *token.FileSet, p *packages.Package, m Mutant) error {
	text, err := m.Apply(root)
	if err != nil {
		return err
	}
	mutated, err := parser.ParseFile(fset, m.File, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := make([]*ast.File, len(p.Syntax))
	for i, file := range p.Syntax {
		if files[i] = file; filepath.Base(p.CompiledGoFiles[i]) == path.Base(m.File) {
			files[i] = mutated
		}
	}
	config := types.Config{Importer: imports(p.Imports)}
	_, err = config.Check(p.PkgPath, fset, files, nil)
	return err
}

// imports are the packages that a package imports, by their paths.
type imports map[string]*packages.Package

// Import is types.Importer's.
func (i imports) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("no other file of the package imports %q", path)
}
