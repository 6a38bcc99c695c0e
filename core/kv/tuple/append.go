package tuple

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// Type codes of the format. Integers of n bytes have zeroCode+n, or zeroCode-n if they are negative.
const (
	nilCode     = 0x00
	bytesCode   = 0x01
	stringCode  = 0x02
	nestedCode  = 0x05
	bigNegCode  = 0x0b
	zeroCode    = 0x14
	bigPosCode  = 0x1d
	floatCode   = 0x20
	doubleCode  = 0x21
	falseCode   = 0x26
	trueCode    = 0x27
	uuidCode    = 0x30
	versionCode = 0x33
)

// AppendNil appends the null element of a tuple that is not nested.
func AppendNil(dst []byte) []byte { return append(dst, nilCode) }

// AppendBytes appends a byte string.
func AppendBytes(dst, b []byte) []byte {
	dst = append(dst, bytesCode)
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(append(dst, b...), 0)
		}
		dst = append(append(dst, b[:i+1]...), 0xff)
		b = b[i+1:]
	}
}

// AppendString appends a string. Its bytes are kept as they are, valid UTF-8 or not.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, stringCode)
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(append(dst, s...), 0)
		}
		dst = append(append(dst, s[:i+1]...), 0xff)
		s = s[i+1:]
	}
}

// AppendInt appends a signed integer.
func AppendInt(dst []byte, i int64) []byte {
	if i >= 0 {
		return AppendUint(dst, uint64(i))
	}
	magnitude := -uint64(i)
	n := byteLen(magnitude)
	return appendLow(append(dst, byte(zeroCode-n)), ^magnitude, n)
}

// AppendUint appends an unsigned integer.
func AppendUint(dst []byte, u uint64) []byte {
	n := byteLen(u)
	return appendLow(append(dst, byte(zeroCode+n)), u, n)
}

func byteLen(u uint64) int { return (bits.Len64(u) + 7) / 8 }

// appendLow appends the n lowest bytes of u, big-endian.
func appendLow(dst []byte, u uint64, n int) []byte {
	for n--; n >= 0; n-- {
		dst = append(dst, byte(u>>(8*n)))
	}
	return dst
}

// AppendBig appends an integer of at most 255 bytes. It panics on larger ones.
func AppendBig(dst []byte, i *big.Int) []byte {
	magnitude := i.Bytes()
	n := len(magnitude)
	negative := i.Sign() < 0
	switch {
	case n > 255:
		panic("tuple: integer of more than 255 bytes")
	case n > 8 && negative:
		dst = append(dst, bigNegCode, ^byte(n))
	case n > 8:
		dst = append(dst, bigPosCode, byte(n))
	case negative:
		dst = append(dst, byte(zeroCode-n))
	default:
		dst = append(dst, byte(zeroCode+n))
	}
	if negative {
		complement(magnitude)
	}
	return append(dst, magnitude...)
}

func complement(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// AppendFloat32 appends a 32-bit float.
func AppendFloat32(dst []byte, f float32) []byte { // float: only encoded
	u := math.Float32bits(f)
	if u>>31 == 1 {
		u = ^u
	} else {
		u ^= 1 << 31
	}
	return binary.BigEndian.AppendUint32(append(dst, floatCode), u)
}

// AppendFloat64 appends a 64-bit float.
func AppendFloat64(dst []byte, f float64) []byte { // float: only encoded
	u := math.Float64bits(f)
	if u>>63 == 1 {
		u = ^u
	} else {
		u ^= 1 << 63
	}
	return binary.BigEndian.AppendUint64(append(dst, doubleCode), u)
}

// AppendBool appends a boolean.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, trueCode)
	}
	return append(dst, falseCode)
}

// AppendUUID appends a UUID.
func AppendUUID(dst []byte, u UUID) []byte { return append(append(dst, uuidCode), u[:]...) }

// AppendVersionstamp appends a versionstamp, complete or not.
func AppendVersionstamp(dst []byte, v Versionstamp) []byte {
	dst = append(append(dst, versionCode), v.Transaction[:]...)
	return binary.BigEndian.AppendUint16(dst, v.User)
}

// AppendTuple appends a tuple as one nested element. It panics as Pack does.
func AppendTuple(dst []byte, t Tuple) []byte { return Append(dst, t) }

// appendAll appends elements at a nesting depth, and returns the offset of the incomplete versionstamp among
// them, -1 if there is none.
func appendAll(dst []byte, elems []any, depth int) ([]byte, int) {
	if depth > maxDepth {
		panic("tuple: nested too deeply")
	}
	stamp := -1
	for _, e := range elems {
		at := -1
		switch e := e.(type) {
		case nil:
			if dst = append(dst, nilCode); depth > 0 {
				dst = append(dst, 0xff)
			}
		case Versionstamp:
			if dst = AppendVersionstamp(dst, e); e.IsIncomplete() {
				at = len(dst) - 12
			}
		case Tuple:
			dst, at = appendAll(append(dst, nestedCode), e, depth+1)
			dst = append(dst, 0)
		default:
			dst = appendScalar(dst, e)
		}
		if at >= 0 && stamp >= 0 {
			panic("tuple: more than one incomplete versionstamp")
		}
		stamp = max(stamp, at)
	}
	return dst, stamp
}

func appendScalar(dst []byte, e any) []byte { // float: only encoded
	switch e := e.(type) {
	case []byte:
		return AppendBytes(dst, e)
	case string:
		return AppendString(dst, e)
	case int:
		return AppendInt(dst, int64(e))
	case int32:
		return AppendInt(dst, int64(e))
	case int64:
		return AppendInt(dst, e)
	case uint:
		return AppendUint(dst, uint64(e))
	case uint32:
		return AppendUint(dst, uint64(e))
	case uint64:
		return AppendUint(dst, e)
	case *big.Int:
		return AppendBig(dst, e)
	case float32:
		return AppendFloat32(dst, e)
	case float64:
		return AppendFloat64(dst, e)
	case bool:
		return AppendBool(dst, e)
	case UUID:
		return AppendUUID(dst, e)
	}
	panic(fmt.Sprintf("tuple: cannot pack a %T", e))
}
