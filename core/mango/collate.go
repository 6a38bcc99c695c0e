package mango

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"couchrelay/core/ejson"
)

// kindOrder is the order of JSON types in CouchDB's collation.
var kindOrder = []byte{
	byte(ejson.Null), byte(ejson.False), byte(ejson.True), byte(ejson.Number), byte(ejson.String),
	byte(ejson.Array), byte(ejson.Object),
}

// Compare orders any two JSON values as CouchDB's views do: null, false, true, numbers, strings, arrays,
// objects. Arrays compare element by element, objects member by member in the order in which they were
// written. If one ends where the other goes on, it is less.
func Compare(a, b ejson.Value) int { return new(steps).compare(a, b) }

func (s *steps) compare(a, b ejson.Value) int {
	s.take(1)
	if a.Kind != b.Kind {
		return slices.Index(kindOrder, byte(a.Kind)) - slices.Index(kindOrder, byte(b.Kind))
	}
	switch a.Kind {
	case ejson.Number:
		s.read(len(a.Text) + len(b.Text))
		return compareNumbers(a.Text, b.Text)
	case ejson.String:
		return s.compareStrings(a.Text, b.Text)
	case ejson.Array:
		return slices.CompareFunc(a.Elems, b.Elems, s.compare)
	case ejson.Object:
		return slices.CompareFunc(a.Members, b.Members, s.compareMembers)
	default:
		return 0
	}
}

func (s *steps) compareMembers(a, b ejson.Member) int {
	if order := s.compareStrings(a.Name, b.Name); order != 0 {
		return order
	}
	return s.compare(a.Value, b.Value)
}

// keysOf returns the keys of values.
func (s *steps) keysOf(values []ejson.Value, exact bool) map[string]bool {
	keys := make(map[string]bool, len(values))
	for _, v := range values {
		key := appendKey(nil, v, exact)
		keys[string(key)] = true
		s.read(len(key))
	}
	return keys
}

// appendKey writes a text that two values have alike if they compare as equal; or, if exact, if they are equal by
// Erlang's =:=, for which 1 and 1.0 differ.
func appendKey(dst []byte, v ejson.Value, exact bool) []byte {
	switch v.Kind {
	case ejson.Number:
		if d := parseDecimal(v.Text); d.digits == "" {
			dst = append(dst, '0')
		} else {
			dst = append(strconv.AppendInt(dst, int64(d.sign()), 10), '.')
			dst = strconv.AppendInt(append(append(dst, d.digits...), 'e'), int64(d.exponent), 10)
		}
		if exact && v.IsInteger() {
			dst = append(dst, 'i')
		}
	case ejson.Array:
		dst = append(dst, '[')
		for _, e := range v.Elems {
			dst = append(appendKey(dst, e, exact), ',')
		}
		dst = append(dst, ']')
	case ejson.Object:
		dst = append(dst, '{')
		for _, m := range v.Members {
			dst = append(ejson.Value{Kind: ejson.String, Text: m.Name}.Append(dst), ':')
			dst = append(appendKey(dst, m.Value, exact), ',')
		}
		dst = append(dst, '}')
	default:
		dst = v.Append(dst)
	}
	return dst
}

// ascii has the characters in the order of ICU's root collation (CLDR 48), lower case for both cases. Control
// characters that are not in it are ignored.
const ascii = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"

// weights has the place of each character in ascii, counted from 1; 0 for characters that are ignored.
var weights = func() (w [utf8.RuneSelf]rune) {
	for i := range len(ascii) {
		w[ascii[i]] = rune(i + 1)
	}
	for c := 'A'; c <= 'Z'; c++ {
		w[c] = w[c-'A'+'a']
	}
	return w
}()

// compareStrings compares by letters first, then by case, lower before upper, then by bytes.
func (s *steps) compareStrings(a, b string) int {
	byCase := 0
	x, y := a, b
	defer func() { s.read(len(a) - len(x) + len(b) - len(y)) }()
	for x != "" || y != "" {
		var p, q rune
		var upperX, upperY bool
		p, upperX, x = nextWeight(x)
		q, upperY, y = nextWeight(y)
		if p != q {
			return cmp.Compare(p, q)
		}
		if byCase == 0 && upperX != upperY {
			byCase = -1
			if upperX {
				byCase = 1
			}
		}
	}
	return cmp.Or(byCase, strings.Compare(a, b))
}

// nextWeight returns the weight of the next character of s that is not ignored, and the rest of s. At the end
// of s the weight is 0, which is less than all others.
func nextWeight(s string) (weight rune, upper bool, rest string) {
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if r >= utf8.RuneSelf {
			return r, false, s
		}
		if weights[r] != 0 {
			return weights[r], 'A' <= r && r <= 'Z', s
		}
	}
	return 0, false, ""
}
