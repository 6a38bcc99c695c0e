package tuple

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// ErrMalformed is in the chain of every error about bytes that are no tuple.
var ErrMalformed = errors.New("malformed tuple")

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// Unpack decodes the bytes that Pack returns. All other bytes give an error with ErrMalformed in its chain,
// also encodings that Pack would not choose: Pack of the result is always b.
func Unpack(b []byte) (Tuple, error) {
	var t Tuple
	for len(b) > 0 {
		e, rest, err := element(b, 0)
		if err != nil {
			return nil, err
		}
		t, b = append(t, e), rest
	}
	return t, nil
}

// element decodes the first element of b, which must not be empty, and returns the bytes after it.
func element(b []byte, depth int) (any, []byte, error) { // float: only decoded
	switch code := b[0]; {
	case code == nilCode:
		return nil, b[1:], nil
	case code == bytesCode:
		return boxed(text(b))
	case code == stringCode:
		s, rest, err := textIn(b)
		return string(unescaped(s)), rest, err
	case code == nestedCode:
		return boxed(nested(b, depth+1))
	case bigNegCode <= code && code <= bigPosCode:
		return integer(b)
	case code == floatCode:
		u, rest, err := fixed(b, 4)
		return float32Of(u), rest, err
	case code == doubleCode:
		u, rest, err := fixed(b, 8)
		return float64Of(u), rest, err
	case code == falseCode || code == trueCode:
		return code == trueCode, b[1:], nil
	case code == uuidCode:
		u, rest, err := fixed(b, 16)
		return UUID(padded(u, 16)), rest, err
	case code == versionCode:
		return boxed(versionstamp(b))
	}
	return nil, nil, malformed(fmt.Sprintf("unknown type code 0x%02x", b[0]))
}

func boxed[T any](v T, rest []byte, err error) (any, []byte, error) { return v, rest, err }

// text decodes a byte string into fresh memory.
func text(b []byte) (val, rest []byte, err error) {
	escaped, rest, err := textIn(b)
	return append([]byte{}, unescaped(escaped)...), rest, err
}

// unescaped returns the result of textIn without its escapes, in the same memory if it has none.
func unescaped(b []byte) []byte {
	if bytes.IndexByte(b, 0) < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte{0, 0xff}, []byte{0})
}

// textIn returns the part of b that has the string at its start, still escaped.
func textIn(b []byte) (escaped, rest []byte, err error) {
	for at := 1; ; at += 2 {
		i := bytes.IndexByte(b[at:], 0)
		if i < 0 {
			return nil, nil, malformed("string without end")
		}
		at += i
		if at+1 == len(b) || b[at+1] != 0xff {
			return b[1:at], b[at+1:], nil
		}
	}
}

func nested(b []byte, depth int) (Tuple, []byte, error) {
	if depth > maxDepth {
		return nil, nil, malformed("nested too deeply")
	}
	t := Tuple{}
	for b = b[1:]; len(b) > 0; {
		if b[0] == nilCode {
			if len(b) == 1 || b[1] != 0xff {
				return t, b[1:], nil
			}
			t, b = append(t, nil), b[2:]
			continue
		}
		e, rest, err := element(b, depth)
		if err != nil {
			return nil, nil, err
		}
		t, b = append(t, e), rest
	}
	return nil, nil, malformed("nested tuple without end")
}

// integer decodes an integer of any length into the narrowest of int64, uint64 and *big.Int.
func integer(b []byte) (any, []byte, error) {
	if b[0] == bigNegCode || b[0] == bigPosCode {
		return boxed(bigInteger(b))
	}
	negative, magnitude, rest, err := smallInteger(b)
	switch {
	case err != nil:
		return nil, nil, err
	case !negative && magnitude > math.MaxInt64:
		return magnitude, rest, nil
	case negative && magnitude > 1<<63:
		i := new(big.Int).SetUint64(magnitude)
		return i.Neg(i), rest, nil
	case negative:
		return int64(-magnitude), rest, nil
	}
	return int64(magnitude), rest, nil
}

// smallInteger decodes an integer of at most eight bytes into its sign and magnitude.
func smallInteger(b []byte) (negative bool, magnitude uint64, rest []byte, err error) {
	n := int(b[0]) - zeroCode
	if negative = n < 0; negative {
		n = -n
	}
	if len(b) < 1+n {
		return false, 0, nil, malformed("integer cut off")
	}
	for _, digit := range b[1 : 1+n] {
		if negative {
			digit = ^digit
		}
		magnitude = magnitude<<8 | uint64(digit)
	}
	if byteLen(magnitude) != n {
		return false, 0, nil, malformed("integer longer than needed")
	}
	return negative, magnitude, b[1+n:], nil
}

func bigInteger(b []byte) (*big.Int, []byte, error) {
	negative := b[0] == bigNegCode
	if len(b) < 2 {
		return nil, nil, malformed("integer cut off")
	}
	n := int(b[1])
	if negative {
		n = int(^b[1])
	}
	if len(b) < 2+n {
		return nil, nil, malformed("integer cut off")
	}
	magnitude := bytes.Clone(b[2 : 2+n])
	if negative {
		complement(magnitude)
	}
	if n <= 8 || magnitude[0] == 0 {
		return nil, nil, malformed("integer longer than needed")
	}
	i := new(big.Int).SetBytes(magnitude)
	if negative {
		i.Neg(i)
	}
	return i, b[2+n:], nil
}

// fixed returns the n bytes after the type code.
func fixed(b []byte, n int) (val, rest []byte, err error) {
	if len(b) < 1+n {
		return nil, nil, malformed("element cut off")
	}
	return b[1 : 1+n], b[1+n:], nil
}

// padded returns val, or n zero bytes if val is nil since fixed failed.
func padded(val []byte, n int) []byte {
	if val == nil {
		return make([]byte, n)
	}
	return val
}

func float32Of(val []byte) float32 { // float: only decoded
	u := binary.BigEndian.Uint32(padded(val, 4))
	if u>>31 == 0 {
		return math.Float32frombits(^u)
	}
	return math.Float32frombits(u ^ 1<<31)
}

func float64Of(val []byte) float64 { // float: only decoded
	u := binary.BigEndian.Uint64(padded(val, 8))
	if u>>63 == 0 {
		return math.Float64frombits(^u)
	}
	return math.Float64frombits(u ^ 1<<63)
}

func versionstamp(b []byte) (v Versionstamp, rest []byte, err error) {
	val, rest, err := fixed(b, 12)
	if err != nil {
		return v, nil, err
	}
	copy(v.Transaction[:], val)
	v.User = binary.BigEndian.Uint16(val[10:])
	return v, rest, nil
}
