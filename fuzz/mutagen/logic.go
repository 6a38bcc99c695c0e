package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

var opposite = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: ">=", token.GEQ: "<", token.GTR: "<=", token.LEQ: ">",
}

var shifted = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

var otherLogic = map[token.Token]string{token.LAND: "||", token.LOR: "&&"}

// conditions finds what is compared, and conditions that are not comparisons.
func (f *finder) conditions(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for operator, by := range map[string]map[token.Token]string{
			"negate": opposite, "shift": shifted, "logic": otherLogic,
		} {
			if text := by[n.Op]; text != "" {
				at := f.offset(n.OpPos)
				f.add(operator, n, []edit{{from: at, to: at + len(n.Op.String()), text: text}})
			}
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			f.negate(n.X)
			f.negate(n.Y)
		}
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		f.negate(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return
		}
		for _, clause := range n.Body.List {
			for _, condition := range clause.(*ast.CaseClause).List {
				f.negate(condition)
			}
		}
	}
}

// negate finds conditions that are neither comparisons nor made of others.
func (f *finder) negate(condition ast.Expr) {
	switch c := condition.(type) {
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			f.add("negate", c, []edit{f.replace(c, f.text(c.X))})
		}
	case *ast.Ident, *ast.SelectorExpr, *ast.CallExpr, *ast.IndexExpr:
		f.add("negate", c, []edit{f.replace(c, "!"+f.text(c))})
	}
}

// errors finds errors that are looked at or returned.
func (f *finder) errors(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		if at := f.looksAtError(n.Cond); at != nil {
			f.add("drop-error", at, []edit{f.replace(at, "(false && "+f.text(at)+")")})
		}
	case *ast.ReturnStmt:
		if len(n.Results) == 0 {
			return
		}
		last := n.Results[len(n.Results)-1]
		if f.isError(last) {
			f.add("drop-error", n, []edit{f.replace(last, "nil")})
		}
	}
}

// looksAtError returns the comparison in a condition that asks whether an error is nil; nil if there is none.
func (f *finder) looksAtError(condition ast.Expr) (at ast.Expr) {
	ast.Inspect(condition, func(n ast.Node) bool {
		compared, binary := n.(*ast.BinaryExpr)
		if binary && compared.Op == token.NEQ && f.isNil(compared.Y) && f.isError(compared.X) {
			at = compared
		}
		return at == nil
	})
	return at
}

func (f *finder) isNil(e ast.Expr) bool {
	return f.file.info.Types[e].IsNil()
}

var errorInterface = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// isError reports whether an expression that is not nil can be returned as an error. One that is returned by a
// function with several results is not an expression.
func (f *finder) isError(e ast.Expr) bool {
	t := f.file.info.Types[e]
	if t.Type == nil || t.IsNil() || t.IsVoid() {
		return false
	}
	if _, several := t.Type.(*types.Tuple); several {
		return false
	}
	return types.Implements(t.Type, errorInterface)
}
