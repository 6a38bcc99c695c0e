package docs

import (
	"bytes"
	"encoding/binary"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Values that may outgrow the store's limit are cut into chunks: the first under the key itself, led
// by the number of chunks, the others under the key and their number.

// chunkSize is the length of every chunk but the last.
const chunkSize = 90_000

// putSplit writes a value and returns the number of its chunks. The caller clears those that an older, longer
// value left.
func putSplit(tx kv.Tx, key []byte, value []byte) int {
	chunks := chunksOf(value)
	size := min(len(value), chunkSize)
	tx.Set(key, append(binary.AppendUvarint(make([]byte, 0, size+3), uint64(chunks)), value[:size]...))
	for i := 1; i < chunks; i++ {
		value = value[chunkSize:]
		tx.Set(chunkKey(key, i), value[:min(len(value), chunkSize)])
	}
	return chunks
}

func chunksOf(value []byte) int { return max(1, (len(value)+chunkSize-1)/chunkSize) }

// clearSplit clears the chunks from, from+1 ... below to.
func clearSplit(tx kv.Tx, key []byte, from, to int) {
	for i := from; i < to; i++ {
		tx.Clear(chunkKey(key, i))
	}
}

func chunkKey(key []byte, i int) []byte {
	if i == 0 {
		return key
	}
	return tuple.AppendInt(append(make([]byte, 0, len(key)+3), key...), int64(i))
}

// joinSplit reads the rest of a value whose first chunk was read from key. It returns the value and the
// number of its chunks, 0 if there is no value.
func joinSplit(r kv.Reader, key, first []byte) (value []byte, chunks int, err error) {
	if first == nil {
		return nil, 0, nil
	}
	n, size := binary.Uvarint(first)
	if size <= 0 || n == 0 || n > 1<<20 {
		return nil, 0, malformed("key %x", key)
	}
	value = first[size:]
	if n == 1 {
		return value, 1, nil
	}
	keys := make([][]byte, n-1)
	for i := range keys {
		keys[i] = chunkKey(key, i+1)
	}
	rest, err := r.GetAll(keys)
	if err != nil {
		return nil, 0, err
	}
	if i := slices.IndexFunc(rest, func(chunk []byte) bool { return chunk == nil }); i >= 0 {
		return nil, 0, malformed("key %x, which is missing", keys[i])
	}
	return bytes.Join(append([][]byte{value}, rest...), nil), int(n), nil
}

func getSplit(r kv.Reader, key []byte) (value []byte, chunks int, err error) {
	first, err := r.Get(key)
	if err != nil {
		return nil, 0, err
	}
	return joinSplit(r, key, first)
}
