package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// named is what an invariant of the core says: its name, and what holds.
var named = regexp.MustCompile(`^([a-z]+\.[a-z-]+): .`)

var invariants = rule{
	name: "invariants",
	why:  "the name of an invariant of the core is all that a log has of a breach, so it leads to one place",
	canaries: []string{
		`core/node/p.go: package node; const a invariant.ID = "no name"`,
		`core/node/p.go: package node; const a invariant.ID = "jobs.name: of another package"`,
		`core/node/p.go: package node; const (a invariant.ID = "node.name: 1"; b invariant.ID = "node.name: 2")`,
	},
	check: func(s *source) (found []finding) {
		at := map[string]string{}
		for _, f := range s.files {
			if f.ast == nil || f.test() || !within(f.path, "core") {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				text, is := invariantText(n)
				if !is {
					return true
				}
				name, wrong := "", ""
				if match := named.FindStringSubmatch(text); match != nil {
					name = match[1]
				}
				switch pkg := path.Base(f.dir()); {
				case name == "":
					wrong = fmt.Sprintf("%q is not of the form \"package.name: what holds\"", text)
				case !strings.HasPrefix(name, pkg+"."):
					wrong = name + " is not named after package " + pkg
				case at[name] != "":
					wrong = name + " is also the name of an invariant at " + at[name]
				}
				if wrong != "" {
					found = append(found, finding{at: s.at(n.Pos()), text: wrong})
				}
				at[name] = s.at(n.Pos())
				return true
			})
		}
		return found
	},
}

// invariantText returns what the constant of an invariant says.
func invariantText(n ast.Node) (string, bool) {
	spec, is := n.(*ast.ValueSpec)
	if !is || len(spec.Values) != 1 {
		return "", false
	}
	kind, is := spec.Type.(*ast.SelectorExpr)
	if !is || kind.Sel.Name != "ID" {
		return "", false
	}
	if pkg, is := kind.X.(*ast.Ident); !is || pkg.Name != "invariant" {
		return "", false
	}
	literal, is := spec.Values[0].(*ast.BasicLit)
	if !is {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
