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

// done is the answer to a request, and failed the answer to a request that will be repeated.
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
		tx.Set(at.Pack(header.ID), encoded(header))
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

// unsettled asks for the work that a world that comes to rest has left, and takes it for a violation.
func (r *rig) unsettled() {
	v := r.o.Unsettled()
	if settled := r.o.Settled(); settled != (v == nil) {
		r.t.Errorf("is settled: %v, and has left %v", settled, v)
	}
	if v != nil {
		r.o.Fail(v.ID, "%s", v.Text)
	}
}

// joins has a node have a lease, and tell this of itself.
func (r *rig) joins(worker string, info node.Info) {
	q := node.Join{Worker: worker, Info: info}
	r.commit(q, func(tx kv.Tx) error {
		_, err := node.Perform(tx, r.w.View().Store(), q, r.w.Engine.Now())
		return err
	})
}

// breaks demands that the facts so far break an invariant; none if id is empty.
func (r *rig) breaks(id string) {
	r.t.Helper()
	if v := r.o.Violation(); v == nil && id != "" || v != nil && v.ID != id {
		r.t.Errorf("breaks %v, and should break %q", v, id)
	}
}

// encoded is a job's header as the store has it.
func encoded(j jobs.Job) []byte {
	b := tuple.AppendInt(nil, int64(j.State))
	b = tuple.AppendBytes(b, j.Priority)
	b = tuple.AppendInt(b, int64(j.Due))
	b = tuple.AppendBool(b, j.Resubmit)
	b = tuple.AppendString(b, j.Lock.Worker)
	b = tuple.AppendUint(b, j.Lock.Batch)
	return tuple.AppendInt(b, int64(j.Lost))
}
