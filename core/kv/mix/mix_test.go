package mix

import (
	"bytes"
	"testing"
)

// TestDistinct hashes many near-equal inputs, each bit of which must matter.
func TestDistinct(t *testing.T) {
	seen := map[uint64]string{}
	note := func(h uint64, what string) {
		if other, ok := seen[h]; ok && other != what {
			t.Errorf("%q and %q have one hash", what, other)
		}
		seen[h] = what
	}
	for n := range 40 {
		zeros := make([]byte, n)
		note(Bytes(0, zeros), string(zeros))
		for bit := range n * 8 {
			b := bytes.Clone(zeros)
			b[bit/8] ^= 1 << (bit % 8)
			note(Bytes(0, b), string(b))
		}
	}
	if Bytes(Bytes(0, []byte("ab")), []byte("c")) == Bytes(Bytes(0, []byte("a")), []byte("bc")) {
		t.Error("the border between two inputs does not count")
	}
}

// TestPinned: a seed means the same run on every machine.
func TestPinned(t *testing.T) {
	if h := Bytes(1, []byte("couchrelay keys")); h != 0x786a1fdecd5a80bd {
		t.Errorf("hash is %#x", h)
	}
}
