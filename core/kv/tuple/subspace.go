package tuple

import (
	"bytes"
	"fmt"
	"math"

	"couchrelay/core/kv"
)

// Subspace is a key prefix under which tuples are packed.
type Subspace []byte

// Sub returns the subspace of the keys of s that start with elems.
func (s Subspace) Sub(elems ...any) Subspace { return Subspace(s.Pack(elems...)) }

// Pack returns the key of elems in s. It panics as the function Pack does.
func (s Subspace) Pack(elems ...any) []byte { return Append(s.Begin(48), elems...) }

// Begin returns a copy of the prefix with capacity for extra bytes, for the typed Append functions.
func (s Subspace) Begin(extra int) []byte { return append(make([]byte, 0, len(s)+extra), s...) }

// PackVersionstamped returns the key of elems in s, one of which is an incomplete Versionstamp, in the form
// that kv.Tx.SetVersionstampedKey takes.
func (s Subspace) PackVersionstamped(elems ...any) []byte { return PackVersionstamped(s, elems...) }

// Unpack decodes a key of s. The error has ErrMalformed in its chain.
func (s Subspace) Unpack(key []byte) (Tuple, error) {
	rest, err := s.trim(key)
	if err != nil {
		return nil, err
	}
	return Unpack(rest)
}

// Contains reports whether key has the subspace's prefix.
func (s Subspace) Contains(key []byte) bool { return bytes.HasPrefix(key, s) }

// Range returns the range of all keys of the subspace, with the bare prefix.
func (s Subspace) Range() kv.Range {
	return kv.Range{Begin: s, End: append(s.Begin(1), 0xff)} // no element starts with 0xff
}

func (s Subspace) trim(key []byte) ([]byte, error) {
	if !s.Contains(key) {
		return nil, malformed("key is not in the subspace")
	}
	return key[len(s):], nil
}

// Scan decodes a key of s into dst, one pointer for each element: *string, *[]byte, *int64, *uint64, *int,
// *bool, *UUID, *Versionstamp or *Tuple; nil skips an element. Elements that have another type, are out of
// the pointer's range, are missing or are left over give an error that has ErrMalformed in its chain and
// names the position, and the key if s has a prefix. Some of dst may then be set.
func (s Subspace) Scan(key []byte, dst ...any) error {
	b, err := s.trim(key)
	if err == nil {
		err = scanAll(b, dst)
	}
	if err != nil && len(s) > 0 {
		return fmt.Errorf("key %x: %w", key, err)
	}
	return err
}

func scanAll(b []byte, dst []any) (err error) {
	for i, d := range dst {
		if len(b) == 0 {
			return malformed(fmt.Sprintf("%d elements, not %d", i, len(dst)))
		}
		if b, err = scan(b, d); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if len(b) > 0 {
		return malformed(fmt.Sprintf("more than %d elements", len(dst)))
	}
	return nil
}

// scan decodes the first element of b into d, and returns the bytes after it.
func scan(b []byte, d any) (rest []byte, err error) {
	switch d := d.(type) {
	case nil:
		_, rest, err = element(b, 0)
	case *string:
		var val []byte
		if val, rest, err = typed(b, stringCode, "string", textIn); err == nil {
			*d = string(unescaped(val))
		}
	case *[]byte:
		*d, rest, err = typed(b, bytesCode, "byte string", text)
	case *int64:
		*d, rest, err = scanInt(b)
	case *int:
		var i int64
		i, rest, err = scanInt(b)
		if *d = int(i); err == nil && int64(*d) != i {
			err = malformed("integer out of range")
		}
	case *uint64:
		*d, rest, err = scanUint(b)
	case *bool:
		if b[0] != falseCode && b[0] != trueCode {
			return nil, mismatch(b, "bool")
		}
		*d, rest = b[0] == trueCode, b[1:]
	case *UUID:
		var val []byte
		val, rest, err = typed(b, uuidCode, "UUID", func(b []byte) ([]byte, []byte, error) { return fixed(b, 16) })
		copy(d[:], val)
	case *Versionstamp:
		*d, rest, err = typed(b, versionCode, "versionstamp", versionstamp)
	case *Tuple:
		*d, rest, err = typed(b, nestedCode, "tuple", func(b []byte) (Tuple, []byte, error) { return nested(b, 1) })
	default:
		panic(fmt.Sprintf("tuple: cannot scan into a %T", d))
	}
	return rest, err
}

func typed[T any](
	b []byte, code byte, name string, decode func([]byte) (T, []byte, error),
) (v T, rest []byte, err error) {
	if b[0] != code {
		return v, nil, mismatch(b, name)
	}
	return decode(b)
}

func mismatch(b []byte, want string) error {
	return malformed(fmt.Sprintf("type code 0x%02x is no %s", b[0], want))
}

func scanInt(b []byte) (int64, []byte, error) {
	negative, magnitude, rest, err := scanInteger(b)
	switch {
	case err != nil:
		return 0, nil, err
	case negative && magnitude <= 1<<63:
		return int64(-magnitude), rest, nil
	case !negative && magnitude <= math.MaxInt64:
		return int64(magnitude), rest, nil
	}
	return 0, nil, malformed("integer out of range")
}

func scanUint(b []byte) (uint64, []byte, error) {
	negative, magnitude, rest, err := scanInteger(b)
	if err == nil && negative {
		err = malformed("integer out of range")
	}
	return magnitude, rest, err
}

func scanInteger(b []byte) (negative bool, magnitude uint64, rest []byte, err error) {
	if b[0] <= bigNegCode || b[0] >= bigPosCode {
		return false, 0, nil, mismatch(b, "64-bit integer")
	}
	return smallInteger(b)
}
