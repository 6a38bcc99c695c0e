package lint

import (
	"fmt"
	"go/ast"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns = 120
	tabColumns = 4

	maxFunction = 70  // lines
	maxFile     = 510 // lines
	maxFields   = 20  // of a struct
	maxMethods  = 30  // of a type
)

var width = rule{
	name: "width",
	why:  "what is wider does not fit beside a second file, and hides how much a function does",
	canaries: []string{
		"core/p.go: package p\n// " + strings.Repeat("x", maxColumns),
		"core/p.go: package p\n//" + strings.Repeat("\t", maxColumns/tabColumns),
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			for i, line := range strings.Split(f.text, "\n") {
				if n := columns(line); f.ast != nil && n > maxColumns {
					at := fmt.Sprintf("%s:%d", f.path, i+1)
					text := fmt.Sprintf("%d columns, where %d are enough", n, maxColumns)
					found = append(found, finding{at: at, text: text})
				}
			}
		}
		return found
	},
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

var sizes = rule{
	name: "sizes",
	why: "what is larger than can be held in mind does several things; what grows past a limit is to be cut, and the " +
		"limit not to be raised",
	ratchet: true,
	canaries: []string{
		"core/p.go: package p\nfunc f() {" + strings.Repeat("\n", maxFunction) + "}",
		"core/p.go: package p" + strings.Repeat("\n", maxFile+1),
		"core/p.go: package p\ntype t struct {" + strings.Repeat("f int\n", maxFields+1) + "}",
		"core/p.go: package p\ntype t struct {f" + strings.Repeat(", f", maxFields) + " int }",
		"core/p.go: package p\n" + strings.Repeat("func (*t[K]) f() {}\n", maxMethods+1),
	},
	check: func(s *source) []finding {
		c := sizeCheck{source: s, methods: map[string]int{}, extra: map[string]string{}}
		for _, f := range s.files {
			if f.ast != nil {
				c.file(f)
			}
		}
		for t, at := range c.extra {
			c.add(at, t+"/methods", "methods", c.methods[t], maxMethods)
		}
		return c.found
	},
}

type sizeCheck struct {
	*source
	methods map[string]int    // number by type, over the files of a package
	extra   map[string]string // where the first method above the limit is, by type
	found   []finding
}

func (c *sizeCheck) add(at, what, unit string, n, limit int) {
	text := fmt.Sprintf("%s has %d %s, where %d are enough", what, n, unit, limit)
	c.found = append(c.found, finding{at: at, text: text, what: what, n: n})
}

func (c *sizeCheck) file(f file) {
	if n := f.lines(); n > maxFile {
		c.add(f.path+":1", f.path, "lines", n, maxFile)
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.function(f, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, is := spec.(*ast.TypeSpec); is {
					c.structure(f, t)
				}
			}
		}
	}
}

func (c *sizeCheck) function(f file, d *ast.FuncDecl) {
	if f.test() {
		return // tables of tests are long, and lists
	}
	if n := c.fset.Position(d.End()).Line - c.fset.Position(d.Pos()).Line + 1; n > maxFunction {
		c.add(c.at(d.Pos()), f.dir()+"."+d.Name.Name+"()", "lines", n, maxFunction)
	}
	if d.Recv == nil {
		return
	}
	t := f.dir() + "." + receiver(d.Recv.List[0].Type)
	if c.methods[t]++; c.methods[t] == maxMethods+1 {
		c.extra[t] = c.at(d.Pos())
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (c *sizeCheck) structure(f file, t *ast.TypeSpec) {
	structure, is := t.Type.(*ast.StructType)
	if !is {
		return
	}
	n := 0
	for _, field := range structure.Fields.List {
		n += max(1, len(field.Names))
	}
	if n > maxFields {
		c.add(c.at(t.Pos()), f.dir()+"."+t.Name.Name+"/fields", "fields", n, maxFields)
	}
}
