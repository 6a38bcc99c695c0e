package cluster

import (
	"slices"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/engine"
)

// flight is a request under way.
type flight struct {
	*engine.Context
	op peer.Op
}

// answered forgets the request that an event answers, if it does, and says whether the run still waits for that.
func (r *run) answered(ev replication.Event) (asked peer.Op, awaited bool) {
	reply, is := ev.(replication.Reply)
	if !is {
		return nil, true
	}
	f := r.calls[reply.ID]
	if f == nil {
		return nil, false
	}
	delete(r.calls, reply.ID)
	return f.op, true
}

// Settings that a run is slowed down to whose last one ended because it was asked to, CouchDB's.
const (
	slowWorkers     = 2
	slowConnections = 5
	slowCheckpoint  = 5 * time.Second
)

// checkLoad is a part of S30: a run has no more batches under way, documents that it copies one by one and bodies in
// memory than its replication allows. It is called before the request leaves.
func (o *oracle) checkLoad(r *run, op peer.Op) {
	rep := r.work.Work.Replication
	workers, connections := rep.WorkerProcesses, min(rep.Source.Connections, rep.Target.Connections)
	if r.work.Work.Record.Throttled {
		workers, connections = min(workers, slowWorkers), min(connections, slowConnections)
	}
	o.checkAhead(r, op, workers)
	fetch, is := op.(peer.FetchDocs)
	batches, copies := 0, 0 // each batch has at most one of its requests to compare or to read in bulk under way
	count := func(op peer.Op) {
		switch op.(type) {
		case peer.DiffRevs, peer.FetchDocs:
			batches++
		case peer.CopyDoc:
			copies++
		}
	}
	count(op)
	for _, f := range r.calls { // in any order
		count(f.op)
	}
	if batches > workers {
		o.w.fail("S30", "run %d of %s works on %d batches at once, and may on %d", r.id, r.p.Name, batches, workers)
	}
	if most := max(1, connections-workers-1); copies > most {
		o.w.fail("S30", "run %d of %s copies %d documents at once, and may %d", r.id, r.p.Name, copies, most)
	}
	repeated := func(d peer.DocRev) bool { return d.ID == fetch.Docs[0].ID && d.Rev == fetch.Docs[0].Rev }
	if is && !slices.ContainsFunc(r.numbers.again, repeated) { // what is repeated has its place
		held := r.pair.KeptBytes(func(id uint64) bool { return r.calls[id] != nil })
		for _, f := range r.calls { // in any order
			if other, is := f.op.(peer.FetchDocs); is {
				held += other.Budget
			}
		}
		if most := o.w.Config.Memory; held > 0 && held+fetch.Budget > most {
			o.w.fail("S30", "run %d of %s reads %d bytes of bodies more, holds %d, and may hold %d", r.id, r.p.Name, fetch.Budget, held, most)
		}
	}
}

// checkAhead is a part of S30: a run reads no more rows of a feed while it has not begun with a batch for each worker.
func (o *oracle) checkAhead(r *run, op peer.Op, workers int) {
	n := &r.numbers
	switch op := op.(type) {
	case peer.DiffRevs:
		n.compared += int64(len(op.Docs))
	case peer.ReadChanges:
		if ahead, most := n.rows-n.compared, int64(workers*r.work.Work.Replication.WorkerBatchSize); n.diffs < enough && !r.pair.WentBack && ahead > most {
			o.w.fail("S30", "run %d of %s reads more changes, and has %d that it has not looked at; it may have %d", r.id, r.p.Name, ahead, most)
		}
	}
}
