package kv

import "bytes"

// PrefixRange is every key that starts with prefix. A prefix of nothing but 0xff bytes has no end
// and is not allowed.
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

// KeyRange is the range that holds key alone.
func KeyRange(key []byte) Range { return Range{Begin: key, End: KeyAfter(key)} }

// KeyAfter is the first possible key after key.
func KeyAfter(key []byte) []byte {
	next := make([]byte, len(key)+1)
	copy(next, key)
	return next
}

// Contains says whether key lies in r.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(r.Begin, key) <= 0 && bytes.Compare(key, r.End) < 0
}

// Empty says whether no key can lie in r.
func (r Range) Empty() bool { return bytes.Compare(r.Begin, r.End) >= 0 }
