package world

import (
	"testing"
	"time"

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

// TestOlderPlays: a world that is to have nodes of the earlier release has them from its beginning, beside others.
func TestOlderPlays(t *testing.T) {
	config := Default()
	config.Older = 1
	w := New(config, decide.New(decide.Seed(1)))
	defer w.Close()
	w.Begin()
	w.Engine.Run(w.Engine.Now().Add(10*time.Second), nil)
	members, err := node.Members(w.db.Present(), w.store)
	if err != nil || len(members) < 2 {
		t.Fatalf("members are %v: %v", members, err)
	}
	for i, m := range members {
		if m.Info.Indexes != (i > 0) {
			t.Errorf("%s says that it knows indexes: %v", m.Worker, m.Info.Indexes)
		}
	}
}

func indexes(q node.Request) bool {
	if join, is := q.(node.Join); is {
		return join.Info.Indexes
	}
	return q.(node.Beat).Info.Indexes
}
