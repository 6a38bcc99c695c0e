package fuzz

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"couchrelay/core/ejson"
	"couchrelay/core/mango"
)

// FuzzSelector reads any bytes as a selector and as a document. A selector that compiles has a normal
// form, and matching with it is repeatable.
func FuzzSelector(f *testing.F) {
	for selector, doc := range map[string]string{
		`{"a":{"$gt":5},"b.c":{"$in":[1,"x",null]}}`:                          `{"a":6,"b":{"c":"x"}}`,
		`{"$or":[{"a":{"$elemMatch":{"$not":{"b":1}}}},{"$nor":[]}]}`:         `{"a":[{"b":1},{"b":2}]}`,
		`{"x":{"$mod":[3,1]},"y":{"$size":2},"z":{"$regex":"^a+"}}`:           `{"x":7,"y":[1,2],"z":"aab"}`,
		`{"x":{"$keyMapMatch":{"$beginsWith":"k"}},"y":{"$exists":false}}`:    `{"x":{"key":1}}`,
		`{"$and":[{"$eq":{"a":1e2}}],"a\\.b":{"$all":[[1]]},"$text":"words"}`: `{"a":100,"a":1e400}`,
	} {
		f.Add([]byte(selector), []byte(doc))
	}
	f.Fuzz(func(t *testing.T, selector, doc []byte) {
		normal, err := mango.Normalize(selector)
		if err != nil {
			if _, is := errors.AsType[*mango.Error](err); !is && !errors.Is(err, ejson.ErrSyntax) {
				t.Fatalf("%T", err)
			}
			return
		}
		if v, err := ejson.Parse(normal); err != nil || !bytes.Equal(v.Append(nil), normal) {
			t.Fatalf("%s: %v", normal, err)
		}
		s, err := mango.Compile(selector)
		if err != nil {
			return
		}
		first, err := s.Match(doc)
		if again, errAgain := s.Match(doc); first != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("%s on %s: %v and %v", selector, doc, first, again)
		}
	})
}

// FuzzBounds: a document that any selector matches lies within the bounds of ids that the selector has.
func FuzzBounds(f *testing.F) {
	for selector, id := range map[string]string{
		`{"_id":{"$gt":"a","$lte":"q"}}`:                      "b",
		`{"$not":{"$or":[{"_id":{"$lt":"b"}},{"_id":"x"}]}}`:  "c",
		`{"_id":{"$beginsWith":"ab"},"$and":[{"_id":"abc"}]}`: "abc",
		`{"$nor":[{"_id":{"$gte":null}}],"n":1}`:              "a",
	} {
		f.Add([]byte(selector), id)
	}
	f.Fuzz(func(t *testing.T, selector []byte, id string) {
		s, err := mango.Compile(selector)
		if err != nil || !utf8.ValidString(id) {
			return
		}
		quoted := ejson.Value{Kind: ejson.String, Text: id}.Append(nil)
		matches, err := s.Match([]byte(`{"n":1}`), mango.Field{Name: "_id", Value: quoted})
		if err != nil || !matches {
			return
		}
		b := s.Bounds()
		if b.None || b.Low != nil && (id < *b.Low || id == *b.Low && b.LowIsOut) ||
			b.High != nil && (id > *b.High || id == *b.High && b.HighIsOut) {
			t.Fatalf("%s matches %q, which is out of %+v", selector, id, b)
		}
		s.Hints()
	})
}

// FuzzFields: some fields of a document are an object with values that the document has, and of these the same fields
// are the same, unless a part of an array was asked for.
func FuzzFields(f *testing.F) {
	f.Add(`o.p.0.q`, `o.p`, []byte(`{"o":{"p":[{"q":1},{"q":2}]},"x.y":5}`))
	f.Add(`x\.y`, `x`, []byte(`{"x.y":{"x":null},"x":[]}`))
	f.Fuzz(func(t *testing.T, one, other string, doc []byte) {
		fields, err := mango.ParseFields([]string{one, other})
		if err != nil {
			if _, is := errors.AsType[*mango.Error](err); !is {
				t.Fatalf("%T", err)
			}
			return
		}
		v, err := ejson.Parse(doc)
		if err != nil {
			return
		}
		some := fields.Of(v)
		if _, err := ejson.Parse(some.Append(nil)); err != nil || some.Kind != ejson.Object {
			t.Fatalf("%s: %v", some.Append(nil), err)
		}
		if again := fields.Of(some); !bytes.Contains(doc, []byte("[")) && mango.Compare(again, some) != 0 {
			t.Fatalf("%q %q of %s: %s, and of that %s", one, other, doc, some.Append(nil), again.Append(nil))
		}
	})
}

// FuzzCompare checks that the order of JSON values is one.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(`[1,"a",{"b":null}]`), []byte(`[1.0,"A",{"b":true}]`), []byte(`1e-400`))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var v [3]ejson.Value
		for i, raw := range [][]byte{a, b, c} {
			var err error
			if v[i], err = ejson.Parse(raw); err != nil {
				return
			}
		}
		less := func(i, j int) bool { return mango.Compare(v[i], v[j]) < 0 }
		if less(0, 1) && less(1, 0) || mango.Compare(v[0], v[0]) != 0 ||
			less(0, 1) && less(1, 2) && !less(0, 2) {
			t.Fatalf("%s, %s and %s are in no order", a, b, c)
		}
	})
}
