// Package ejson holds JSON values the way CouchDB sees them: members keep the order in which they
// were written, of a repeated name only the last member counts, and a number stays the text it was,
// so that nothing is rounded and integers can be told from decimal fractions. Replication ids are
// hashes over such values. It is meant for requests and selectors; document bodies stay raw bytes.
package ejson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Kinds of a Value, as jsontext names them.
const (
	Null   = jsontext.KindNull
	False  = jsontext.KindFalse
	True   = jsontext.KindTrue
	String = jsontext.KindString
	Number = jsontext.KindNumber
	Array  = jsontext.KindBeginArray
	Object = jsontext.KindBeginObject
)

// Value is one JSON value. Only the field that belongs to its kind is set.
type Value struct {
	Kind    jsontext.Kind
	Text    string   // a string's characters, or a number as it was written
	Elems   []Value  // of an array
	Members []Member // of an object, in document order, each name once
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value Value
}

// ErrSyntax is wrapped by every error of Parse. The error's text tells where the input is wrong but
// shows none of it, since it may hold passwords.
var ErrSyntax = errors.New("invalid UTF-8 JSON")

// MaxDepth is how deep values may be nested. What is read here becomes part of other values, and encoders have limits.
const MaxDepth = 1000

var errDepth = fmt.Errorf("nested more than %d deep", MaxDepth)

// Parse reads exactly one value. Strings must be valid UTF-8 unless an option allows otherwise;
// repeated names are always allowed. Of a repeated name the last member stays, where it stood.
func Parse(raw []byte, options ...jsontext.Options) (Value, error) {
	options = append([]jsontext.Options{jsontext.AllowDuplicateNames(true)}, options...)
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), options...)
	v, err := read(d)
	if err == nil {
		if _, err = d.ReadToken(); err == io.EOF {
			return v, nil
		}
	}
	if err == errDepth {
		return Value{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return Value{}, fmt.Errorf("%w at byte %d", ErrSyntax, d.InputOffset())
}

func read(d *jsontext.Decoder) (Value, error) {
	t, err := d.ReadToken()
	if err != nil {
		return Value{}, err
	}
	if d.StackDepth() > MaxDepth {
		return Value{}, errDepth
	}
	switch kind := t.Kind(); kind {
	case String, Number:
		return Value{Kind: kind, Text: t.String()}, nil
	case Array:
		return readArray(d)
	case Object:
		return readObject(d)
	default:
		return Value{Kind: kind}, nil
	}
}

func readArray(d *jsontext.Decoder) (Value, error) {
	array := Value{Kind: Array}
	for d.PeekKind() != jsontext.KindEndArray {
		elem, err := read(d)
		if err != nil {
			return Value{}, err
		}
		array.Elems = append(array.Elems, elem)
	}
	_, err := d.ReadToken()
	return array, err
}

func readObject(d *jsontext.Decoder) (Value, error) {
	object := Value{Kind: Object}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := read(d)
		if err != nil {
			return Value{}, err
		}
		value, err := read(d)
		if err != nil {
			return Value{}, err
		}
		object.Members = append(object.Members, Member{name.Text, value})
	}
	object.Members = lastOfEachName(object.Members)
	_, err := d.ReadToken()
	return object, err
}

func lastOfEachName(members []Member) []Member {
	last := make(map[string]int, len(members))
	for i, m := range members {
		last[m.Name] = i
	}
	if len(last) == len(members) {
		return members
	}
	kept := members[:0]
	for i, m := range members {
		if last[m.Name] == i {
			kept = append(kept, m)
		}
	}
	return kept
}

// Get returns an object's member; of anything else it finds none.
func (v Value) Get(name string) (Value, bool) {
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Value{}, false
}

// IsInteger tells a number written without fraction and exponent.
func (v Value) IsInteger() bool {
	return v.Kind == Number && !strings.ContainsAny(v.Text, ".eE")
}

// Append writes the value as compact JSON behind dst. Equal values give equal bytes.
func (v Value) Append(dst []byte) []byte {
	switch v.Kind {
	case String:
		return appendString(dst, v.Text)
	case Number:
		return append(dst, v.Text...)
	case Array:
		dst = append(dst, '[')
		for i, e := range v.Elems {
			dst = e.Append(appendComma(dst, i))
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i, m := range v.Members {
			dst = append(appendString(appendComma(dst, i), m.Name), ':')
			dst = m.Value.Append(dst)
		}
		return append(dst, '}')
	default:
		return append(dst, v.Kind.String()...)
	}
}

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// appendString quotes s. Its only error is invalid UTF-8, which is then replaced as in all of Go.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
