package oracle

import (
	"slices"
	"time"

	"couchrelay/core/peer"
)

// limits are the invariants of what a run's replication allows.
type limits struct{ *chronicle }

var limitSubject = subject{
	begin: func(c *chronicle) {
		o := &limits{c}
		c.on.runCalls.add(func(c call) {
			o.checkOptions(c.run, c.op)
			o.checkLoad(c.run, c.op)
		})
	},
}

// Settings that a run is slowed down to whose last one ended because it was asked to, CouchDB's.
const (
	slowWorkers     = 2
	slowConnections = 5
	slowCheckpoint  = 5 * time.Second
)

// checkLoad is a part of S30: a run has no more batches under way, documents that it copies one by one and bodies in
// memory than its replication allows. It is called before the request leaves.
func (o *limits) checkLoad(r *run, op peer.Op) {
	rep := r.Replication()
	workers, connections := rep.WorkerProcesses, min(rep.Source.Connections, rep.Target.Connections)
	if r.Record().Throttled {
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
	for _, op := range r.InFlight() {
		count(op)
	}
	if batches > workers {
		o.Fail("S30", "run %d of %s works on %d batches at once, and may on %d", r.ID(), r.p.Name, batches, workers)
	}
	if most := max(1, connections-workers-1); copies > most {
		o.Fail("S30", "run %d of %s copies %d documents at once, and may %d", r.ID(), r.p.Name, copies, most)
	}
	repeated := func(d peer.DocRev) bool { return d.ID == fetch.Docs[0].ID && d.Rev == fetch.Docs[0].Rev }
	if is && !slices.ContainsFunc(r.numbers.again, repeated) { // what is repeated has its place
		held := r.KeptBytes(r.IsInFlight)
		for _, op := range r.InFlight() {
			if other, is := op.(peer.FetchDocs); is {
				held += other.Budget
			}
		}
		if most := o.w.Config().Memory; held > 0 && held+fetch.Budget > most {
			o.Fail("S30", "run %d of %s reads %d bytes of bodies more, holds %d, and may hold %d", r.ID(), r.p.Name, fetch.Budget, held, most)
		}
	}
}

// checkAhead is a part of S30: a run reads no more rows of a feed while it has not begun with a batch for each worker.
func (o *limits) checkAhead(r *run, op peer.Op, workers int) {
	n := &r.numbers
	switch op := op.(type) {
	case peer.DiffRevs:
		n.compared += int64(len(op.Docs))
	case peer.ReadChanges:
		if ahead, most := n.rows-n.compared, int64(workers*r.Replication().WorkerBatchSize); n.diffs < enough && !r.WentBack() && ahead > most {
			o.Fail("S30", "run %d of %s reads more changes, and has %d that it has not looked at; it may have %d", r.ID(), r.p.Name, ahead, most)
		}
	}
}

// checkOptions is a part of S30: a run asks for nothing that its replication rules out.
func (o *limits) checkOptions(r *run, op peer.Op) {
	rep := r.Replication()
	switch op := op.(type) {
	case peer.Create:
		if !slices.Equal(op.Params, rep.CreateTargetParams) {
			o.Fail("S30", "run %d of %s makes its target with %v, and should with %v", r.ID(), r.p.Name, op.Params, rep.CreateTargetParams)
		}
		if !rep.CreateTarget {
			o.Fail("S30", "run %d of %s makes its target without create_target", r.ID(), r.p.Name)
		}
	case peer.PutLocal:
		if !rep.UseCheckpoints {
			o.Fail("S30", "run %d of %s writes a checkpoint without use_checkpoints", r.ID(), r.p.Name)
		}
	case peer.FetchDocs:
		if !rep.UseBulkGet {
			o.Fail("S30", "run %d of %s reads in bulk without use_bulk_get", r.ID(), r.p.Name)
		}
	case peer.DiffRevs:
		if len(op.Docs) > rep.WorkerBatchSize {
			o.Fail("S30", "run %d of %s compares %d documents at once, with worker_batch_size %d", r.ID(), r.p.Name, len(op.Docs), rep.WorkerBatchSize)
		}
	}
}
