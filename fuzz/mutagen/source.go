package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is the source that is to be damaged.
type module struct {
	root     string
	fset     *token.FileSet
	packages []*pkg
	imports  types.Importer
}

// pkg is one package with its types.
type pkg struct {
	path  string // of imports
	dir   string
	files []*file
	types *types.Package
	info  *types.Info
	// tests are the packages whose tests have it, itself first; those without tests are not among them.
	tests  []string
	rapid  bool // its tests use rapid
	spared bool // no mutants are drawn from it
}

// short is the package's path below the module.
func (p *pkg) short() string {
	_, short, _ := strings.Cut(p.path, "/")
	return short
}

type file struct {
	*pkg
	name string // from the root of the module
	text []byte
	ast  *ast.File
}

// at is the offset of a position in the file.
func (f *file) at(p token.Pos) int { return int(p - f.ast.FileStart) }

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	DepOnly                 bool
	GoFiles, Deps           []string
	TestImports             []string
	XTestImports            []string
}

// load reads and checks the packages of some patterns. The module is the one that root is in.
func load(root string, patterns ...string) (*module, error) {
	m := &module{root: root, fset: token.NewFileSet()}
	const fields = "-json=ImportPath,Dir,Export,DepOnly,GoFiles,TestImports,XTestImports"
	all, err := m.list(append([]string{"-export", "-deps", fields}, patterns...))
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	m.imports = importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, l := range all {
		if l.DepOnly {
			continue
		}
		p, err := m.parse(l)
		if err != nil {
			return nil, err
		}
		m.packages = append(m.packages, p)
	}
	slices.SortFunc(m.packages, func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
	return m, m.findTests(patterns)
}

func (m *module) list(args []string) ([]listed, error) {
	list := exec.Command("go", append([]string{"list"}, args...)...)
	list.Dir = m.root
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

func (m *module) parse(l listed) (*pkg, error) {
	p := &pkg{path: l.ImportPath, dir: l.Dir, rapid: usesRapid(l.TestImports) || usesRapid(l.XTestImports)}
	for _, name := range l.GoFiles {
		path := filepath.Join(l.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(m.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		below, err := filepath.Rel(m.root, path)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, &file{pkg: p, name: filepath.ToSlash(below), text: text, ast: parsed})
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	var err error
	p.types, err = m.check(p, p.info, nil, nil)
	return p, err
}

// check computes the types of a package, with other contents of one of its files if there are any.
func (m *module) check(p *pkg, info *types.Info, of *file, instead []byte) (*types.Package, error) {
	var files []*ast.File
	for _, f := range p.files {
		if f != of {
			files = append(files, f.ast)
			continue
		}
		changed, err := parser.ParseFile(m.fset, f.name, instead, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, changed)
	}
	config := types.Config{Importer: m.imports}
	return config.Check(p.path, m.fset, files, info)
}

// findTests finds out which tests have which packages.
func (m *module) findTests(patterns []string) error {
	all, err := m.list(append([]string{"-test", "-json=ImportPath,Deps"}, patterns...))
	if err != nil {
		return err
	}
	has := map[string][]string{}
	for _, l := range all {
		tests, is := strings.CutSuffix(l.ImportPath, ".test")
		if !is {
			continue
		}
		for _, dep := range l.Deps {
			dep, _, _ = strings.Cut(dep, " ") // of a package that was compiled for a test
			if !slices.Contains(has[dep], tests) {
				has[dep] = append(has[dep], tests)
			}
		}
	}
	for _, p := range m.packages {
		p.tests = has[p.path]
		if own := slices.Index(p.tests, p.path); own > 0 {
			p.tests = slices.Insert(slices.Delete(p.tests, own, own+1), 0, p.path)
		}
	}
	return nil
}

// drawFrom spares all packages but the named ones.
func (m *module) drawFrom(names []string) error {
	for _, p := range m.packages {
		p.spared = !slices.Contains(names, p.short())
	}
	for _, name := range names {
		if !slices.ContainsFunc(m.packages, func(p *pkg) bool { return p.short() == name }) {
			return fmt.Errorf("no package %q to draw from", name)
		}
	}
	return nil
}

func usesRapid(imports []string) bool { return slices.Contains(imports, "pgregory.net/rapid") }
