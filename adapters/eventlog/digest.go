package eventlog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// digest returns the first 8 bytes of a SHA-256 over the fields of effects in order, with the names of types
// where there may be several. A value that was written as JSON and read again has the same digest: empty
// lists count as nil, and strings as what JSON makes of them. So fields must not change their order, and a new one
// has the tag `eventlog:"omitzero"`: it counts only where it is set, as logs of before do not know it. It takes and
// returns scratch memory.
func digest[E any](effects []E, scratch []byte) (uint64, []byte) {
	b := scratch[:0]
	for _, e := range effects {
		b = appendValue(b, reflect.ValueOf(&e).Elem())
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:]), b
}

// appendValue appends an encoding of a value.
func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Slice, reflect.Array:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return appendValue(append(b, 1), v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return append(b, 0)
		}
		return appendValue(appendString(b, v.Elem().Type().Name()), v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("eventlog") == "omitzero" && v.Field(i).IsZero() {
				continue
			}
			b = appendValue(b, v.Field(i))
		}
		return b
	}
	panic(fmt.Sprintf("eventlog: no digest of %s", v.Type()))
}

func appendString(b []byte, s string) []byte {
	s = valid(s)
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// valid returns a string as it is after it was written as JSON and read again: bytes that are not UTF-8 are
// replaced.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
