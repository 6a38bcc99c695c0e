package world

import (
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// Tests of observers tell facts of a world in which nothing happens by itself. They have no use for Begin, and make what
// facts name by these functions.

// Live begins a life of every node, whose machines do not start.
func (w *World) Live() {
	for _, p := range w.nodes {
		p.live()
	}
}

// NewRun is a run of a node. Its machine is not stepped.
func (w *World) NewRun(p *Node, s node.StartRun) *Run {
	r := p.newRun(s)
	r.machine = replication.New(replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: w.store.Config.Server, ProgressInterval: p.settings.ProgressInterval, Memory: w.Config.Memory,
	}))
	return r
}

// SetInFlight has a request of a run be in flight, or no more when op is nil.
func (r *Run) SetInFlight(id uint64, op peer.Op) {
	if delete(r.calls, id); op != nil {
		r.calls[id] = &flight{op: op}
	}
}

// Commit has a transaction land at once that carries out a request of a node, or of a user when that is nil.
func (w *World) Commit(q node.Request, change func(kv.Tx) error) error {
	w.around.atOnce = true
	defer func() { w.around.atOnce = false }()
	w.asking(q, w.Engine.Now(), 0)
	defer w.asked()
	err := kv.Do(w.Engine.NewContext(nil, 0), w.db, change)
	w.emit(Stepped{})
	return err
}
