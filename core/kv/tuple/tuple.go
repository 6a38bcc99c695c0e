// Package tuple encodes lists of elements as keys whose byte order is the order of the elements. The format
// is, byte for byte, that of FoundationDB's tuple layer (design/tuple.md of its repository), so that tools
// and bindings of other languages can read the keys.
//
// Elements and their order: nil < []byte < string < Tuple < integers < float32 < float64 < false <
// true < UUID < Versionstamp. Integers are int, int32, int64, uint, uint32, uint64 and *big.Int of at
// most 255 bytes; they decode as int64 when they fit, else as uint64, else as *big.Int.
package tuple

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Tuple is a list of elements. The package comment has their types.
type Tuple []any

// UUID is a 16-byte identifier, ordered as bytes.
type UUID [16]byte

func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// Versionstamp orders writes by their commit: ten bytes that the store fills in and two that the
// writer chooses to order the writes of one transaction.
type Versionstamp struct {
	Transaction [10]byte
	User        uint16
}

// incomplete is the placeholder for the ten bytes that the commit fills in.
var incomplete = [10]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Incomplete returns a versionstamp whose transaction part the commit fills in; see PackVersionstamped.
func Incomplete(user uint16) Versionstamp { return Versionstamp{Transaction: incomplete, User: user} }

// IsIncomplete reports whether the transaction part is still to be filled in.
func (v Versionstamp) IsIncomplete() bool { return v.Transaction == incomplete }

func (v Versionstamp) String() string { return fmt.Sprintf("%x-%d", v.Transaction, v.User) }

// maxDepth bounds the nesting of tuples, when they are packed and unpacked.
const maxDepth = 64

// Pack encodes elements. It panics on an unsupported type, an incomplete Versionstamp or nesting
// deeper than 64, which are programmer errors.
func Pack(elems ...any) []byte { return Append(make([]byte, 0, 64), elems...) }

// Append appends the encoding that Pack returns.
func Append(dst []byte, elems ...any) []byte {
	dst, stamp := appendAll(dst, elems, 0)
	if stamp >= 0 {
		panic("tuple: incomplete versionstamp outside PackVersionstamped")
	}
	return dst
}

// PackVersionstamped encodes elements after prefix; exactly one of them is an incomplete Versionstamp. The
// result has the form that kv.Tx.SetVersionstampedKey takes: the four bytes after the key are the
// little-endian offset of the ten bytes to fill in. It panics as Pack does, and if there is no incomplete
// versionstamp or more than one.
func PackVersionstamped(prefix []byte, elems ...any) []byte {
	dst := append(make([]byte, 0, len(prefix)+64), prefix...)
	dst, stamp := appendAll(dst, elems, 0)
	if stamp < 0 {
		panic("tuple: no incomplete versionstamp")
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(stamp))
}

// String returns the elements in order, as in (1, "text", b"bytes", nil, (2)).
func (t Tuple) String() string {
	elems := make([]string, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case nil:
			elems[i] = "nil"
		case string:
			elems[i] = strconv.Quote(e)
		case []byte:
			elems[i] = "b" + strconv.Quote(string(e))
		default:
			elems[i] = fmt.Sprint(e)
		}
	}
	return "(" + strings.Join(elems, ", ") + ")"
}

// Pack encodes the tuple as the function of that name does.
func (t Tuple) Pack() []byte { return Pack(t...) }
