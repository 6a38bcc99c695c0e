package mango

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/ejson"

	"github.com/go-json-experiment/json/jsontext"
)

// Field is a member of a document that is not in its body, for example _id.
type Field struct {
	Name  string
	Value jsontext.Value
}

// Match reports whether a document fulfils the selector. body is its JSON object. fields are members that are
// stored elsewhere, and come before those of the body. Only the members that the selector asks for are
// decoded. The error is for a body that is no JSON object, or an *Error if the match would take too many steps.
func (s *Selector) Match(body []byte, fields ...Field) (bool, error) {
	if s.root == nil {
		return true, nil
	}
	doc, err := open(body, fields)
	if err != nil {
		return false, err
	}
	left := steps{maxSteps}
	matches := s.root.matches(doc, &left)
	if left.left < 0 {
		return false, errCostly
	}
	return matches, nil
}

// subject is the value that a selector is applied to: the document, or a value inside of it.
type subject interface {
	// at returns the value at path. found reports whether there is one. If not, missing reports whether the
	// path leads to a member that its object lacks, rather than into a value that is no object.
	at(path []string, s *steps) (v ejson.Value, found, missing bool)
}

func (n *node) matches(in subject, s *steps) bool {
	if !s.take(1 + len(n.path.names)) {
		return false
	}
	accepts := func(child *node) bool { return child.matches(in, s) }
	switch n.op {
	case opAnd:
		return !slices.ContainsFunc(n.children, func(c *node) bool { return !accepts(c) })
	case opOr:
		return len(n.children) == 0 || slices.ContainsFunc(n.children, accepts)
	case opNot:
		return !accepts(n.children[0])
	case opNor:
		return !slices.ContainsFunc(n.children, accepts)
	case opText:
		return true
	}
	v, found, missing := in.at(n.path.names, s)
	if !found {
		return missing && n.op == opExists && n.arg.Kind == ejson.False
	}
	return n.holds(v, s) != n.negated
}

// holds reports whether a condition holds for a value that exists.
func (n *node) holds(v ejson.Value, s *steps) bool {
	inside := func(e ejson.Value) bool { return n.children[0].matches(element{e}, s) }
	switch n.op {
	case opElemMatch:
		return slices.ContainsFunc(v.Elems, inside)
	case opAllMatch:
		return len(v.Elems) > 0 && !slices.ContainsFunc(v.Elems, func(e ejson.Value) bool { return !inside(e) })
	case opKeyMapMatch:
		return slices.ContainsFunc(v.Members, func(m ejson.Member) bool {
			return inside(ejson.Value{Kind: ejson.String, Text: m.Name})
		})
	case opExists:
		return n.arg.Kind == ejson.True
	case opType:
		return n.arg.Text == typeNames[v.Kind]
	case opMod:
		return s.read(len(v.Text)) && n.divides(v)
	case opRegex:
		return v.Kind == ejson.String && s.read((len(v.Text)+1)*n.size) && n.regex.MatchString(v.Text)
	case opAll:
		return n.holdsAll(v, s)
	case opSize:
		return v.Kind == ejson.Array && s.read(len(n.arg.Text)) &&
			compareNumbers(n.arg.Text, strconv.Itoa(len(v.Elems))) == 0
	case opBeginsWith:
		return v.Kind == ejson.String && s.read(len(n.arg.Text)) && strings.HasPrefix(v.Text, n.arg.Text)
	default:
		return n.compares(v, s)
	}
}

// compares evaluates the operators that go by the order of values.
func (n *node) compares(v ejson.Value, s *steps) bool {
	switch n.op {
	case opLt:
		return n.compare(v, n.arg, s) < 0
	case opLte:
		return n.compare(v, n.arg, s) <= 0
	case opGt:
		return n.compare(v, n.arg, s) > 0
	case opGte:
		return n.compare(v, n.arg, s) >= 0
	case opEq:
		return n.compare(v, n.arg, s) == 0
	case opNe:
		return n.compare(v, n.arg, s) != 0
	case opIn:
		return n.isIn(v, s)
	case opNin:
		return !n.isIn(v, s)
	default:
		panic("mango: no such operator: " + opNames[n.op])
	}
}

// compare orders values by collation. Document ids are ordered by their bytes, behind all other values.
func (n *node) compare(v, arg ejson.Value, s *steps) int {
	if len(n.path.names) == 1 && n.path.names[0] == "_id" && v.Kind == ejson.String {
		if arg.Kind != ejson.String {
			return 1
		}
		s.read(min(len(v.Text), len(arg.Text)))
		return strings.Compare(v.Text, arg.Text)
	}
	return s.compare(v, arg)
}

// isIn reports whether v, or one of its elements if it is an array, is among the operands.
func (n *node) isIn(v ejson.Value, s *steps) bool {
	candidates := v.Elems
	if v.Kind != ejson.Array {
		candidates = []ejson.Value{v}
	}
	return slices.ContainsFunc(candidates, func(c ejson.Value) bool {
		key := appendKey(nil, c, false)
		return s.read(len(key)) && n.keys[string(key)]
	})
}

// holdsAll reports whether v is an array that has every operand, or equals the only operand.
func (n *node) holdsAll(v ejson.Value, s *steps) bool {
	args := n.arg.Elems
	if v.Kind != ejson.Array || len(args) == 0 {
		return false
	}
	if len(args) == 1 && args[0].Kind == ejson.Array && s.compare(args[0], v) == 0 {
		return true
	}
	has := s.keysOf(v.Elems, true)
	s.take(len(n.keys))
	for key := range n.keys { // order does not matter: all have to be there
		if !has[key] {
			return false
		}
	}
	return true
}

// divides computes the remainder digit by digit, since the document's number may have any length. The
// remainder has the sign of the number, as in Erlang.
func (n *node) divides(v ejson.Value) bool {
	if !v.IsInteger() {
		return false
	}
	digits, negative := strings.CutPrefix(v.Text, "-")
	divisor, _ := strconv.ParseInt(n.arg.Elems[0].Text, 10, 64)
	wanted, _ := strconv.ParseInt(n.arg.Elems[1].Text, 10, 64)
	remainder := int64(0)
	for i := range len(digits) {
		remainder = (remainder*10 + int64(digits[i]-'0')) % divisor
	}
	if negative {
		remainder = -remainder
	}
	return remainder == wanted
}

var typeNames = map[jsontext.Kind]string{
	ejson.Null: "null", ejson.False: "boolean", ejson.True: "boolean", ejson.Number: "number", ejson.String: "string",
	ejson.Array: "array", ejson.Object: "object",
}

// element is a value inside of a document.
type element struct{ ejson.Value }

func (e element) at(path []string, s *steps) (v ejson.Value, found, missing bool) {
	v = e.Value
	for _, name := range path {
		switch v.Kind {
		case ejson.Object:
			s.take(len(v.Members))
			if v, found = v.Get(name); !found {
				return v, false, true
			}
		case ejson.Array:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v.Elems) {
				return v, false, false
			}
			v = v.Elems[i]
		default:
			return v, false, false
		}
	}
	return v, true, false
}

// document is a whole document. Its members are decoded as they are asked for.
type document struct {
	body   []byte
	fields []Field
	names  []string
	values []jsontext.Value       // raw, aliasing the body
	places map[string]int         // of names in names, nil until it is asked for
	all    *ejson.Value           // the whole document, nil until it is asked for
	asked  map[string]ejson.Value // members that were asked for before, of which many conditions may be
}

// leniently are the options for stored documents, which may have been accepted by other rules.
var leniently = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func open(body []byte, fields []Field) (*document, error) {
	doc := &document{body: body, fields: fields}
	d := jsontext.NewDecoder(bytes.NewBuffer(body), leniently...)
	if err := doc.read(d); err != nil {
		return nil, fmt.Errorf("document is not a JSON object: %w at byte %d", ejson.ErrSyntax, d.InputOffset())
	}
	return doc, nil
}

func (doc *document) read(d *jsontext.Decoder) error {
	if t, err := d.ReadToken(); err != nil || t.Kind() != ejson.Object {
		return ejson.ErrSyntax
	}
	for d.PeekKind() != jsontext.KindEndObject {
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset())
		doc.names = append(doc.names, name)
		doc.values = append(doc.values, jsontext.Value(doc.body[end-len(raw):end]))
	}
	_, _ = d.ReadToken() // the end of the object; if it cannot be read, the next token cannot either
	if _, err := d.ReadToken(); err != io.EOF {
		return ejson.ErrSyntax
	}
	return nil
}

func (doc *document) at(path []string, s *steps) (v ejson.Value, found, missing bool) {
	if len(path) == 0 {
		return doc.whole(), true, false
	}
	if v, found = doc.asked[path[0]]; !found {
		raw, found := doc.member(path[0])
		if !found {
			return v, false, true
		}
		if v = decode(raw); doc.asked == nil {
			doc.asked = map[string]ejson.Value{}
		}
		doc.asked[path[0]] = v
	}
	return element{v}.at(path[1:], s)
}

func (doc *document) member(name string) (jsontext.Value, bool) {
	for _, f := range doc.fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	if i, found := doc.place(name); found {
		return doc.values[i], true
	}
	return nil, false
}

// manyNames is how many members a document has at least for an index of their names to be worth its cost.
const manyNames = 32

// place finds where a member is by its name, the last one if it is there more than once.
func (doc *document) place(name string) (int, bool) {
	if len(doc.names) < manyNames {
		for i, n := range slices.Backward(doc.names) {
			if n == name {
				return i, true
			}
		}
		return 0, false
	}
	if doc.places == nil {
		doc.places = make(map[string]int, len(doc.names))
		for i, n := range doc.names {
			doc.places[n] = i
		}
	}
	i, found := doc.places[name]
	return i, found
}

// whole decodes the whole document, which few selectors need.
func (doc *document) whole() ejson.Value {
	if doc.all != nil {
		return *doc.all
	}
	v := decode(doc.body)
	for _, f := range slices.Backward(doc.fields) {
		v.Members = slices.DeleteFunc(v.Members, func(m ejson.Member) bool { return m.Name == f.Name })
		v.Members = slices.Insert(v.Members, 0, ejson.Member{Name: f.Name, Value: decode(f.Value)})
	}
	doc.all = &v
	return v
}

// decode reads a value that is known to be valid. Scalars need no decoder, which saves time.
func decode(raw jsontext.Value) ejson.Value {
	switch kind := raw.Kind(); kind {
	case ejson.String:
		text, _ := jsontext.AppendUnquote(nil, raw)
		return ejson.Value{Kind: kind, Text: string(text)}
	case ejson.Number:
		return ejson.Value{Kind: kind, Text: string(raw)}
	case ejson.Array, ejson.Object:
		v, _ := ejson.Parse(raw, leniently...)
		return v
	default:
		return ejson.Value{Kind: kind}
	}
}
