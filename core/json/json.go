// Package json has the dialects of JSON that the core speaks, one function for each use. A use is told by
// who wrote the text, or who will read it:
//
//	Encode          rows of the store
//	EncodeVerbatim  rows and documents with JSON of servers or users in them, which comes back as it was spelled
//	DecodeRecord    records of jobs, which no program but couchrelay writes
//	Decode          everything else: rows of other releases, documents of users, logs of other replicators
//
// Encode and Decode are what encoding/json does, in half of its time. A test compares them with it: they
// must stay so, since nodes of several releases share a store. Two differences are known. What is no UTF-8
// is written as the character U+FFFD, where encoding/json writes its escape; and Decode goes on after an
// error of an UnmarshalText.
//
// Two more dialects have packages of their own, since they are more than functions: package ejson has
// values as CouchDB sees them, with the order of members and numbers as text, from which replication ids
// are made; package docs works on the bytes of document bodies and never decodes them.
package json

import (
	"bytes"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Raw is a value that is kept as text.
type Raw = jsontext.Value

// Encode writes a row of the store, as encoding/json does: <, > and & are escaped, in Raw values too.
func Encode(v any) ([]byte, error) { return jsonv1.Marshal(v) }

// EncodeVerbatim writes like Encode but keeps <, > and & as they are, so that the strings of Raw values are
// written as they were spelled: a sequence goes back to its server, and a selector into a replication id.
func EncodeVerbatim(v any) ([]byte, error) {
	var out bytes.Buffer
	e := jsonv1.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// ownRecord lets pass what Encode writes: a Raw value in a record may be a sequence, which is any JSON that
// a server wrote, with repeated names or strings that are no UTF-8.
var ownRecord = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Join is one object with the members of several, in their order. They are objects as the functions above
// write them.
func Join(objects ...[]byte) []byte {
	joined := []byte("{")
	for _, o := range objects {
		members := o[1 : len(o)-1]
		if len(joined) > 1 && len(members) > 0 {
			joined = append(joined, ',')
		}
		joined = append(joined, members...)
	}
	return append(joined, '}')
}

// DecodeRecord reads what Encode wrote of the same type. Names must be spelled exactly, which takes less
// time than Decode; records are read with every request for a job, so that this matters.
func DecodeRecord(raw []byte, v any) error { return jsonv2.Unmarshal(raw, v, ownRecord) }

// Decode reads what others wrote, as leniently as encoding/json: names match in any case, of repeated ones
// the last counts, what is no UTF-8 is replaced, unknown members are left out. After an error v has what
// could be read.
func Decode(raw []byte, v any) error { return jsonv1.Unmarshal(raw, v) }
