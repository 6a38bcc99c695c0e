// Package mix is a fast hash of bytes, equal in every process and on every machine. It may change between
// releases, so nothing durable may depend on it, and it resists no attacker.
package mix

import (
	"encoding/binary"
	"math/bits"
)

// Bytes mixes b into the hash h by folded multiplication, eight bytes at a time (the scheme of wyhash,
// https://github.com/wangyi-fudan/wyhash). The length counts, so that Bytes(Bytes(h, a), b) tells where
// a ends.
func Bytes(h uint64, b []byte) uint64 {
	h = fold(h ^ uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		h = fold(h ^ binary.LittleEndian.Uint64(b))
	}
	var tail [8]byte
	copy(tail[:], b)
	return fold(h ^ binary.LittleEndian.Uint64(tail[:]))
}

func fold(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	return hi ^ lo
}

// Pair returns the hash of a running hash and another number.
func Pair(h, x uint64) uint64 { return fold(h*0x9e3779b97f4a7c15 + fold(x)) }

// String returns the hash of a text.
func String(s string) uint64 {
	h := uint64(len(s)) + 1
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return fold(h)
}
