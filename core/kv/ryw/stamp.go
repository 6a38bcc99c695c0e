package ryw

import (
	"encoding/binary"

	"couchrelay/core/kv"
)

// Versionstamp returns the ten bytes for the order-th transaction that is committed at version.
func Versionstamp(version int64, order uint16) (stamp [10]byte) {
	binary.BigEndian.PutUint64(stamp[:], uint64(version))
	binary.BigEndian.PutUint16(stamp[8:], order)
	return stamp
}

// stampedKey is a versionstamped key to be written.
type stampedKey struct {
	lowest []byte   // the key with the lowest stamp that the commit may have
	m      Mutation // of kind SetStampedKey
}

// stampOffset returns the offset of the versionstamp's ten bytes in b, which is in the last four bytes of b.
func stampOffset(b []byte) (int, bool) {
	if len(b) < 4+10 {
		return 0, false
	}
	at := binary.LittleEndian.Uint32(b[len(b)-4:])
	return int(at), at <= uint32(len(b)-4-10)
}

// fillIn returns b with the versionstamp at its offset, and without the four bytes of the offset.
func fillIn(b []byte, stamp [10]byte) []byte {
	at, _ := stampOffset(b)
	copy(b[at:], stamp[:])
	return b[:len(b)-4]
}

// SetVersionstampedKey implements kv.Tx.
func (b *Buffer) SetVersionstampedKey(key, value []byte) {
	at, ok := stampOffset(key)
	if !ok {
		b.fault(kv.BadVersionstamp)
		return
	}
	if !b.writable(key[:len(key)-4], value) {
		return
	}
	var first [10]byte
	if v := b.source.KnownVersion(); v > 0 {
		first = Versionstamp(v+1, 0)
	}
	k, v := pair(key, value)
	lowest, _ := pair(key, nil)
	highest := kv.KeyAfter(key[:len(key)-4])
	lowest = fillIn(lowest, first)
	for i := range 10 {
		highest[at+i] = 0xff
	}
	b.unreadable.add(kv.Range{Begin: lowest, End: highest})
	b.stamped = append(b.stamped, stampedKey{lowest, Mutation{Kind: SetStampedKey, Key: k, Value: v}})
}

// SetVersionstampedValue implements kv.Tx.
func (b *Buffer) SetVersionstampedValue(key, value []byte) {
	if _, ok := stampOffset(value); !ok {
		b.fault(kv.BadVersionstamp)
		return
	}
	if b.writable(key, value[:len(value)-4]) {
		k, v := pair(key, value)
		b.put(Mutation{Kind: SetStampedValue, Key: k, Value: v})
	}
}
