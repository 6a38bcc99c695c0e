package kv

import "encoding/binary"

// Counter is the number in a value that Add has written; 0 if there is none. Bytes that are missing at the end of a
// value count as zeros, as they do for Add.
func Counter(value []byte) int64 {
	var all [8]byte
	copy(all[:], value)
	return int64(binary.LittleEndian.Uint64(all[:]))
}
