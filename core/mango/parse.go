package mango

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/ejson"
)

// maxPaths bounds the memory of all field paths together, in bytes. A path is repeated for every condition
// below it, in memory and in the normal form, so a small hostile selector could take memory that grows with
// the square of its size.
const maxPaths = 8 << 20

// unsupported are operators that CouchDB knows and refuses.
var unsupported = []string{"$where", "$geoWithin", "$geoIntersects", "$near", "$nearSphere"}

type parser struct {
	budget int // bytes left of maxPaths
}

// condition reads v as the condition on the field at path; an empty path stands for the document.
func (p *parser) condition(v ejson.Value, path fieldPath) (*node, error) {
	switch {
	case v.Kind != ejson.Object || len(v.Members) == 0:
		return p.leaf(opEq, v, path)
	case len(v.Members) == 1:
		return p.member(v.Members[0], path)
	}
	var all []ejson.Value
	for _, m := range v.Members {
		all = append(all, object(m.Name, m.Value))
	}
	return p.combination(opAnd, ejson.Value{Kind: ejson.Array, Elems: all}, path)
}

func (p *parser) member(m ejson.Member, path fieldPath) (*node, error) {
	if !strings.HasPrefix(m.Name, "$") {
		longer, err := path.below(m.Name)
		if err != nil {
			return nil, err
		}
		if err := p.spend(longer); err != nil {
			return nil, err
		}
		return p.condition(m.Value, longer)
	}
	if slices.Contains(unsupported, m.Name) {
		return nil, &Error{"not_supported", "Unsupported operator: " + m.Name}
	}
	if m.Name == "$default" {
		if text, is := m.Value.Get("$text"); is && len(m.Value.Members) == 1 {
			return p.text(text, path)
		}
		return nil, &Error{"bad_field", "Invalid field normalization on selector: $default takes only a $text operator"}
	}
	i := slices.Index(opNames[:], m.Name)
	if i < 0 {
		return nil, &Error{"invalid_operator", "Invalid operator: " + m.Name}
	}
	switch o := op(i); {
	case o == opText:
		return p.text(m.Value, path)
	case o == opNot:
		return p.single(o, m.Value, path)
	case !o.isCondition():
		return p.combination(o, m.Value, path)
	default:
		return p.leaf(o, m.Value, path)
	}
}

// combination reads the operands of $and, $or and $nor.
func (p *parser) combination(o op, list ejson.Value, path fieldPath) (*node, error) {
	if list.Kind != ejson.Array {
		return nil, badArg(o, "an array of selectors")
	}
	out := &node{op: o}
	for _, v := range list.Elems {
		child, err := p.condition(v, path)
		if err != nil {
			return nil, err
		}
		out.children = append(out.children, child)
	}
	return out, nil
}

// single reads the one operand of an operator that takes a selector.
func (p *parser) single(o op, v ejson.Value, path fieldPath) (*node, error) {
	if v.Kind != ejson.Object {
		return nil, badArg(o, "a selector, which is a JSON object")
	}
	child, err := p.condition(v, path)
	return &node{op: o, children: []*node{child}}, err
}

func (p *parser) text(v ejson.Value, path fieldPath) (*node, error) {
	switch v.Kind {
	case ejson.String, ejson.Number, ejson.True, ejson.False:
	default:
		return nil, badArg(opText, "a string, number or boolean")
	}
	if len(path.names) > 0 {
		return nil, &Error{"bad_field", "Invalid field normalization on selector: $text cannot be applied to a field"}
	}
	return &node{op: opText, arg: v}, nil
}

func (p *parser) leaf(o op, arg ejson.Value, path fieldPath) (leaf *node, err error) {
	leaf = &node{op: o}
	if o.hasSelector() {
		if leaf, err = p.single(o, arg, fieldPath{}); err != nil {
			return nil, err
		}
	} else if err := checkOperand(o, arg); err != nil {
		return nil, err
	} else {
		leaf.arg = arg
	}
	leaf.path = path
	return leaf, p.spend(path)
}

// spend takes one more copy of path from the budget.
func (p *parser) spend(path fieldPath) error {
	for _, name := range path.names {
		p.budget -= len(name) + 16
	}
	if p.budget < 0 {
		return &Error{"invalid_selector",
			"Selector is too large: written out for every condition its field names exceed 8 MiB"}
	}
	return nil
}

func checkOperand(o op, arg ejson.Value) error {
	switch o {
	case opIn, opNin, opAll:
		return accept(arg.Kind == ejson.Array, o, "an array")
	case opExists:
		return accept(arg.Kind == ejson.True || arg.Kind == ejson.False, o, "a boolean")
	case opType, opBeginsWith:
		return accept(arg.Kind == ejson.String, o, "a string")
	case opSize:
		return accept(arg.IsInteger() && (arg.Text[0] != '-' || arg.Text == "-0"), o, "an integer that is not negative")
	case opMod:
		return checkMod(arg)
	case opRegex:
		return checkRegex(arg)
	default:
		return nil
	}
}

func accept(ok bool, o op, accepted string) error {
	if !ok {
		return badArg(o, accepted)
	}
	return nil
}

// maxDivisor bounds divisors so that ten times a remainder, plus a digit, fits into 64 bits.
const maxDivisor = 100_000_000_000_000_000

func checkMod(arg ejson.Value) error {
	ok := len(arg.Elems) == 2
	for i, e := range arg.Elems {
		n, err := strconv.ParseInt(e.Text, 10, 64)
		ok = ok && e.IsInteger() && err == nil && n >= -maxDivisor && n <= maxDivisor && (n != 0 || i == 1)
	}
	return accept(ok, opMod, "[divisor, remainder], two integers of up to 17 digits, the divisor not 0")
}

// checkRegex refuses expressions that neither RE2 nor PCRE can read.
func checkRegex(arg ejson.Value) error {
	if arg.Kind != ejson.String {
		return badArg(opRegex, "a string")
	}
	_, err := regexp.Compile(arg.Text)
	if mistake := (*syntax.Error)(nil); errors.As(err, &mistake) {
		switch mistake.Code {
		case syntax.ErrMissingBracket, syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrTrailingBackslash,
			syntax.ErrMissingRepeatArgument:
			return badArg(opRegex, "a regular expression: "+string(mistake.Code))
		}
	}
	return nil
}

// fieldPath is where a field is, seen from the document or from an element of an array.
type fieldPath struct {
	names   []string
	written string // the same with dots between, and with the backslashes of the selector
}

// below is the path to a field of the value at the path. Dots split the field's name. A dot behind a backslash is a
// part of the name, and every backslash is dropped.
func (p fieldPath) below(field string) (fieldPath, error) {
	longer := fieldPath{slices.Clone(p.names), field}
	if p.written != "" {
		longer.written = p.written + "." + field
	}
	start := 0
	for i := 0; i <= len(field); i++ {
		if i < len(field) && (field[i] != '.' || i > 0 && field[i-1] == '\\') {
			continue
		}
		if i == start {
			return p, &Error{"invalid_field_name", fmt.Sprintf("Invalid field name: %q has an empty part", field)}
		}
		longer.names = append(longer.names, strings.ReplaceAll(field[start:i], `\`, ""))
		start = i + 1
	}
	return longer, nil
}
