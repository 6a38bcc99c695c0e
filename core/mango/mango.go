// Package mango holds CouchDB's selectors: reading and checking them, their normal form, which
// replication ids hash, and matching documents with them.
//
// The meaning is that of CouchDB's mango_selector and couch_ejson_compare, with three differences:
//
//   - numbers compare exactly, where CouchDB rounds those with a fraction or exponent to doubles;
//   - strings collate as in ICU's root locale for ASCII, and beyond it by code point behind the
//     letters; strings that differ never compare as equal;
//   - $regex follows RE2 as Go has it, not PCRE: no look-around and no back references, dot means a
//     character and not a byte, and $ without (?m) matches at the very end only. Normalize lets
//     expressions pass that only PCRE knows, since then another server matches; Compile refuses them.
package mango

import (
	"fmt"
	"regexp"

	"couchrelay/core/ejson"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says what is wrong with a selector. Name is CouchDB's word for the class of the mistake, what
// its HTTP interface has in "error"; Reason is one sentence.
type Error struct {
	Name   string
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func badArg(o op, accepted string) error {
	return &Error{"bad_arg", fmt.Sprintf("Bad argument for operator %s: it must be %s", opNames[o], accepted)}
}

// Selector is a compiled selector. It does not change, so many may match with it at once.
type Selector struct {
	root *node // nil matches everything
}

// Compile reads a selector for matching. Its error is an *Error, or wraps ejson.ErrSyntax.
func Compile(raw []byte) (*Selector, error) {
	root, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if err := compileRegexes(root); err != nil {
		return nil, err
	}
	return &Selector{root}, nil
}

// Normalize checks a selector and returns the normal form that replication ids hash: every condition
// is a field's full name and one operator, negations have moved to the conditions, and members are
// sorted by name. It identifies a selector but cannot stand for it: escapes in field names are gone,
// and the order of members in an operand too. Its error is an *Error, or wraps ejson.ErrSyntax.
func Normalize(raw []byte) (jsontext.Value, error) {
	root, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return sorted(root.render()).Append(nil), nil
}

func parse(raw []byte) (*node, error) {
	v, err := ejson.Parse(raw)
	if err != nil {
		return nil, err
	}
	if v.Kind != ejson.Object {
		return nil, &Error{"invalid_selector_json", "Selector must be a JSON object"}
	}
	if len(v.Members) == 0 {
		return nil, nil
	}
	p := parser{budget: maxPaths}
	root, err := p.condition(v, nil)
	if err != nil {
		return nil, err
	}
	if root, err = root.pushNegations(); err != nil {
		return nil, err
	}
	if root.op.isCondition() && len(root.path) == 0 {
		return nil, &Error{"invalid_selector", "One or more conditions is missing a field name."}
	}
	return root, nil
}

func compileRegexes(n *node) (err error) {
	if n == nil {
		return nil
	}
	if n.op == opRegex {
		if n.regex, err = regexp.Compile(n.arg.Text); err != nil {
			return &Error{"not_supported", "Unsupported $regex, it must be one that RE2 knows: " + err.Error()}
		}
	}
	for _, child := range n.children {
		if err := compileRegexes(child); err != nil {
			return err
		}
	}
	return nil
}
