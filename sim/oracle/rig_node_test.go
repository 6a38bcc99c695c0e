package oracle

import (
	"encoding/json"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// step tells of a step of the first node.
func (r *rig) step(ev node.Event, effects ...node.Effect) {
	r.see(world.NodeStepped{Node: r.node(1), Event: ev, Effects: effects})
}

// ask is an effect of a node's step.
func ask(id uint64, q node.Request) node.Effect { return node.Ask{ID: id, Request: q} }

// done is the answer to a request, and failed that of one that will be repeated.
func done(id uint64, result node.Result) node.Event { return node.Done{ID: id, Result: result} }
func failed(id uint64) node.Event                   { return node.Done{ID: id, Fault: node.StoreDown} }

// landed tells of the commit of a request that changes no job.
func (r *rig) landed(q node.Request) {
	r.see(world.Landed{Asked: world.Asked{Request: q}}, world.Stepped{})
}

// store has a request leave a job in the store like this.
func (r *rig) store(q node.Request, header jobs.Job, record jobstore.Record) {
	data, err := json.Marshal(record)
	if err != nil {
		r.t.Fatal(err)
	}
	at := r.w.View().Store().Keys.Jobs.Job
	r.commit(q, func(tx kv.Tx) error {
		b := tuple.AppendInt(nil, int64(header.State))
		b = tuple.AppendBytes(b, header.Priority)
		b = tuple.AppendInt(b, int64(header.Due))
		b = tuple.AppendBool(b, header.Resubmit)
		b = tuple.AppendString(b, header.Lock.Worker)
		b = tuple.AppendUint(b, header.Lock.Batch)
		tx.Set(at.Pack(header.ID), tuple.AppendInt(b, int64(header.Lost)))
		tx.Set(at.Pack(header.ID, 0), data)
		return nil
	})
}

// remove has a job be removed by a user.
func (r *rig) remove(id string) {
	r.commit(nil, func(tx kv.Tx) error {
		tx.ClearRange(r.w.View().Store().Keys.Jobs.Job.Sub(id).Range())
		return nil
	})
}
