package mango

import "couchrelay/core/ejson"

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
	if in.Kind != ejson.Object {
		return in // it was asked for as a whole before, and has what is below
	}
	for i, m := range in.Members {
		if m.Name == path[0] {
			in.Members[i].Value = put(m.Value, path[1:], v)
			return in
		}
	}
	below := put(ejson.Value{Kind: ejson.Object}, path[1:], v)
	in.Members = append(in.Members, ejson.Member{Name: path[0], Value: below})
	return in
}
