package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"
	"slices"
	"strings"

	"couchrelay/core/peer"
)

// buckets is the number of sums of a database: 4 MiB of them. With 10,000,000 documents 38 share one, so a single
// difference has 38 documents asked about.
const buckets = 1 << 18

// sums is what a database holds, a sum for each part of its documents. Two databases with the same leaf revisions have
// the same sums in whatever order their feeds tell of them; others have the same with a probability of 2^-128.
type sums struct {
	of     [buckets]sum
	hash   hash.Hash
	key    [16]byte // is hashed first, so that documents cannot be chosen to cancel each other out
	digest [sha256.Size]byte
}

// sum is a number of 128 bits.
type sum struct{ high, low uint64 }

func newSums(key [16]byte) *sums { return &sums{hash: sha256.New(), key: key} }

// add takes in a document with its leaf revisions.
func (s *sums) add(c peer.Change) {
	revs := slices.Clone(c.Revs)
	for i, rev := range revs {
		revs[i] = strings.ToLower(rev) // servers differ in that
	}
	slices.Sort(revs)
	s.hash.Reset()
	s.hash.Write(s.key[:])
	for _, text := range append([]string{c.ID}, slices.Compact(revs)...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		s.hash.Write(size[:])
		s.hash.Write([]byte(text))
	}
	digest := s.hash.Sum(s.digest[:0])
	at := &s.of[bucket(s.key, c.ID)]
	low, carry := bits.Add64(at.low, binary.BigEndian.Uint64(digest), 0)
	high, _ := bits.Add64(at.high, binary.BigEndian.Uint64(digest[8:]), carry)
	*at = sum{high, low}
}

// bucket is the part of the documents that a document belongs to, by FNV-1a.
func bucket(key [16]byte, id string) int {
	const offset, prime = 14695981039346656037, 1099511628211
	h := binary.BigEndian.Uint64(key[:]) ^ offset
	for _, b := range []byte(id) {
		h = (h ^ uint64(b)) * prime
	}
	return int((h ^ h>>32) % buckets)
}

// differs returns which parts of the documents are not the same in both, and how many.
func (s *sums) differs(o *sums) (parts *[buckets]bool, n int) {
	parts = &[buckets]bool{}
	for i := range s.of {
		if s.of[i] != o.of[i] {
			parts[i] = true
			n++
		}
	}
	return parts, n
}
