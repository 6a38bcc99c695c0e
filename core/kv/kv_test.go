package kv_test

import (
	"bytes"
	"strings"
	"testing"

	"couchrelay/core/kv"
)

// TestPrefixRange: all keys with a prefix are in its range, and no other is. The prefix stays as it is.
func TestPrefixRange(t *testing.T) {
	for _, prefix := range []string{"a", "ab", "a\x00", "a\xff", "\x00\xff\xff", "\xfe"} {
		bytesOf := []byte(prefix)
		r := kv.PrefixRange(bytesOf)
		if string(bytesOf) != prefix {
			t.Errorf("%q was changed to %q", prefix, bytesOf)
		}
		for _, key := range []string{
			"", prefix, prefix + "\x00", prefix + "\xff\xff\xff", prefix[:len(prefix)-1], string(r.End), "\xff",
			prefix[:len(prefix)-1] + string([]byte{prefix[len(prefix)-1] - 1, 0xff}),
		} {
			if r.Contains([]byte(key)) != strings.HasPrefix(key, prefix) {
				t.Errorf("%q is in the range of %q: %v", key, prefix, r.Contains([]byte(key)))
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a prefix without end has a range")
		}
	}()
	kv.PrefixRange(bytes.Repeat([]byte{0xff}, 3))
}

// TestKeyRange: the range of a key has that alone.
func TestKeyRange(t *testing.T) {
	r := kv.KeyRange([]byte("k"))
	if !r.Contains([]byte("k")) || r.Contains([]byte("k\x00")) || r.Contains([]byte("j\xff")) || r.Empty() {
		t.Errorf("%q", r)
	}
	for _, ends := range [][2]string{{"", ""}, {"k", "k"}, {"b", "a"}} {
		if empty := (kv.Range{Begin: []byte(ends[0]), End: []byte(ends[1])}); !empty.Empty() {
			t.Errorf("%q has keys", empty)
		}
	}
}

// TestErrorsHaveWords: an error of the store says what happened, and its number, which is FoundationDB's.
func TestErrorsHaveWords(t *testing.T) {
	said := map[string]bool{}
	for _, code := range []kv.Code{
		1007, 1009, 1020, 1021, 1025, 1031, 1032, 1034, 1036, 1037, 1038, 1039, 1042, 1051, 1078, 1101, 1213, 1223,
		2000, 2004, 2005, 2017, 2101, 2102, 2103,
	} {
		words, _, _ := strings.Cut(kv.NewError(code).Error(), " (")
		if said[words] || words == "store error" || len(words) < 10 {
			t.Errorf("error %d says %q", code, words)
		}
		said[words] = true
	}
	if got := (&kv.Error{Code: 9, Hint: "wait"}).Error(); got != "store error; wait (9)" {
		t.Error(got)
	}
}
