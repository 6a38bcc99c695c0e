package peer

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"couchrelay/core/ejson"

	"github.com/go-json-experiment/json/jsontext"
)

// SeqOf reads a sequence as a server wrote it. Sequences are compared as text, and what one server
// writes another one stores in a checkpoint and writes back in its own way: so spaces and the escapes of
// strings do not count. Numbers stay as they are. The error is for what is not JSON, null or nothing.
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

// plain tells a string without escapes, the usual one.
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
