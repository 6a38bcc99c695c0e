package mango

import (
	"strconv"

	"couchrelay/core/ejson"
)

// Fields are some fields of documents.
type Fields struct{ paths []fieldPath }

// ParseFields reads the names of fields, with dots between the names of nested ones. Its error is an *Error.
func ParseFields(names []string) (Fields, error) {
	var f Fields
	p := parser{budget: maxPaths}
	for _, name := range names {
		path, err := fieldPath{}.below(name)
		if err == nil {
			err = p.spend(path)
		}
		if err != nil {
			return Fields{}, err
		}
		f.paths = append(f.paths, path)
	}
	return f, nil
}

// Of returns an object with those of the fields that a document has. As in CouchDB an element of an array becomes a
// member that has its number for a name.
func (f Fields) Of(doc ejson.Value) ejson.Value {
	out := ejson.Value{Kind: ejson.Object}
	for _, path := range f.paths {
		if v, found, _ := (element{doc}).at(path.names); found {
			out = put(out, path.names, v)
		}
	}
	return out
}

// put returns a value with another one at a path below it.
func put(in ejson.Value, path []string, v ejson.Value) ejson.Value {
	if len(path) == 0 {
		return v
	}
	switch in.Kind {
	case ejson.Object:
		for i, m := range in.Members {
			if m.Name == path[0] {
				members := append([]ejson.Member{}, in.Members...)
				members[i].Value = put(m.Value, path[1:], v)
				return ejson.Value{Kind: ejson.Object, Members: members}
			}
		}
		below := put(ejson.Value{Kind: ejson.Object}, path[1:], v)
		members := append(in.Members[:len(in.Members):len(in.Members)], ejson.Member{Name: path[0], Value: below})
		return ejson.Value{Kind: ejson.Object, Members: members}
	case ejson.Array: // a whole array was asked for before, and has the element
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(in.Elems) {
			return in
		}
		elems := append([]ejson.Value{}, in.Elems...)
		elems[i] = put(elems[i], path[1:], v)
		return ejson.Value{Kind: ejson.Array, Elems: elems}
	}
	return in
}
