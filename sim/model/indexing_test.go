package model

import (
	"testing"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// TestIndexing: a store of an earlier release gets its index job by job, and a job that crashed its label with that.
func TestIndexing(t *testing.T) {
	sweep := node.Sweep{Limit: 10, Drop: 10}
	older := func(t *testing.T) *bench {
		b := newBench(t)
		b.as(nil, func(tx kv.Tx) error { tx.Set(b.s.Keys.Reindex, nil); return nil })
		b.ask(crash(b.runs()))
		b.user("b")
		return b
	}
	b := older(t)
	for goesOn := true; goesOn; goesOn = b.m.indexed.goesOn && b.wrong == nil {
		b.as(sweep, func(tx kv.Tx) error { _, err := jobstore.Reindex(tx, b.s, 1); return err })
		b.user("c")
	}
	if b.wrong != nil || b.m.Counts[labels] != 1 {
		t.Errorf("%v; %d jobs were labeled", b.wrong, b.m.Counts[labels])
	}
	b = older(t)
	b.as(sweep, func(tx kv.Tx) error { tx.Set(b.s.Keys.Reindex, []byte("x")); return nil })
	if b.wrong == nil {
		t.Error("jobs may be passed over")
	}
}
