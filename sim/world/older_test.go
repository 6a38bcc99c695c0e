package world

import (
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/decide"
)

// TestOlder: a node of the earlier release says that it knows no indexes, until it has left in order, or finds a store
// that it cannot read.
func TestOlder(t *testing.T) {
	begin := func(w *World) {
		_ = w.Commit(nil, func(tx kv.Tx) error { tx.Max(w.store.Keys.Schema, 2); return nil })
	}
	for name, c := range map[string]struct {
		restart func(*Node)
		older   bool
	}{
		"as it is":                {func(*Node) {}, true},
		"after a crash":           {func(p *Node) { p.crash(); p.live() }, true},
		"once it has left":        {func(p *Node) { p.exit(); p.live() }, false},
		"once indexing has begun": {func(p *Node) { begin(p.w); p.crash(); p.live() }, false},
		"when all is healed":      {func(p *Node) { p.alive = false; p.heal() }, false},
	} {
		config := Default()
		config.Older = 1
		w := New(config, decide.New(1))
		old, present := w.nodes[0], w.nodes[1]
		if err := w.Commit(nil, func(tx kv.Tx) error { return makeOlderStore(w, tx) }); err != nil {
			t.Fatal(err)
		}
		w.Live()
		c.restart(old)
		told := node.Info{Indexes: true}
		for _, q := range []node.Request{node.Join{Info: told}, node.Beat{Info: told}} {
			if got := indexes(old.asOlder(q)); got == c.older {
				t.Errorf("%s: %s tells of indexes: %v", name, q, got)
			}
			if !indexes(present.asOlder(q)) {
				t.Errorf("%s: %s of a node of this release tells of no indexes", name, q)
			}
		}
	}
}

func indexes(q node.Request) bool {
	if join, is := q.(node.Join); is {
		return join.Info.Indexes
	}
	return q.(node.Beat).Info.Indexes
}
