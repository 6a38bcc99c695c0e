package peer

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"couchrelay/core/ejson"

	"github.com/go-json-experiment/json/jsontext"
)

// SeqOf reads a sequence as a server wrote it. Sequences are compared as text, but a sequence of the source
// that was stored in a checkpoint comes back as the other server spells JSON: so spaces and the escapes of
// strings are normalized. Numbers stay as they are. What is not JSON, null or empty is an error.
func SeqOf(raw []byte) (Seq, error) {
	raw = bytes.TrimSpace(raw)
	if plain(raw) {
		return Seq(raw), nil
	}
	v, err := ejson.Parse(raw, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "", err
	}
	if v.Kind == ejson.Null {
		return "", errNoSeq
	}
	return Seq(v.Append(nil)), nil
}

var errNoSeq = errors.New("no sequence")

// plain reports whether a sequence is a string without escapes, as most are, so that it needs no parsing.
func plain(raw []byte) bool {
	n := len(raw)
	if n < 2 || raw[0] != '"' || raw[n-1] != '"' {
		return false
	}
	inner := raw[1 : n-1]
	for _, c := range inner {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(inner)
}
