package kv

import "bytes"

// PrefixRange returns the range of all keys that start with prefix. It panics if all bytes of prefix are
// 0xff: that range has no end.
func PrefixRange(prefix []byte) Range {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return Range{Begin: prefix, End: end[:i+1]}
		}
	}
	panic("kv: prefix without end")
}

// KeyRange returns the range of key alone.
func KeyRange(key []byte) Range { return Range{Begin: key, End: KeyAfter(key)} }

// KeyAfter returns the first possible key after key.
func KeyAfter(key []byte) []byte {
	next := make([]byte, len(key)+1)
	copy(next, key)
	return next
}

// Contains reports whether key is in r.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(r.Begin, key) <= 0 && bytes.Compare(key, r.End) < 0
}

// Empty reports whether no key can be in r.
func (r Range) Empty() bool { return bytes.Compare(r.Begin, r.End) >= 0 }
