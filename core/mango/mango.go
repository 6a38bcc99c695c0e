// Package mango implements CouchDB's selectors: it parses and checks them, brings them into the normal form
// that replication ids hash, and matches documents with them.
//
// Selectors mean what CouchDB's mango_selector and couch_ejson_compare make of them, with three differences:
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

// Error is a mistake in a selector. Name is CouchDB's word for its class, the "error" of its answers. Reason
// is one sentence.
type Error struct {
	Name   string
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func badArg(o op, accepted string) error {
	return &Error{"bad_arg", fmt.Sprintf("Bad argument for operator %s: it must be %s", opNames[o], accepted)}
}

// Selector is a compiled selector. It does not change, so it is safe for concurrent use.
type Selector struct {
	root *node // nil matches everything
}

// Compile parses a selector for matching. Its error is an *Error, or wraps ejson.ErrSyntax.
func Compile(raw []byte) (*Selector, error) {
	root, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if err := prepare(root); err != nil {
		return nil, err
	}
	return &Selector{root}, nil
}

// Normalize checks a selector and returns the normal form that replication ids hash: every condition is a
// field's full name and one operator, negations have moved to the conditions, and members are sorted by name.
// The normal form identifies a selector, but does not mean the same: it lacks the order of members in operands. The
// error is an *Error, or wraps ejson.ErrSyntax.
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
	root, err := p.condition(v, fieldPath{})
	if err != nil {
		return nil, err
	}
	if root, err = root.pushNegations(); err != nil {
		return nil, err
	}
	if root.op.isCondition() && len(root.path.names) == 0 {
		return nil, &Error{"invalid_selector", "One or more conditions is missing a field name."}
	}
	return root, nil
}

// prepare makes what matching needs of operands.
func prepare(n *node) (err error) {
	if n == nil {
		return nil
	}
	if n.op == opRegex {
		if n.regex, err = regexp.Compile(n.arg.Text); err != nil {
			return &Error{"not_supported", "Unsupported $regex, it must be one that RE2 knows: " + err.Error()}
		}
		n.size = sizeOf(n.arg.Text)
	}
	if n.op == opIn || n.op == opNin || n.op == opAll {
		n.keys = new(steps).keysOf(n.arg.Elems, n.op == opAll)
	}
	for _, child := range n.children {
		if err := prepare(child); err != nil {
			return err
		}
	}
	return nil
}
