package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// statements finds statements and cases that can be left out, and neighbours that can change places.
func (f *finder) statements(n ast.Node) {
	var list []ast.Stmt
	switch n := n.(type) {
	case *ast.BlockStmt:
		list = n.List
	case *ast.CommClause:
		list = n.Body
	case *ast.CaseClause:
		list = n.Body
		f.add("remove-case", n, []edit{f.remove(n)})
	}
	for i, s := range list {
		f.statement(s)
		if i > 0 && f.depend(list[i-1], s) {
			before := list[i-1]
			f.add("swap", before, []edit{f.replace(before, f.text(s)), f.replace(s, f.text(before))})
		}
	}
}

// statement finds out how a statement can be left out.
func (f *finder) statement(s ast.Stmt) {
	if f.guards(s) {
		return
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			f.add("remove-assign", s, []edit{f.remove(s)})
		}
	case *ast.IncDecStmt:
		f.add("remove-assign", s, []edit{f.remove(s)})
	case *ast.IfStmt:
		if f.looksAtError(s.Cond) == nil {
			f.add("remove-statement", s, []edit{f.remove(s)})
		}
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt, *ast.ReturnStmt, *ast.ForStmt,
		*ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt:
		f.add("remove-statement", s, []edit{f.remove(s)})
	}
}

// depend reports whether the order of two neighbouring statements may matter: both call something, and not only to
// get the values of new variables, or one changes what the other names. What declares a variable for the other does
// not compile in another order. An end of a function or loop in front of the other is the same as leaving that out.
func (f *finder) depend(a, b ast.Stmt) bool {
	switch b.(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return false
	}
	if f.guards(a) || f.guards(b) || exclude(f.file.info, a, b) {
		return false
	}
	one, other := f.touched(a), f.touched(b)
	values := declares(a) && declares(b)
	if one.calls && other.calls && !values {
		return true
	}
	calls := one.calls || other.calls
	wide := calls || one.leaves || other.leaves // then two fields of one variable may depend on each other
	for place, changed := range one.places {
		for at, also := range other.places {
			if place.of == at.of && (wide || place.overlaps(at)) && (changed || also || !values && calls) {
				return true
			}
		}
	}
	return false
}

// exclude reports whether two cases of a switch never both fit, or one is the default: then their order says nothing.
func exclude(info *types.Info, a, b ast.Stmt) bool {
	one, is := a.(*ast.CaseClause)
	if !is {
		return false
	}
	other := b.(*ast.CaseClause)
	overlaps := func(e ast.Expr) bool { // unless it is a constant, or the name of a type that is no interface
		t := info.Types[e]
		return t.Value == nil && !t.IsNil() && (!t.IsType() || types.IsInterface(t.Type))
	}
	return one.List == nil || other.List == nil || !slices.ContainsFunc(slices.Concat(one.List, other.List), overlaps)
}

func declares(s ast.Stmt) bool {
	a, is := s.(*ast.AssignStmt)
	return is && a.Tok == token.DEFINE
}

// touch is what a statement does.
type touch struct {
	calls  bool
	leaves bool           // the function or a loop, so that the other statement may not come
	places map[place]bool // what it reads (false) and what it changes (true)
}

// place is a variable, or a field of one with the numbers that lead there, also through embedded fields.
type place struct {
	of     types.Object
	fields string
}

func (p place) overlaps(other place) bool {
	return strings.HasPrefix(p.fields, other.fields) || strings.HasPrefix(other.fields, p.fields)
}

func (f *finder) touched(s ast.Stmt) touch {
	t := touch{places: map[place]bool{}}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun := f.file.info.Types[n.Fun]
			t.calls = t.calls || !fun.IsType() && !fun.IsBuiltin()
		case *ast.ReturnStmt, *ast.BranchStmt:
			t.leaves = true
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				t.changes(f.root(left))
			}
		case *ast.IncDecStmt:
			t.changes(f.root(n.X))
		case *ast.Ident, *ast.SelectorExpr:
			p, is := placeOf(f.file.info, n.(ast.Expr))
			if is && !t.places[p] {
				t.places[p] = false
			}
			return !is
		}
		return true
	})
	return t
}

func (t touch) changes(p place) {
	if p.of != nil {
		t.places[p] = true
	}
}

// placeOf returns what an expression names, if it is a variable or a field of one.
func placeOf(info *types.Info, e ast.Expr) (p place, is bool) {
	switch x := e.(type) {
	case *ast.Ident:
		v, is := info.Uses[x].(*types.Var)
		return place{of: v}, is && !v.IsField()
	case *ast.SelectorExpr:
		field := info.Selections[x]
		if field == nil || field.Kind() != types.FieldVal {
			return p, false
		}
		if p, is = placeOf(info, x.X); is {
			for _, n := range field.Index() {
				p.fields += fmt.Sprintf("%d.", n)
			}
		}
	}
	return p, is
}

// root returns what an assignment changes, or what that is in.
func (f *finder) root(e ast.Expr) place {
	for {
		if p, is := placeOf(f.file.info, e); is {
			return p
		}
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return place{}
		}
	}
}
