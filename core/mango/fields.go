package mango

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"couchrelay/core/ejson"
)

// Fields are some fields of documents.
type Fields struct{ root *field }

// field is a name in the names of fields, with those that follow it behind a dot.
type field struct {
	place int  // where its name ends for the first time, math.MaxInt if none does
	whole bool // a name does
	below map[string]*field
	names []string // of below, in the order in which they were given
}

// ParseFields reads the names of fields, with dots between the names of nested ones. Its error is an *Error.
func ParseFields(names []string) (Fields, error) {
	root := newField()
	p := parser{budget: maxPaths}
	for place, name := range names {
		path, err := fieldPath{}.below(name)
		if err == nil {
			err = p.spend(path)
		}
		if err != nil {
			return Fields{}, err
		}
		f := root
		for _, name := range path.names {
			f = f.longer(name)
		}
		f.place, f.whole = min(f.place, place), true
	}
	return Fields{root}, nil
}

func newField() *field { return &field{place: math.MaxInt, below: map[string]*field{}} }

func (f *field) longer(name string) *field {
	if f.below[name] == nil {
		f.below[name], f.names = newField(), append(f.names, name)
	}
	return f.below[name]
}

// Of returns an object with those of the fields that a document has, in their order. As in CouchDB an element of an
// array becomes a member that has its number for a name. A number with a sign or zeros in front names none: else
// many names of one element would make a document many times as long.
func (f Fields) Of(doc ejson.Value) ejson.Value {
	out, _ := f.root.of(doc)
	return out
}

// of returns what a value has of a field, and the place of the first name of which it has something; math.MaxInt if
// there is none. It looks at each member once.
func (f *field) of(v ejson.Value) (ejson.Value, int) {
	type part struct {
		ejson.Member
		place int
	}
	var parts []part
	add := func(name string, v ejson.Value) {
		if v, place := f.below[name].of(v); place < math.MaxInt {
			parts = append(parts, part{ejson.Member{Name: name, Value: v}, place})
		}
	}
	for _, m := range v.Members {
		if f.below[m.Name] != nil {
			add(m.Name, m.Value)
		}
	}
	if v.Kind == ejson.Array {
		for _, name := range f.names {
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v.Elems) && strconv.Itoa(i) == name {
				add(name, v.Elems[i])
			}
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.place, b.place) })
	place, out := f.place, ejson.Value{Kind: ejson.Object}
	for _, p := range parts {
		place, out.Members = min(place, p.place), append(out.Members, p.Member)
	}
	if f.whole {
		out = v
	}
	return out, place
}
