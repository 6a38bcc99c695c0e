package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// values finds integers, lengths, fields that are set and copies that are made.
func (f *finder) values(n ast.Node) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.offByOne(n, n.Value != "0")
		}
	case *ast.CompositeLit:
		for _, element := range n.Elts {
			if _, keyed := element.(*ast.KeyValueExpr); keyed {
				f.add("remove-field", element, []edit{f.removeElement(element)})
			}
		}
	case *ast.CallExpr:
		if name, is := n.Fun.(*ast.Ident); is && name.Name == "len" && f.file.info.Types[n.Fun].IsBuiltin() {
			f.offByOne(n, true)
		}
		if copied := f.copied(n); copied != nil {
			f.add("alias", n, []edit{f.replace(n, f.text(copied))})
		}
	}
}

func (f *finder) offByOne(n ast.Expr, less bool) {
	variants := [][]edit{{f.replace(n, "("+f.text(n)+" + 1)")}}
	if less {
		variants = append(variants, []edit{f.replace(n, "("+f.text(n)+" - 1)")})
	}
	f.add("off-by-one", n, variants...)
}

// removeElement leaves out an element of a composite literal and the comma after it.
func (f *finder) removeElement(element ast.Expr) edit {
	e := f.remove(element)
	rest := string(f.file.text[e.to:])
	if trimmed := strings.TrimLeft(rest, " \t"); strings.HasPrefix(trimmed, ",") {
		e.to += len(rest) - len(trimmed) + 1
	}
	return e
}

// cloners are functions that copy their argument, by their package.
var cloners = []string{"slices", "maps", "bytes"}

// copied returns what a call copies; nil if it does something else.
func (f *finder) copied(call *ast.CallExpr) ast.Expr {
	if selector, is := call.Fun.(*ast.SelectorExpr); is && selector.Sel.Name == "Clone" {
		used := f.file.info.Uses[selector.Sel]
		switch _, method := f.file.info.Selections[selector]; {
		case method && len(call.Args) == 0:
			return selector.X
		case !method && len(call.Args) == 1 && used.Pkg() != nil && slices.Contains(cloners, used.Pkg().Path()):
			return call.Args[0]
		}
		return nil
	}
	name, is := call.Fun.(*ast.Ident)
	if !is || name.Name != "append" || !call.Ellipsis.IsValid() || len(call.Args) != 2 {
		return nil
	}
	first, last := f.file.info.Types[call.Args[0]], call.Args[1]
	if !types.Identical(first.Type, f.file.info.Types[last].Type) {
		return nil
	}
	switch to := call.Args[0].(type) {
	case *ast.CompositeLit:
		if len(to.Elts) == 0 {
			return last
		}
	case *ast.CallExpr:
		if f.file.info.Types[to.Fun].IsType() && f.isNil(to.Args[0]) {
			return last
		}
	}
	return nil
}

// names finds uses of variables, fields and constants that have others of their type beside them.
func (f *finder) names(n ast.Node) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if !f.assigned(n) {
			f.rename(n.Sel, f.besides(n))
		}
	case *ast.Ident:
		if _, selected := f.parent().(*ast.SelectorExpr); selected && f.isSelected(n) || f.assigned(n) {
			return
		}
		f.rename(n, f.inScope(n))
	}
}

func (f *finder) rename(n *ast.Ident, others []string) {
	slices.Sort(others)
	var variants [][]edit
	for _, other := range slices.Compact(others) {
		variants = append(variants, []edit{f.replace(n, other)})
	}
	f.add("other-name", n, variants...)
}

func (f *finder) isSelected(n *ast.Ident) bool { return f.parent().(*ast.SelectorExpr).Sel == n }

// assigned reports whether an expression gets a value, or is a key of a composite literal.
func (f *finder) assigned(e ast.Expr) bool {
	switch parent := f.parent().(type) {
	case *ast.AssignStmt:
		return slices.Contains(parent.Lhs, e)
	case *ast.IncDecStmt:
		return true
	case *ast.RangeStmt:
		return parent.Key == e || parent.Value == e
	case *ast.KeyValueExpr:
		return parent.Key == e
	}
	return false
}

// besides returns the other fields of a struct or constants of a package that have the type of the selected one.
func (f *finder) besides(n *ast.SelectorExpr) (others []string) {
	selection := f.file.info.Selections[n]
	if selection == nil {
		constant, is := f.file.info.Uses[n.Sel].(*types.Const)
		if !is {
			return nil
		}
		scope := constant.Pkg().Scope()
		for _, name := range scope.Names() {
			if other, is := scope.Lookup(name).(*types.Const); is && other.Exported() && alike(other, constant) {
				others = append(others, name)
			}
		}
		return others
	}
	if selection.Kind() != types.FieldVal || len(selection.Index()) != 1 {
		return nil
	}
	t := selection.Recv()
	if pointer, is := t.Underlying().(*types.Pointer); is {
		t = pointer.Elem()
	}
	fields, is := t.Underlying().(*types.Struct)
	if !is {
		return nil
	}
	for field := range fields.Fields() {
		visible := field.Exported() || field.Pkg() == f.file.types
		if visible && !field.Embedded() && alike(field, selection.Obj()) {
			others = append(others, field.Name())
		}
	}
	return others
}

// alike reports whether two names are not the same but have the same type.
func alike(a, b types.Object) bool {
	if a.Name() == b.Name() || a.Name() == "_" {
		return false
	}
	if basic, is := b.Type().(*types.Basic); is && basic.Info()&types.IsUntyped != 0 {
		return false
	}
	return types.Identical(a.Type(), b.Type())
}

// inScope returns the other variables and constants that could stand for a name.
func (f *finder) inScope(n *ast.Ident) (others []string) {
	used := f.file.info.Uses[n]
	switch used := used.(type) {
	case *types.Const:
		if used.Parent() == types.Universe {
			return map[string][]string{"true": {"false"}, "false": {"true"}}[n.Name]
		}
	case *types.Var:
		if used.IsField() {
			return nil
		}
	default:
		return nil
	}
	inner := f.file.types.Scope().Innermost(n.Pos())
	for scope := inner; scope != nil && scope != types.Universe; scope = scope.Parent() {
		for _, name := range scope.Names() {
			other := scope.Lookup(name)
			switch other.(type) {
			case *types.Var, *types.Const:
			default:
				continue
			}
			if _, visible := inner.LookupParent(name, n.Pos()); visible == other && alike(other, used) {
				others = append(others, name)
			}
		}
	}
	return others
}
