package world

import (
	"encoding/binary"

	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// Worlds may begin as the store and nodes of an earlier release, which knows no indexes of jobs (layout 1). These nodes
// say so in their heartbeats; all that this release does with such a store while it has one of them among its nodes is
// what the earlier one did, so the same code plays both. Each of them is upgraded: when it has left in order it is
// started again as one of this release. Once the last one was, the index is made.
// One thing is not played: a write of an earlier node that was given up and lands after the index was made. Its job
// would be missing in the index, which couchrelay check tells.

// makeStore writes what the first service on a store writes there.
func makeStore(w *World, tx kv.Tx) error {
	tx.Set(w.store.Keys.Schema, binary.LittleEndian.AppendUint64(nil, 2))
	w.store.Keys.Rename(tx, w.store.Config.Server.UUID)
	_, err := w.store.Keys.Jobs.Incarnate(tx)
	return err
}

// makeOlderStore has the store be one of layout 1.
func makeOlderStore(w *World, tx kv.Tx) error {
	tx.Set(w.store.Keys.Schema, binary.LittleEndian.AppendUint64(nil, 1))
	tx.Set(w.store.Keys.Reindex, []byte{})
	return nil
}

// layout is the version of the store's layout; 0 for one that notes none.
func layout(w *World) int64 {
	row, err := w.db.Present().Get(w.store.Keys.Schema)
	if err != nil {
		return 0
	}
	return kv.Counter(row)
}

// planUpgrades has each node of the earlier release upgraded at a time of its own.
func planUpgrades(w *World) {
	site := w.Decider.Site("upgrades")
	for _, p := range w.nodes {
		if p.older {
			w.Engine.After(site.Duration(0, w.Config.Duration), nil, "upgrade", p.drain)
		}
	}
}

// Older reports whether the node is of the earlier release.
func (p *Node) Older() bool { return p.older }

// asOlder is a request as the node's release words it.
func (p *Node) asOlder(q node.Request) node.Request {
	switch q := q.(type) {
	case node.Join:
		q.Info.Indexes = !p.older
		return q
	case node.Beat:
		q.Info.Indexes = !p.older
		return q
	}
	return q
}
