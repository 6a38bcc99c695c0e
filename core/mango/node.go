package mango

import (
	"cmp"
	"regexp"
	"slices"

	"couchrelay/core/ejson"
)

// op is an operator.
type op uint8

// Operators. Those up to opNor combine selectors. Those from opElemMatch to opKeyMapMatch have a selector as
// their operand. The others compare a field with their operand. opText is always true.
const (
	opAnd op = iota
	opOr
	opNot
	opNor
	opText
	opElemMatch
	opAllMatch
	opKeyMapMatch
	opLt
	opLte
	opEq
	opNe
	opGte
	opGt
	opIn
	opNin
	opExists
	opType
	opMod
	opRegex
	opAll
	opSize
	opBeginsWith
)

var opNames = [...]string{
	opAnd: "$and", opOr: "$or", opNot: "$not", opNor: "$nor", opText: "$text", opElemMatch: "$elemMatch",
	opAllMatch: "$allMatch", opKeyMapMatch: "$keyMapMatch", opLt: "$lt", opLte: "$lte", opEq: "$eq", opNe: "$ne",
	opGte: "$gte", opGt: "$gt", opIn: "$in", opNin: "$nin", opExists: "$exists", opType: "$type", opMod: "$mod",
	opRegex: "$regex", opAll: "$all", opSize: "$size", opBeginsWith: "$beginsWith",
}

// opposites has the pairs of operators that are each other's negation.
var opposites = map[op]op{
	opLt: opGte, opGte: opLt, opLte: opGt, opGt: opLte, opEq: opNe, opNe: opEq, opIn: opNin, opNin: opIn,
}

// isCondition reports whether the operator is about a field.
func (o op) isCondition() bool { return o >= opElemMatch }

// hasSelector reports whether the operator's operand is a selector.
func (o op) hasSelector() bool { return o >= opElemMatch && o <= opKeyMapMatch }

// node is one operator of a selector with its operands.
type node struct {
	op op
	// children are the operands of $and, $or and $nor, or the one operand of $not, $elemMatch, $allMatch and
	// $keyMapMatch.
	children []*node
	// path leads from the document to the field of a condition. Below $elemMatch, $allMatch and $keyMapMatch
	// it begins at the element, and is empty if the condition is on the element itself.
	path fieldPath
	// negated inverts a condition whose operator has no opposite.
	negated bool
	arg     ejson.Value
	regex   *regexp.Regexp  // of $regex, set by Compile
	size    int             // of $regex: how many instructions regex has
	keys    map[string]bool // of the operands of $in, $nin and $all, set by Compile
}

// pushNegations moves negations down to the conditions by De Morgan's laws. Like CouchDB, it does not go into
// $elemMatch, $allMatch and $keyMapMatch.
func (n *node) pushNegations() (*node, error) {
	switch n.op {
	case opNot:
		return n.children[0].negate()
	case opNor:
		return n.withChildren(opAnd, (*node).negate)
	case opAnd, opOr:
		return n.withChildren(n.op, (*node).pushNegations)
	default:
		return n, nil
	}
}

func (n *node) negate() (*node, error) {
	switch n.op {
	case opNot:
		return n.children[0].pushNegations()
	case opNor:
		return n.withChildren(opOr, (*node).pushNegations)
	case opAnd:
		return n.withChildren(opOr, (*node).negate)
	case opOr:
		return n.withChildren(opAnd, (*node).negate)
	case opText:
		return nil, badArg(opNot, "something else than $text")
	}
	inverse := *n
	opposite, has := opposites[n.op]
	switch {
	case has:
		inverse.op = opposite
	case n.op == opExists && n.arg.Kind == ejson.True:
		inverse.arg.Kind = ejson.False
	case n.op == opExists:
		inverse.arg.Kind = ejson.True
	default:
		inverse.negated = true
	}
	return &inverse, nil
}

func (n *node) withChildren(o op, change func(*node) (*node, error)) (*node, error) {
	out := &node{op: o}
	for _, child := range n.children {
		changed, err := change(child)
		if err != nil {
			return nil, err
		}
		out.children = append(out.children, changed)
	}
	return out, nil
}

// render returns the node in CouchDB's normal form: that of its releases up to 3.5, which keep the backslashes of
// paths.
func (n *node) render() ejson.Value {
	switch {
	case n == nil:
		return ejson.Value{Kind: ejson.Object}
	case n.op == opNot:
		return object(opNames[opNot], n.children[0].render())
	case n.op == opText:
		return object("$default", object(opNames[opText], n.arg))
	case !n.op.isCondition():
		operands := ejson.Value{Kind: ejson.Array}
		for _, child := range n.children {
			operands.Elems = append(operands.Elems, child.render())
		}
		return object(opNames[n.op], operands)
	}
	arg := n.arg
	if n.op.hasSelector() {
		arg = n.children[0].render()
	}
	condition := object(opNames[n.op], arg)
	if n.negated {
		condition = object(opNames[opNot], condition)
	}
	return object(n.path.written, condition)
}

func object(name string, v ejson.Value) ejson.Value {
	return ejson.Value{Kind: ejson.Object, Members: []ejson.Member{{Name: name, Value: v}}}
}

// sorted returns v with the members of every object in it sorted by name.
func sorted(v ejson.Value) ejson.Value {
	elems, members := v.Elems, v.Members
	v.Elems, v.Members = nil, nil
	for _, e := range elems {
		v.Elems = append(v.Elems, sorted(e))
	}
	for _, m := range members {
		v.Members = append(v.Members, ejson.Member{Name: m.Name, Value: sorted(m.Value)})
	}
	slices.SortFunc(v.Members, func(a, b ejson.Member) int { return cmp.Compare(a.Name, b.Name) })
	return v
}
