package couch

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// CouchDB stores documents that are nested deeper than jsontext takes, 10,000 levels. They are copied by themselves,
// since a copy needs members of the uppermost levels only: of what lies below, the target sees whether it is JSON.

// maxShallow is how many levels shallow leaves. Those that a copy needs are in the first three.
const maxShallow = 100

// isTooDeep reports whether JSON is nested deeper than its decoder takes, which has no type for that.
func isTooDeep(err error) bool {
	var syntax *jsontext.SyntacticError
	return errors.As(err, &syntax) && strings.Contains(syntax.Error(), "exceeded max depth")
}

// shallow returns a copy of JSON of the same length, in which the objects and arrays maxShallow levels down have
// spaces in place of their contents. So offsets in the copy hold for the original.
func shallow(raw []byte) []byte {
	out := bytes.Clone(raw)
	depth, quoted, escaped := 0, false, false
	for i, c := range raw {
		opens := false
		switch {
		case quoted:
			quoted, escaped = escaped || c != '"', c == '\\' && !escaped
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			opens = true
		case c == ']' || c == '}':
			depth--
		}
		if depth > maxShallow {
			out[i] = ' '
		}
		if opens {
			depth++
		}
	}
	return out
}
