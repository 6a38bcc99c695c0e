package repid

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"strconv"

	"couchrelay/core/ejson"
)

// Tags of Erlang's external term format, https://www.erlang.org/doc/apps/erts/erl_ext_dist.html.
const (
	version    = 0x83
	tagFloat   = 0x46
	tagByte    = 0x61
	tagInteger = 0x62
	tagAtom    = 0x64 // the old Latin-1 form, to which term_to_binary's minor version 1 pins
	tagTuple   = 0x68
	tagNil     = 0x6a
	tagString  = 0x6b
	tagList    = 0x6c
	tagBinary  = 0x6d
	tagBig     = 0x6e
	tagHuge    = 0x6f
)

// terms is a list of encoded Erlang terms under construction.
type terms [][]byte

// list encodes a list. Lists of small integers need charlist.
func (t terms) list() []byte {
	if len(t) == 0 {
		return []byte{tagNil}
	}
	return append(append(appendListHead(nil, len(t)), slices.Concat(t...)...), tagNil)
}

// tuple encodes a tuple of fewer than 256 terms.
func (t terms) tuple() []byte {
	return append([]byte{tagTuple, byte(len(t))}, slices.Concat(t...)...)
}

func atom(name string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{tagAtom}, uint16(len(name))), name...)
}

func binaryTerm(s string) []byte { return appendBinary(nil, s) }

func appendBinary(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(append(dst, tagBinary), uint32(len(s))), s...)
}

// charlist encodes a list of integers from 0 to 255, such as a string of Erlang's, for which the format has a
// tag of its own.
func charlist(s string) []byte {
	if len(s) > 0 && len(s) <= math.MaxUint16 {
		return append(binary.BigEndian.AppendUint16([]byte{tagString}, uint16(len(s))), s...)
	}
	var t terms
	for i := range len(s) {
		t = append(t, []byte{tagByte, s[i]})
	}
	return t.list()
}

func integer(i int) []byte { return integerText(strconv.Itoa(i)) }

func integerText(text string) []byte {
	i, err := strconv.ParseInt(text, 10, 32)
	switch {
	case err != nil:
		return bigInteger(text)
	case i >= 0 && i <= math.MaxUint8:
		return []byte{tagByte, byte(i)}
	default:
		return binary.BigEndian.AppendUint32([]byte{tagInteger}, uint32(i))
	}
}

func bigInteger(text string) []byte {
	n, _ := new(big.Int).SetString(text, 10)
	magnitude := n.Bytes()
	slices.Reverse(magnitude)
	out := []byte{tagBig, byte(len(magnitude))}
	if len(magnitude) > math.MaxUint8 {
		out = binary.BigEndian.AppendUint32([]byte{tagHuge}, uint32(len(magnitude)))
	}
	sign := byte(0)
	if n.Sign() < 0 {
		sign = 1
	}
	return append(append(out, sign), magnitude...)
}

// floatText encodes a number with a fraction or an exponent as the nearest double. Its bits are hashed; they
// are the same on every machine, since the parser rounds correctly. Package spec refuses numbers out of
// range.
func floatText(text string) []byte { // float: rounded correctly, and so the same everywhere
	f, _ := strconv.ParseFloat(text, 64)
	return binary.BigEndian.AppendUint64([]byte{tagFloat}, math.Float64bits(f))
}

// appendJSON encodes JSON as the terms that CouchDB's decoder makes of it. It appends to dst: terms copied at
// every level would take quadratic time for deep ones.
func appendJSON(dst []byte, v ejson.Value) []byte {
	switch {
	case v.Kind == ejson.String:
		return appendBinary(dst, v.Text)
	case v.IsInteger():
		return append(dst, integerText(v.Text)...)
	case v.Kind == ejson.Number:
		return append(dst, floatText(v.Text)...)
	case v.Kind == ejson.Array:
		return appendArray(dst, v.Elems)
	case v.Kind == ejson.Object:
		return appendObject(dst, v.Members)
	default:
		return append(dst, atom(v.Kind.String())...)
	}
}

func appendObject(dst []byte, members []ejson.Member) []byte {
	dst = append(dst, tagTuple, 1)
	if len(members) == 0 {
		return append(dst, tagNil)
	}
	dst = appendListHead(dst, len(members))
	for _, m := range members {
		dst = appendJSON(appendBinary(append(dst, tagTuple, 2), m.Name), m.Value)
	}
	return append(dst, tagNil)
}

func appendArray(dst []byte, elems []ejson.Value) []byte {
	if chars, are := asChars(elems); are {
		return append(dst, charlist(chars)...)
	}
	dst = appendListHead(dst, len(elems))
	for _, e := range elems {
		dst = appendJSON(dst, e)
	}
	return append(dst, tagNil)
}

// asChars returns the elements as bytes, and reports whether all are integers from 0 to 255, as they are if
// there are none.
func asChars(elems []ejson.Value) (string, bool) {
	var chars []byte
	for _, e := range elems {
		i, err := strconv.ParseInt(e.Text, 10, 16)
		if !e.IsInteger() || err != nil || i < 0 || i > math.MaxUint8 {
			return "", false
		}
		chars = append(chars, byte(i))
	}
	return string(chars), true
}

func appendListHead(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, tagList), uint32(n))
}
