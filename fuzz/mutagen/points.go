package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// operators are the kinds of damage, with what each does.
var operators = []struct{ name, does string }{
	{"negate", "a condition is negated"},
	{"shift", "< becomes <=, > becomes >=, and back"},
	{"logic", "&& becomes ||, and back"},
	{"remove-statement", "a call, branch, loop or other statement is left out"},
	{"remove-case", "a case of a switch is left out"},
	{"remove-assign", "a variable keeps its value"},
	{"remove-field", "a field is not set when its struct or map is made"},
	{"swap", "two neighbouring statements that may depend on each other change places"},
	{"other-name", "another variable, field or constant of the same type"},
	{"drop-error", "an error is not looked at, or not returned"},
	{"off-by-one", "an integer or a length is one too large or too small"},
	{"alias", "what was copied is shared"},
}

// edit replaces the text of a file between two offsets.
type edit struct {
	from, to int
	text     string
}

// point is a place that an operator can damage, in one way or in several.
type point struct {
	file     *file
	function string // with its receiver's type; empty outside of functions
	operator string
	line     int
	column   int
	name     string // of the point, the same wherever the code is moved to within its package
	variants [][]edit
}

// points returns all places of a module that can be damaged, but for packages that are spared.
func (m *module) points() []*point {
	var all []*point
	for _, p := range m.packages {
		if p.spared {
			continue
		}
		var found []*point
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				finder := finder{fset: m.fset, file: f, function: functionName(decl)}
				ast.Inspect(decl, finder.visit)
				found = append(found, finder.found...)
			}
		}
		slices.SortStableFunc(found, func(a, b *point) int {
			from, other := a.variants[0][0].from, b.variants[0][0].from
			return cmp.Or(cmp.Compare(a.file.name, b.file.name), cmp.Compare(from, other))
		})
		seen := map[string]int{}
		for _, at := range found {
			seen[at.name]++
			at.name = fmt.Sprintf("%s #%d", at.name, seen[at.name])
		}
		all = append(all, found...)
	}
	return all
}

func functionName(decl ast.Decl) string {
	f, is := decl.(*ast.FuncDecl)
	if !is {
		return ""
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, is := t.(*ast.StarExpr); is {
		t = star.X
	}
	switch generic := t.(type) {
	case *ast.IndexExpr:
		t = generic.X
	case *ast.IndexListExpr:
		t = generic.X
	}
	return t.(*ast.Ident).Name + "." + f.Name.Name
}

// finder looks for the points of a declaration.
type finder struct {
	fset     *token.FileSet
	file     *file
	function string
	stack    []ast.Node // from the declaration to the parent of the node that is visited
	found    []*point
}

func (f *finder) visit(n ast.Node) bool {
	if n == nil {
		f.stack = f.stack[:len(f.stack)-1]
		return true
	}
	if f.guards(n) {
		return false
	}
	f.conditions(n)
	f.statements(n)
	f.errors(n)
	f.values(n)
	f.names(n)
	f.stack = append(f.stack, n)
	return true
}

// guards reports whether a node is a call of package invariant. What it checks never fails while there is no bug,
// so damage there is never noticed.
func (f *finder) guards(n ast.Node) bool {
	if statement, is := n.(*ast.ExprStmt); is {
		n = statement.X
	}
	call, is := n.(*ast.CallExpr)
	if !is {
		return false
	}
	selector, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	used := f.file.info.Uses[selector.Sel]
	return used != nil && used.Pkg() != nil && strings.HasSuffix(used.Pkg().Path(), "/invariant")
}

func (f *finder) parent() ast.Node {
	if len(f.stack) == 0 {
		return nil
	}
	return f.stack[len(f.stack)-1]
}

// add adds a point at a node.
func (f *finder) add(operator string, at ast.Node, variants ...[]edit) {
	if len(variants) == 0 {
		return
	}
	position := f.fset.Position(at.Pos())
	name := strings.Join([]string{f.file.path, f.function, operator, f.line(at), f.text(at)}, "\n")
	f.found = append(f.found, &point{file: f.file, function: f.function, operator: operator, line: position.Line,
		column: position.Column, name: name, variants: variants})
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// text returns the source of a node.
func (f *finder) text(n ast.Node) string {
	return string(f.file.text[f.offset(n.Pos()):f.offset(n.End())])
}

// line returns the line where a node begins.
func (f *finder) line(n ast.Node) string {
	line := f.fset.Position(n.Pos()).Line
	return strings.TrimSpace(strings.Split(string(f.file.text), "\n")[line-1])
}

// replace returns the edit that puts a text in a node's place.
func (f *finder) replace(n ast.Node, text string) edit {
	return edit{from: f.offset(n.Pos()), to: f.offset(n.End()), text: text}
}

// remove returns the edit that leaves a node out, and keeps the numbers of the lines after it.
func (f *finder) remove(n ast.Node) edit {
	return f.replace(n, strings.Repeat("\n", strings.Count(f.text(n), "\n")))
}

// apply returns the file's text with a variant of the point.
func (p *point) apply(variant int) []byte {
	var out []byte
	at := 0
	for _, e := range p.variants[variant] {
		out = append(append(out, p.file.text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, p.file.text[at:]...)
}
