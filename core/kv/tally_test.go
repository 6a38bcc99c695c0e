package kv_test

import (
	"testing"

	"couchrelay/core/kv"
)

// counting is a transaction that counts, of which nothing else is used.
type counting struct {
	kv.Tx
	counts map[string]int64
}

func (c counting) Tally(kind string, n int64) { c.counts[kind] += n }

// TestTally: a transaction that counts is told; one that does not takes no notice.
func TestTally(t *testing.T) {
	c := counting{counts: map[string]int64{}}
	kv.Tally(c, "a", 1)
	kv.Tally(c, "a", 2)
	kv.Tally(struct{ kv.Tx }{}, "a", 4)
	if c.counts["a"] != 3 || len(c.counts) != 1 {
		t.Errorf("counted %v", c.counts)
	}
}
