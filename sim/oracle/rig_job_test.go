package oracle

import (
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// aLock is the lock of rig.run's job, and held that job under it.
var (
	aLock = jobs.Lock{Worker: "n1/1"}
	held  = node.Held{JobID: "job", Lock: aLock}
)

// now is the present, by which the rig's commits go too.
func (r *rig) now() instant.Time { return r.w.Engine.Now() }

// aJob is a shadow of a job that is in the queue as its record says. It runs under aLock.
func aJob(rec jobstore.Record) *shadow {
	h := &jobs.Job{ID: "job", State: jobs.Pending}
	switch {
	case rec.State.Terminal():
		h.State = jobs.Finished
	case rec.State == jobstore.Running:
		h.State, h.Lock = jobs.Running, aLock
	}
	return &shadow{header: h, record: &rec}
}

// know has the oracle know a job as if commits had told it.
func (r *rig) know(id string, s *shadow) { r.o.known.know(id, s) }

// change has a request change a job from one shadow to another. A job without a header is not there.
func (r *rig) change(q node.Request, before, after *shadow) {
	landed := world.Landed{Asked: world.Asked{Request: q, Wall: r.now()}}
	j := jobChange{id: "job", before: before, after: after, landing: landing{landed, []string{"job"}}}
	r.know("job", after)
	r.o.on.jobChanged.tell(j)
	if before.header != nil && after.header != nil {
		r.o.on.jobMoved.tell(j)
	}
	r.o.on.followed.tell(j.landing)
}

// set has a user's transaction set a row of the store.
func (r *rig) set(key, value []byte) {
	r.commit(nil, func(tx kv.Tx) error { tx.Set(key, value); return nil })
}

// request has a user make a real job by a request, and returns its id.
func (r *rig) request(members map[string]any) (id string) {
	rep := r.replication(members)
	r.commit(nil, func(tx kv.Tx) (err error) {
		id, err = r.w.View().Store().Replicate(tx, rep, world.Requester, r.now())
		return err
	})
	return id
}

// atRest has the world be at rest, and asks for the work that it has left.
func (r *rig) atRest() {
	r.unsettled()
	r.o.AtRest()
}
